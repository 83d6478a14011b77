//===- Tune.cpp - Measure the candidates of fuse-tune ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A child process measures and this process watches. If the child ends, the
// candidate that was running is recorded, and the next child continues without
// it.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Measure.h"
#include "fuse/Measure/Child.h"
#include "fuse/Measure/Options.h"
#include "fuse/Measure/TuneFormat.h"
#include "fuse/Runtime/Core/Failure.h"

#include <cstdio>

using namespace fuse;
using namespace fuse::measure;
using nlohmann::json;
using runtime::Failure;

namespace {

struct Options {
  std::string file, output;
  int device = 0;
  MeasureOptions measure;
};

/// State of each op: excluded candidates, and results by candidate.
struct Progress {
  size_t op = 0;
  std::vector<std::set<size_t>> excluded;
  std::vector<std::map<size_t, json>> results;
  /// The candidate that is currently running.
  std::optional<size_t> running;
  json device;
  bool complete = false;
  std::string fatal;
};

} // namespace

//===----------------------------------------------------------------------===//
// The child
//===----------------------------------------------------------------------===//

/// Whether a GPU runs code for `chip`. PTX without instructions of one chip
/// runs on later ones, too.
static bool runsOn(const std::string &chip, int capability) {
  std::string name = "sm_" + std::to_string(capability);
  if (chip == name + "a")
    return true;
  return chip.rfind("sm_", 0) == 0 && chip.back() != 'a' &&
         std::atoi(chip.c_str() + 3) <= capability;
}

