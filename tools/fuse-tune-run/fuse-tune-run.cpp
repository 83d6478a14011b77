//===- fuse-tune-run.cpp - Measure the candidates of fuse-tune ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A process in which a kernel failed or hangs can not go on, so that a child
// measures and this one watches: what a child was running when it ended is
// recorded, and the next one goes on without it. CUDA does not survive a fork
// either, which is why only children load the driver.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "fuse/Runtime/Host/Failure.h"
#include "fuse/Runtime/Trial/TuneFormat.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fuse;
using namespace fuse::trial;
using host::Failure;
using nlohmann::json;

namespace {

struct Options {
  std::string file, output;
  int device = 0;
  MeasureOptions measure;
};

/// What is known of each op: excluded candidates, and results by candidate.
struct Progress {
  size_t op = 0;
  std::vector<std::set<size_t>> excluded;
  std::vector<std::map<size_t, json>> results;
  /// The candidate that is running.
  std::optional<size_t> running;
  json device;
  bool complete = false;
  std::string fatal;
};

} // namespace

//===----------------------------------------------------------------------===//
// The child
//===----------------------------------------------------------------------===//

static void send(int pipe, const json &message) {
  std::string line = message.dump() + "\n";
  for (size_t done = 0; done < line.size();) {
    ssize_t count = ::write(pipe, line.data() + done, line.size() - done);
    if (count < 0 && errno != EINTR)
      std::_Exit(1);
    done += count > 0 ? size_t(count) : 0;
  }
}

/// Measures what is left, and says so line by line.
static void runChild(const Options &options, const TrialFile &file,
                     const Progress &progress, int pipe) {
  const json &description = file.getDescription();
  std::shared_ptr<Gpu> gpu;
  try {
    gpu = Gpu::open(options.device);
    std::string chip = "sm_" + std::to_string(gpu->getCapability()) + "a";
    int wanted = description.at("multiprocessors").get<int>();
    if (description.at("chip") != chip || wanted != gpu->getMultiprocessors())
      throw Failure(FUSE_ERROR_TARGET,
                    "candidates are for " +
                        description.at("chip").get<std::string>() + " with " +
                        std::to_string(wanted) + " multiprocessors, the " +
                        "device is " + chip + " with " +
                        std::to_string(gpu->getMultiprocessors()));
    send(pipe, {{"device",
                 {{"name", gpu->getName()},
                  {"driver", gpu->getDriverVersion()},
                  {"multiprocessors", gpu->getMultiprocessors()}}}});
    Measurer measurer(gpu, file, options.measure);
    const json &ops = description.at("ops");
    for (size_t op = progress.op; op < ops.size(); ++op) {
      send(pipe, {{"op", op}});
      MeasureEvents events;
      events.begins = [&](size_t candidate) {
        send(pipe, {{"begins", candidate}});
      };
      events.ends = [&](size_t candidate, json result) {
        send(pipe, {{"ends", candidate}, {"result", std::move(result)}});
      };
      measurer.measure(ops[op], progress.excluded[op], events);
    }
    send(pipe, {{"complete", true}});
  } catch (const Failure &failure) {
    // Once the device is lost this process is of no use, but another may be.
    if (failure.getStatus() != FUSE_ERROR_DEVICE_LOST &&
        failure.getStatus() != FUSE_ERROR_TIMEOUT)
      send(pipe, {{"fatal", failure.getMessage()}});
  } catch (const std::exception &error) {
    send(pipe, {{"fatal", error.what()}});
  }
  // A kernel that hangs would keep the driver from going.
  std::_Exit(0);
}

//===----------------------------------------------------------------------===//
// The parent
//===----------------------------------------------------------------------===//

static void receive(const json &message, Progress &progress) {
  if (message.contains("device"))
    progress.device = message["device"];
  if (message.contains("op")) {
    progress.op = message["op"];
    progress.running.reset();
  }
  if (message.contains("begins"))
    progress.running = message["begins"].get<size_t>();
  if (message.contains("ends")) {
    size_t candidate = message["ends"];
    const json &result = message["result"];
    progress.results[progress.op][candidate] = result;
    if (result["status"] != kStatusOk)
      progress.excluded[progress.op].insert(candidate);
    progress.running.reset();
  }
  if (message.contains("complete"))
    progress.complete = true;
  if (message.contains("fatal"))
    progress.fatal = message["fatal"];
}

