//===- Regress.cpp - Write failures as small tests ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Regress.h"
#include "Reducer.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <cstring>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace fuse;

/// Reads all output of a process from a pipe until it ends.
static std::string readAll(int pipe) {
  std::string text;
  char buffer[4096];
  ssize_t size;
  while ((size = read(pipe, buffer, sizeof(buffer))) > 0 ||
         (size < 0 && errno == EINTR))
    if (size > 0)
      text.append(buffer, size);
  return text;
}

static void writeAll(int pipe, StringRef text) {
  while (!text.empty()) {
    ssize_t size = write(pipe, text.data(), text.size());
    if (size < 0 && errno != EINTR)
      return;
    text = text.drop_front(size < 0 ? 0 : size);
  }
}

Outcome fuse::runIsolated(const std::function<Outcome()> &check,
                          unsigned seconds) {
  Outcome outcome;
  int ends[2];
  llvm::outs().flush();
  if (pipe(ends) != 0)
    return check();
  pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return check();
  }
  if (child == 0) {
    close(ends[0]);
    // Limits end the process if it loops or hangs. The wall-clock limit is
    // longer, since other processes may use most of the time.
    std::signal(SIGXCPU, SIG_DFL);
    std::signal(SIGALRM, SIG_DFL);
    rlimit limit = {seconds, seconds};
    setrlimit(RLIMIT_CPU, &limit);
    alarm(20 * seconds);
    Outcome own = check();
    std::string text(reinterpret_cast<const char *>(&own.counts),
                     sizeof(own.counts));
    writeAll(ends[1], text + own.failed + "\n" + own.errors);
    _exit(0);
  }
  close(ends[1]);
  std::string text = readAll(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
      text.size() > sizeof(outcome.counts)) {
    std::memcpy(&outcome.counts, text.data(), sizeof(outcome.counts));
    auto [failed, errors] =
        StringRef(text).drop_front(sizeof(outcome.counts)).split('\n');
    outcome.failed = failed.str();
    outcome.errors = errors.str();
    return outcome;
  }
  bool isLate = WIFSIGNALED(status) &&
                (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGXCPU ||
                 WTERMSIG(status) == SIGKILL);
  outcome.failed = isLate ? "time" : "crash";
  outcome.errors =
      isLate ? "  takes longer than " + std::to_string(seconds) + " seconds\n"
             : "  ended its process\n";
  return outcome;
}

std::string fuse::writeRegression(ModuleOp module, const Outcome &outcome,
                                  StringRef folder, uint64_t seed,
                                  StringRef options,
                                  const std::function<Outcome(ModuleOp)> &check,
                                  double seconds) {
  Reduction reduction;
  reduction.maxSeconds = seconds;
  OwningOpRef<ModuleOp> small = reduceModule(
      module,
      [&](ModuleOp candidate) {
        return check(candidate).failed == outcome.failed;
      },
      reduction);
  Outcome last = check(*small);
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, outcome.failed + "-" + std::to_string(seed) +
                                    ".mlir");
  std::error_code error = llvm::sys::fs::create_directories(folder);
  if (!error) {
    llvm::raw_fd_ostream os(path, error);
    if (!error) {
      os << "// RUN: fuse-fuzz %s " << options << " | FileCheck %s\n"
         << "// CHECK: no failure\n\n// Check '" << outcome.failed
         << "' failed:\n";
      SmallVector<StringRef> lines;
      StringRef(last.errors).split(lines, '\n', -1, /*KeepEmpty=*/false);
      for (StringRef line : ArrayRef(lines).take_front(3))
        os << "// " << line.trim().take_front(200) << "\n";
      os << "\n";
      // If locations do not matter, remove all of them.
      bool hasLocations = false;
      small->walk([&](Operation *op) {
        hasLocations |= !isa<UnknownLoc>(op->getLoc());
      });
      OpPrintingFlags flags;
      flags.enableDebugInfo(hasLocations, /*prettyForm=*/false);
      small->print(os, flags);
      os << "\n";
      llvm::outs() << "reduced: " << path << " (" << reduction.steps
                   << " steps, " << reduction.tries << " tries)\n";
      return path.str().str();
    }
  }
  llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
      << path << ": " << error.message() << "\n";
  return "";
}