/// Measures the remaining candidates, and sends one line per event.
static void runChild(const Options &options, const TestBundle &file,
                     const Progress &progress,
                     const std::function<void(const json &)> &send) {
  const json &description = file.getDescription();
  std::shared_ptr<Gpu> gpu;
  try {
    gpu = Gpu::open(options.device);
    std::string chip = "sm_" + std::to_string(gpu->getCapability()) + "a";
    int wanted = description.at("multiprocessors").get<int>();
    if (!runsOn(description.at("chip"), gpu->getCapability()) ||
        wanted != gpu->getMultiprocessors())
      throw Failure(FUSE_ERROR_TARGET,
                    "candidates are for " +
                        description.at("chip").get<std::string>() + " with " +
                        std::to_string(wanted) + " multiprocessors, the " +
                        "device is " + chip + " with " +
                        std::to_string(gpu->getMultiprocessors()));
    send({{"device",
           {{"name", gpu->getName()},
            {"driver", gpu->getDriverVersion()},
            {"multiprocessors", gpu->getMultiprocessors()}}}});
    Measurer measurer(gpu, file, options.measure);
    const json &ops = description.at("ops");
    for (size_t op = progress.op; op < ops.size(); ++op) {
      send({{"op", op}});
      MeasureEvents events;
      events.begins = [&](size_t candidate) { send({{"begins", candidate}}); };
      events.ends = [&](size_t candidate, json result) {
        send({{"ends", candidate}, {"result", std::move(result)}});
      };
      measurer.measure(ops[op], progress.excluded[op], events);
    }
    send({{"complete", true}});
  } catch (const Failure &failure) {
    // A lost device makes this process useless, but a new process may work.
    if (failure.getStatus() != FUSE_ERROR_DEVICE_LOST &&
        failure.getStatus() != FUSE_ERROR_TIMEOUT)
      send({{"fatal", failure.getMessage()}});
  } catch (const std::exception &error) {
    send({{"fatal", error.what()}});
  }
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

/// Runs one child. Afterwards fewer candidates remain, or `fatal` states an
/// error.
static void runOnce(const Options &options, const TestBundle &file,
                    Progress &progress) {
  progress.running.reset();
  size_t before = 0, after = 0;
  for (const std::set<size_t> &set : progress.excluded)
    before += set.size();
  // In milliseconds. Packing the weights of an op takes seconds on a slow host.
  int silence = int(options.measure.timeoutMs) * 4 + 60000;
  ChildEnd end = runInChild(
      [&](const auto &send) { runChild(options, file, progress, send); },
      [&](const json &message) { receive(message, progress); }, silence);
  if (progress.complete || !progress.fatal.empty())
    return;
  if (progress.running) {
    progress.results[progress.op][*progress.running] = {
        {"status", end.wasSilent ? kStatusTimeout : kStatusFailed},
        {"detail", end.describe()}};
    progress.excluded[progress.op].insert(*progress.running);
  }
  for (const std::set<size_t> &set : progress.excluded)
    after += set.size();
  if (after == before)
    progress.fatal = end.describe();
}

/// Creates the contents of the measurements file.
static json makeReport(const Options &options, const TestBundle &file,
                       const Progress &progress) {
  json report = file.getDescription();
  report["format"] = kMeasurementsFormat;
  report["device"] = progress.device;
  report["protocol"] = {{"name", kProtocols[options.measure.protocol]},
                        {"launches", options.measure.getLaunches()},
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
    const json *best = findFastest(op["candidates"]);
    size_t dropped = 0;
    for (const json &candidate : op["candidates"]) {
      if (candidate["status"] == kStatusOk)
        continue;
      ++dropped;
      std::printf("  %s: %s: %s\n",
                  candidate["status"].get<std::string>().c_str(),
                  candidate["schedule"].get<std::string>().c_str(),
                  candidate["detail"].get<std::string>().c_str());
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
  TestBundle file(options.file, kCandidatesFormat, kTuneVersion);
  Progress progress;
  size_t count = file.getDescription().at("ops").size();
  progress.excluded.resize(count);
  progress.results.resize(count);
  while (!progress.complete && progress.fatal.empty())
    runOnce(options, file, progress);
  if (!progress.fatal.empty())
    throw Failure(FUSE_ERROR_DEVICE, progress.fatal);
  json report = makeReport(options, file, progress);
  runtime::writeFileAtomically(options.output, report.dump(1) + "\n");
  printSummary(report);
}

//===----------------------------------------------------------------------===//
// Command line
//===----------------------------------------------------------------------===//

static constexpr const char *kUsage =
    "usage: fuse-device-run tune candidates.fusetune -o measurements.json "
    "[options]\n"
    "\n"
    "Runs and times what `fuse-tune candidates` wrote. Needs a CUDA driver,\n"
    "and neither a toolkit nor the compiler.\n"
    "\n"
    "  --device=N        ordinal of the device (0)\n"
    "  --protocol=NAME   what is timed: 'single' launches, a 'chain' of\n"
    "                    launches that overlap, or an 'exclusive-chain', "
    "whose\n"
    "                    blocks begin one by one (single)\n"
    "  --launches=N      launches of a chain (8)\n"
    "  --rounds=N        replays of each candidate (20)\n"
    "  --finalists=N     how many of the fastest are measured again (5)\n"
    "  --final-rounds=N  replays of those (60)\n"
    "  --timeout-ms=N    how long a launch may take (5000)\n"
    "  --flush-mb=N      what is written between replays (256)\n";

static Options readOptions(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    uint64_t number = 0;
    auto read = [&](const char *name, uint64_t least) {
      return readNumber(text, name, least, 1000000, number);
    };
    if (text == "-o" && i + 1 < argc)
      options.output = argv[++i];
    else if (read("--device", 0))
      options.device = int(number);
    else if (text.rfind("--protocol=", 0) == 0)
      options.measure.protocol = readProtocol(text.substr(11));
    else if (readNumber(text, "--launches", 2, 1000, number))
      options.measure.chainedLaunches = int(number);
    else if (read("--rounds", 1))
      options.measure.rounds = int(number);
    else if (read("--finalists", 1))
      options.measure.finalists = size_t(number);
    else if (read("--final-rounds", 1))
      options.measure.finalRounds = int(number);
    else if (read("--timeout-ms", 1))
      options.measure.timeoutMs = uint64_t(number);
    else if (read("--flush-mb", 1))
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

int runTune(int argc, char **argv) {
  return measure::runMain(argc, argv, "fuse-device-run", kUsage, [&] {
    runTool(readOptions(argc, argv));
    return 0;
  });
}