/// Reads what a child says until it ends. False when it was silent too long.
static bool listen(int pipe, int timeoutMs, Progress &progress) {
  std::string buffer;
  char block[4096];
  while (true) {
    pollfd waiting = {pipe, POLLIN, 0};
    int ready = ::poll(&waiting, 1, timeoutMs);
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
      receive(json::parse(buffer.substr(0, end)), progress);
  }
}

/// How a child ended that did not say so.
static std::string describeExit(int status) {
  if (WIFSIGNALED(status))
    return std::string("the process ended by signal ") +
           ::strsignal(WTERMSIG(status));
  return "the process ended with status " + std::to_string(WEXITSTATUS(status));
}

/// Runs one child. Afterwards there is less to do, or `fatal` says why not.
static void runOnce(const Options &options, const TrialFile &file,
                    Progress &progress) {
  int pipes[2];
  if (::pipe(pipes) != 0)
    throw Failure(FUSE_ERROR_IO, std::strerror(errno));
  progress.running.reset();
  size_t before = 0, after = 0;
  for (const std::set<size_t> &set : progress.excluded)
    before += set.size();
  pid_t child = ::fork();
  if (child < 0)
    throw Failure(FUSE_ERROR_IO, std::strerror(errno));
  if (child == 0) {
    ::close(pipes[0]);
    runChild(options, file, progress, pipes[1]);
  }
  ::close(pipes[1]);
  // Packing the weights of an op takes seconds on a slow host.
  int silence = int(options.measure.timeoutMs) * 4 + 60000;
  bool ended = listen(pipes[0], silence, progress);
  ::close(pipes[0]);
  if (!ended)
    ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  if (progress.complete || !progress.fatal.empty())
    return;
  if (progress.running) {
    progress.results[progress.op][*progress.running] = {
        {"status", ended ? kStatusFailed : kStatusTimeout},
        {"detail", ended ? describeExit(status) : "the process was silent"}};
    progress.excluded[progress.op].insert(*progress.running);
  }
  for (const std::set<size_t> &set : progress.excluded)
    after += set.size();
  if (after == before)
    progress.fatal = describeExit(status);
}

/// The measurements file.
static json makeReport(const Options &options, const TrialFile &file,
                       const Progress &progress) {
  json report = file.getDescription();
  report["format"] = kMeasurementsFormat;
  report["device"] = progress.device;
  report["protocol"] = {{"name", "graph replay after a memset"},
                        {"flush_bytes", options.measure.flushBytes},
                        {"rounds", options.measure.rounds},
                        {"finalists", options.measure.finalists},
                        {"final_rounds", options.measure.finalRounds}};
  for (size_t op = 0; op < report["ops"].size(); ++op) {
    json &entry = report["ops"][op];
    entry.erase("arguments");
    for (size_t i = 0; i < entry["candidates"].size(); ++i) {
      json &candidate = entry["candidates"][i];
      candidate.erase("artifact");
      candidate.erase("error");
      auto found = progress.results[op].find(i);
      candidate.update(found != progress.results[op].end()
                           ? found->second
                           : json{{"status", kStatusFailed},
                                  {"detail", "it was not measured"}});
    }
  }
  return report;
}

