//===- Test.cpp - Check cases of fuse-fuzz on a GPU -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every case runs twice with poisoned results and workspaces and has to give
// the same bits, which are checked against the contract. --launches sets the
// number of runs, and --results keeps the results. A child process runs the
// cases and this process watches it, so that a case that fails or hangs does
// not end the run. With --soak, several streams with one thread each then
// launch the cases for a time. They compare the bits with those of the first
// run.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "fuse-c/Runtime.h"
#include "fuse/Measure/Child.h"
#include "fuse/Measure/Emulator.h"
#include "fuse/Measure/Options.h"
#include "fuse/Measure/TestBundle.h"
#include "fuse/Measure/TestBundleFormat.h"
#include "fuse/Runtime/Core/Failure.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

using namespace fuse;
using namespace fuse::measure;
using nlohmann::json;
using runtime::Failure;
using Send = std::function<void(const json &)>;

namespace {

struct Options {
  std::vector<std::string> files;
  std::string output;
  int device = 0;
  uint64_t timeoutMs = 10000;
  /// Run only case i with i % parts == part, and at most `limit` cases.
  size_t part = 0, parts = 1, limit = size_t(1) << 30;
  /// Run in this process, for tools that do not follow child processes.
  bool inProcess = false;
  /// Number of runs of each case, or 0 for two without reporting digests.
  uint64_t launches = 0;
  /// Folder for the results of first launches, or empty.
  std::string results;
  /// Do not poison the workspace, for tools that detect uninitialized reads.
  bool keepWorkspace = false;
  /// Duration of the soak in seconds, and number of streams.
  double soak = 0;
  size_t streams = 4;
  /// Number of cases that each stream of the soak launches.
  size_t soakCases = 32;
  /// Use the emulator in place of a GPU.
  bool emulates = false;
  /// Make the device exclusive, and let launches of the soak overlap.
  bool exclusive = false;
};

/// A case from one of the files.
struct Case {
  const TestBundle *file;
  const json *description;
};

} // namespace

static std::vector<Argument> readArguments(const Case &item) {
  std::vector<Argument> arguments;
  for (const json &object : item.description->at("arguments"))
    arguments.push_back(item.file->readArgument(object));
  return arguments;
}

