//===- Child.cpp - Work in a child process that may fail ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Measure/Child.h"
#include "fuse/Runtime/Core/Failure.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fuse;
using namespace fuse::measure;
using nlohmann::json;

std::string ChildEnd::describe() const {
  if (wasSilent)
    return "the process was silent";
  if (WIFSIGNALED(status))
    return std::string("the process ended by signal ") +
           ::strsignal(WTERMSIG(status));
  return "the process ended with status " + std::to_string(WEXITSTATUS(status));
}

static void sendLine(int pipe, const json &message) {
  std::string line = message.dump() + "\n";
  for (size_t done = 0; done < line.size();) {
    ssize_t count = ::write(pipe, line.data() + done, line.size() - done);
    // The parent has closed the pipe.
    if (count < 0 && errno != EINTR)
      std::_Exit(1);
    done += count > 0 ? size_t(count) : 0;
  }
}

/// Reads a child's messages until it ends. Returns false if it was silent too
/// long.
static bool listen(int pipe, int silenceMs,
                   const std::function<void(const json &)> &receive) {
  std::string buffer;
  char block[4096];
  while (true) {
    pollfd waiting = {pipe, POLLIN, 0};
    int ready = ::poll(&waiting, 1, silenceMs);
    if (ready == 0)
      return false;
    ssize_t count = ready > 0 ? ::read(pipe, block, sizeof(block)) : -1;
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return true;
    buffer.append(block, size_t(count));
    for (size_t end; (end = buffer.find('\n')) != std::string::npos;
         buffer.erase(0, end + 1))
      receive(json::parse(buffer.substr(0, end)));
  }
}

ChildEnd measure::runInChild(
    const std::function<void(const std::function<void(const json &)> &)> &body,
    const std::function<void(const json &)> &receive, int silenceMs) {
  int pipes[2];
  if (::pipe(pipes) != 0)
    throw runtime::Failure(FUSE_ERROR_IO, std::strerror(errno));
  pid_t child = ::fork();
  if (child < 0)
    throw runtime::Failure(FUSE_ERROR_IO, std::strerror(errno));
  if (child == 0) {
    ::close(pipes[0]);
    body([&](const json &message) { sendLine(pipes[1], message); });
    std::_Exit(0);
  }
  ::close(pipes[1]);
  ChildEnd end;
  end.wasSilent = !listen(pipes[0], silenceMs, receive);
  ::close(pipes[0]);
  if (end.wasSilent)
    ::kill(child, SIGKILL);
  while (::waitpid(child, &end.status, 0) < 0 && errno == EINTR)
    continue;
  return end;
}