static void printSummary(const json &report) {
  for (const json &op : report["ops"]) {
    const json *best = nullptr;
    size_t dropped = 0;
    for (const json &candidate : op["candidates"]) {
      if (candidate["status"] != kStatusOk) {
        ++dropped;
        std::printf("  %s: %s: %s\n",
                    candidate["status"].get<std::string>().c_str(),
                    candidate["schedule"].get<std::string>().c_str(),
                    candidate["detail"].get<std::string>().c_str());
      } else if (!best || candidate["median_us"] < (*best)["median_us"]) {
        best = &candidate;
      }
    }
    std::string first = "not measured";
    const json &choice = op["candidates"][0];
    if (choice["status"] == kStatusOk) {
      char text[64];
      std::snprintf(text, sizeof(text), "%.2f us",
                    choice["median_us"].get<double>());
      first = text;
    }
    std::printf("%s: best %.2f us, the model's choice %s, %zu of %zu dropped\n",
                op["text"].get<std::string>().c_str(),
                best ? (*best)["median_us"].get<double>() : 0.0, first.c_str(),
                dropped, op["candidates"].size());
  }
}

static void runTool(const Options &options) {
  TrialFile file(options.file, kCandidatesFormat, kTuneVersion);
  Progress progress;
  size_t count = file.getDescription().at("ops").size();
  progress.excluded.resize(count);
  progress.results.resize(count);
  while (!progress.complete && progress.fatal.empty())
    runOnce(options, file, progress);
  if (!progress.fatal.empty())
    throw Failure(FUSE_ERROR_DEVICE, progress.fatal);
  json report = makeReport(options, file, progress);
  host::writeFileAtomically(options.output, report.dump(1) + "\n");
  printSummary(report);
}

//===----------------------------------------------------------------------===//
// Command line
//===----------------------------------------------------------------------===//

static constexpr const char *kUsage =
    "usage: fuse-tune-run candidates.fusetune -o measurements.json [options]\n"
    "\n"
    "Runs and times what `fuse-tune candidates` wrote. Needs a CUDA driver,\n"
    "and neither a toolkit nor the compiler.\n"
    "\n"
    "  --device=N        ordinal of the device (0)\n"
    "  --rounds=N        replays of each candidate (20)\n"
    "  --finalists=N     how many of the fastest are measured again (5)\n"
    "  --final-rounds=N  replays of those (60)\n"
    "  --timeout-ms=N    how long a launch may take (5000)\n"
    "  --flush-mb=N      what is written between replays (256)\n";

/// The number behind `name=`, from `least` on.
static bool readNumber(const std::string &text, const std::string &name,
                       long least, long &number) {
  if (text.rfind(name + "=", 0) != 0)
    return false;
  const char *digits = text.c_str() + name.size() + 1;
  char *end = nullptr;
  errno = 0;
  number = std::strtol(digits, &end, 10);
  if (end == digits || *end != '\0' || errno != 0 || number < least ||
      number > 1000000)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  name + ": expected a number from " + std::to_string(least) +
                      " to 1000000, got '" + digits + "'");
  return true;
}

static Options readOptions(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    long number = 0;
    if (text == "-o" && i + 1 < argc)
      options.output = argv[++i];
    else if (readNumber(text, "--device", 0, number))
      options.device = int(number);
    else if (readNumber(text, "--rounds", 1, number))
      options.measure.rounds = int(number);
    else if (readNumber(text, "--finalists", 1, number))
      options.measure.finalists = size_t(number);
    else if (readNumber(text, "--final-rounds", 1, number))
      options.measure.finalRounds = int(number);
    else if (readNumber(text, "--timeout-ms", 1, number))
      options.measure.timeoutMs = uint64_t(number);
    else if (readNumber(text, "--flush-mb", 1, number))
      options.measure.flushBytes = size_t(number) << 20;
    else if (text.size() > 1 && text[0] == '-')
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "unknown option '" + text + "'; see --help");
    else if (options.file.empty())
      options.file = text;
    else
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT, "one file is read, got '" +
                                                     options.file + "' and '" +
                                                     text + "'");
  }
  if (options.file.empty())
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "there is no file to read; see --help");
  if (options.output.empty())
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT, "-o is missing");
  return options;
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], "--help") == 0) {
      std::fputs(kUsage, stdout);
      return 0;
    }
  try {
    runTool(readOptions(argc, argv));
  } catch (const std::exception &error) {
    std::fprintf(stderr, "fuse-tune-run: error: %s\n", error.what());
    return 1;
  }
  return 0;
}