static std::unique_ptr<Call> makeCall(const std::shared_ptr<Gpu> &gpu,
                                      const Case &item) {
  const json &description = *item.description;
  ArgumentStore store(*item.file);
  return std::make_unique<Call>(
      gpu,
      item.file->getSection(description.at("artifact").get<size_t>(),
                            kArtifactSection),
      description.at("function").get<std::string>(), readArguments(item), store,
      nullptr);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Digest that identifies the results of a launch.
static std::string getDigest(const std::vector<std::string> &results) {
  std::string all;
  for (const std::string &result : results)
    all += result;
  return runtime::toHex(runtime::getDigest(all)).substr(0, 16);
}

/// Writes the raw bytes of a case's results.
static void keepResults(const std::string &folder, size_t index,
                        const std::vector<std::string> &results) {
  for (size_t i = 0; i < results.size(); ++i)
    runtime::writeFileAtomically(folder + "/" + std::to_string(index) + "-" +
                                     std::to_string(i) + ".bin",
                                 results[i]);
}

/// Returns the outcome of a case: "status" and the comparisons.
static json checkCase(const std::shared_ptr<Gpu> &gpu, void *stream,
                      const Case &item, size_t index, const Options &options) {
  std::unique_ptr<Call> call = makeCall(gpu, item);
  auto run = [&] {
    call->poison(stream);
    if (!options.keepWorkspace)
      call->poisonWorkspace(stream);
    call->launch(stream);
    gpu->wait(stream, options.timeoutMs);
    return call->download();
  };
  std::vector<std::string> first = run();
  if (!options.results.empty())
    keepResults(options.results, index, first);
  std::vector<std::string> digests = {getDigest(first)};
  uint64_t launches = options.launches ? options.launches : 2;
  uint64_t differing = 0;
  while (digests.size() < launches) {
    digests.push_back(getDigest(run()));
    differing += digests.back() != digests.front();
  }
  json outcome = {{"status", "ok"}};
  if (differing > 0)
    outcome = {{"status", "unstable"},
               {"detail", std::to_string(differing) + " of " +
                              std::to_string(launches) +
                              " launches do not give the bits of the first"}};
  if (options.launches)
    outcome["digests"] = digests;
  const json &results = item.description->at("results");
  json compared = json::array();
  for (size_t i = 0; i < first.size(); ++i) {
    const json &bound = results.at(i);
    std::string expected(item.file->getSection(
        bound.at("expected").get<size_t>(), kExpectedSection));
    const std::string &element = call->getFunction().results[i].element;
    Comparison found = compare(element, first[i], expected);
    double energy = bound.at("energy"), part = bound.at("element");
    std::string_view contract = item.file->getSection(
        bound.at("contract").get<size_t>(), kContractSection);
    std::vector<size_t> outside = findOutside(element, first[i], contract);
    compared.push_back(
        {{"values", found.values},
         {"outside", outside.size()},
         {"different", found.different},
         {"specials", found.specials},
         {"energy", found.energy},
         {"element", found.maxElement},
         {"ratio", std::max(found.energy / energy, found.maxElement / part)},
         {"ulps", found.ulps},
         {"type", element}});
    size_t bytes = getElementBytes(element);
    if (!outside.empty()) {
      double range[2];
      std::memcpy(range, &contract[outside[0] * sizeof(range)], sizeof(range));
      compared.back()["first_outside"] = {
          {"place", outside[0]},
          {"value", readValue(element, &first[i][outside[0] * bytes])},
          {"low", range[0]},
          {"high", range[1]}};
    }
    // The distance from the reference is only reported: the contract is wide
    // where sums cancel.
    if (outside.empty())
      continue;
    size_t place = outside[0] * bytes;
    outcome["status"] = "wrong";
    outcome["detail"] =
        "result " + std::to_string(i) + " at " + std::to_string(outside[0]) +
        ": " + std::to_string(readValue(element, &first[i][place])) +
        ", expected " + std::to_string(readValue(element, &expected[place]));
  }
  outcome["results"] = std::move(compared);
  return outcome;
}

/// Runs cases from `begin` on. Throws if the device cannot be used any more.
static void checkCases(const Options &options, const std::vector<Case> &cases,
                       size_t begin, const Send &send) {
  std::shared_ptr<Gpu> gpu = Gpu::open(options.device);
  send({{"device",
         {{"name", gpu->getName()}, {"driver", gpu->getDriverVersion()}}}});
  void *stream = gpu->createStream();
  for (size_t i = begin; i < cases.size(); ++i) {
    send({{"begins", i}});
    try {
      send({{"ends", i},
            {"outcome", checkCase(gpu, stream, cases[i], i, options)}});
    } catch (const Failure &failure) {
      bool hangs = failure.getStatus() == FUSE_ERROR_TIMEOUT;
      send({{"ends", i},
            {"outcome",
             {{"status", hangs ? "timeout" : "failed"},
              {"detail", failure.getMessage()}}}});
      if (hangs || failure.getStatus() == FUSE_ERROR_DEVICE_LOST)
        throw;
    }
  }
  send({{"complete", true}});
}

namespace {

/// State of all cases.
struct Progress {
  std::vector<json> outcomes;
  json device;
  size_t next = 0;
  std::optional<size_t> running;
  bool complete = false;
  std::string fatal;

  void receive(const json &message) {
    if (message.contains("device"))
      device = message["device"];
    if (message.contains("begins"))
      running = message["begins"].get<size_t>();
    if (message.contains("ends")) {
      next = message["ends"].get<size_t>() + 1;
      outcomes[next - 1] = message["outcome"];
      running.reset();
    }
    complete |= message.contains("complete");
    if (message.contains("fatal"))
      fatal = message["fatal"];
  }
};

} // namespace

/// Runs `body`, and reports a failure to start.
static void guard(const Send &send, const std::function<void()> &body) {
  try {
    body();
  } catch (const Failure &failure) {
    if (failure.getStatus() != FUSE_ERROR_TIMEOUT &&
        failure.getStatus() != FUSE_ERROR_DEVICE_LOST)
      send({{"fatal", failure.getMessage()}});
  } catch (const std::exception &error) {
    send({{"fatal", error.what()}});
  }
}

static Progress checkAll(const Options &options,
                         const std::vector<Case> &cases) {
  Progress progress;
  progress.outcomes.resize(cases.size());
  auto receive = [&](const json &message) { progress.receive(message); };
  if (options.inProcess)
    guard(receive, [&] { checkCases(options, cases, 0, receive); });
  while (!options.inProcess && !progress.complete && progress.fatal.empty()) {
    size_t before = progress.next;
    ChildEnd end = runInChild(
        [&](const Send &send) {
          guard(send, [&] { checkCases(options, cases, progress.next, send); });
        },
        receive, int(options.timeoutMs) * 2 + 60000);
    if (progress.running) {
      progress.outcomes[*progress.running] = {
          {"status", end.wasSilent ? "timeout" : "failed"},
          {"detail", end.describe()}};
      progress.next = *progress.running + 1;
      progress.running.reset();
    }
    if (progress.next == before && !progress.complete && progress.fatal.empty())
      progress.fatal = end.describe();
  }
  if (!progress.fatal.empty())
    throw Failure(FUSE_ERROR_DEVICE, progress.fatal);
  return progress;
}

//===----------------------------------------------------------------------===//
// Soak
//===----------------------------------------------------------------------===//

/// Launches cases on a stream until `end`, many before each wait. Compares
/// their results with those of the first run.
static void soakStream(const std::shared_ptr<Gpu> &gpu,
                       const std::vector<Case> &cases, const Options &options,
                       std::chrono::steady_clock::time_point end,
                       std::atomic<uint64_t> &launches,
                       std::atomic<uint64_t> &wrong) {
  void *stream = gpu->createStream();
  uint64_t timeoutMs = options.timeoutMs;
  std::vector<std::unique_ptr<Call>> calls;
  std::vector<std::vector<std::string>> first;
  for (const Case &item : cases) {
    calls.push_back(makeCall(gpu, item));
    calls.back()->launch(stream);
    gpu->wait(stream, timeoutMs);
    first.push_back(calls.back()->download());
  }
  constexpr int turns = 20;
  while (std::chrono::steady_clock::now() < end) {
    for (const auto &call : calls) {
      call->poison(stream);
      call->poisonWorkspace(stream);
    }
    for (int turn = 0; turn < turns; ++turn)
      for (const auto &call : calls)
        call->launch(stream, options.exclusive ? FUSE_LAUNCH_OVERLAP : 0);
    gpu->wait(stream, timeoutMs);
    for (size_t i = 0; i < calls.size(); ++i)
      wrong += calls[i]->download() != first[i];
    launches += uint64_t(turns) * calls.size();
  }
}

static json soak(const Options &options, const std::vector<Case> &cases) {
  json report;
  auto body = [&](const Send &send) {
    std::shared_ptr<Gpu> gpu = Gpu::open(options.device);
    if (options.exclusive)
      gpu->getDevice().setExclusive(true);
    auto begin = std::chrono::steady_clock::now();
    auto end =
        begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(options.soak));
    std::atomic<uint64_t> launches = 0, wrong = 0;
    std::mutex mutex;
    json failures = json::array();
    std::vector<std::thread> threads;
    for (size_t i = 0; i < options.streams; ++i)
      threads.emplace_back([&, i] {
        std::vector<Case> own;
        for (size_t j = 0; j < options.soakCases && !cases.empty(); ++j)
          own.push_back(cases[(i + j * options.streams) % cases.size()]);
        try {
          soakStream(gpu, own, options, end, launches, wrong);
        } catch (const std::exception &error) {
          std::lock_guard<std::mutex> lock(mutex);
          failures.push_back(error.what());
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    send({{"streams", options.streams},
          {"cases_per_stream", options.soakCases},
          {"exclusive", options.exclusive},
          {"seconds", took.count()},
          {"launches", launches.load()},
          {"wrong", wrong.load()},
          {"failures", failures}});
  };
  ChildEnd end =
      runInChild([&](const Send &send) { guard(send, [&] { body(send); }); },
                 [&](const json &message) { report = message; },
                 int(options.soak * 1000) + 120000);
  if (report.is_null())
    report = {{"fatal", end.describe()}};
  return report;
}

//===----------------------------------------------------------------------===//
// The tool
//===----------------------------------------------------------------------===//

static int runTool(const Options &options) {
  if (options.emulates)
    chooseEmulator();
  if (!options.results.empty())
    std::filesystem::create_directories(options.results);
  std::vector<std::unique_ptr<TestBundle>> files;
  std::vector<Case> cases;
  size_t index = 0;
  for (const std::string &path : options.files) {
    files.push_back(
        std::make_unique<TestBundle>(path, kBundleFormat, kBundleVersion));
    for (const json &item : files.back()->getDescription().at("cases"))
      if (index++ % options.parts == options.part &&
          cases.size() < options.limit)
        cases.push_back({files.back().get(), &item});
  }
  Progress progress = checkAll(options, cases);
  json report = {{"format", "fuse-test-outcomes"},
                 {"version", kBundleVersion},
                 {"device", progress.device}};
  std::map<std::string, std::map<std::string, size_t>> counts;
  std::vector<Case> good;
  json list = json::array();
  for (size_t i = 0; i < cases.size(); ++i) {
    const json &description = *cases[i].description;
    json entry = progress.outcomes[i];
    entry["name"] = description.at("name");
    entry["path"] = description.at("path");
    std::string status = entry.at("status");
    ++counts[description.at("path")][status];
    if (status == "ok")
      good.push_back(cases[i]);
    else
      std::printf("%s (%s): %s: %s\n", entry["name"].get<std::string>().c_str(),
                  entry["path"].get<std::string>().c_str(), status.c_str(),
                  entry.value("detail", "").c_str());
    list.push_back(std::move(entry));
  }
  report["counts"] = counts;
  report["cases"] = std::move(list);
  if (options.soak > 0)
    report["soak"] = soak(options, good);
  runtime::writeFileAtomically(options.output, report.dump(1) + "\n");
  std::printf("%zu cases, %zu ok\n", cases.size(), good.size());
  bool soaked = options.soak == 0 || (report["soak"].value("wrong", 1) == 0 &&
                                      report["soak"]["failures"].empty());
  return good.size() == cases.size() && soaked ? 0 : 1;
}

static constexpr const char *kUsage =
    "usage: fuse-device-run test file... -o outcomes.json [options]\n"
    "\n"
    "Runs the cases that `fuse-fuzz --emit` wrote on a GPU and compares them\n"
    "with the CPU's results. Exits with 1 when one does not hold.\n"
    "\n"
    "  --device=N       ordinal of the device (0)\n"
    "  --emulate        no GPU, but the emulator that is built with this\n"
    "  --timeout-ms=N   how long a launch may take (10000)\n"
    "  --part=I --parts=N  only each N-th case, from I on\n"
    "  --limit=N        number of cases at most\n"
    "  --in-process     no child, for tools that watch one process\n"
    "  --launches=N     launch each case so often instead of twice, and write\n"
    "                   the digest of what each launch gave\n"
    "  --results=FOLDER write what the first launch of each case gave, as\n"
    "                   CASE-RESULT.bin\n"
    "  --keep-workspace do not fill workspaces with NaN before launches, so\n"
    "                   that initcheck sees what is read of them\n"
    "  --soak=SECONDS --streams=N --soak-cases=N\n"
    "                   afterwards launch the cases that hold, on N streams "
    "(4)\n"
    "                   with N cases each (32)\n"
    "  --exclusive      soak one stream of an exclusive device, where each\n"
    "                   launch overlaps the one before it; needs --streams=1\n";

static Options readOptions(int argc, char **argv) {
  const std::string results = "--results=";
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    uint64_t number = 0;
    auto read = [&](const char *name, uint64_t &to) {
      return readNumber(text, name, 0, 100000000, to);
    };
    if (text == "-o" && i + 1 < argc)
      options.output = argv[++i];
    else if (text == "--in-process")
      options.inProcess = true;
    else if (text == "--keep-workspace")
      options.keepWorkspace = true;
    else if (text == "--emulate")
      options.emulates = true;
    else if (text == "--exclusive")
      options.exclusive = true;
    else if (read("--device", number))
      options.device = int(number);
    else if (read("--timeout-ms", number))
      options.timeoutMs = number;
    else if (readNumber(text, "--launches", 1, 1000000, options.launches))
      continue;
    else if (text.rfind(results, 0) == 0)
      options.results = text.substr(results.size());
    // At most one day.
    else if (readNumber(text, "--soak", 0, 86400, number))
      options.soak = double(number);
    else if (read("--part", options.part) || read("--parts", options.parts) ||
             read("--limit", options.limit) ||
             read("--streams", options.streams) ||
             read("--soak-cases", options.soakCases))
      continue;
    else if (text.size() > 1 && text[0] == '-')
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "unknown option '" + text + "'; see --help");
    else
      options.files.push_back(text);
  }
  if (options.files.empty())
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "there is no file to read; see --help");
  if (options.output.empty())
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT, "-o is missing");
  if (options.parts == 0 || options.part >= options.parts)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "--part: " + std::to_string(options.part) +
                      " is not below --parts, which is " +
                      std::to_string(options.parts));
  if (options.exclusive && options.streams != 1)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "--exclusive is for one stream, --streams is " +
                      std::to_string(options.streams));
  return options;
}

int runTest(int argc, char **argv) {
  return measure::runMain(argc, argv, "fuse-device-run", kUsage,
                          [&] { return runTool(readOptions(argc, argv)); });
}
