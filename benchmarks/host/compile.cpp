//===- compile.cpp - Time until the first kernel --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   compile file.mlir [trace.json [target]]
//
// Prints one JSON object per target with the milliseconds of each step in this
// process. There is a first time, when the libraries have just been loaded, and
// the median of the ten runs after it. Fields have processor time, those ending
// in `_wall_ms` wall-clock time. A nonempty second argument names a file for a
// Perfetto trace of the first compilation. A third one selects a single target,
// so that its first time is also the first of the process.
//   context  making a context with all dialects
//   parse    text to IR
//   form     recognizing layers and forming kernels
//   compile  fused IR to an artifact: planning, portable code, code for the CPU
//   load     checking the artifact, linking its code
//   ready    preparing an instance, for up to 8 tokens where there are kernels
//            for ranges: scheduled kernels to PTX, and what the driver does
//   call     the first launch, on the CPU
//   rest     not part of the sum: kernels for all other ranges, on all threads
// For GPU code, the steps after `compile` need a driver. The fake driver of the
// tests works too and loads PTX in no time.
//
//===----------------------------------------------------------------------===//

#include "Tensor.h"
#include "fuse-c/Compiler.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include <sys/resource.h>

using namespace embed;
using namespace fuse::cxx;

static constexpr int kRounds = 11;
static constexpr int64_t kFewTokens = 8;

namespace {

struct Target {
  const char *name;
  const char *cpu;
  const char *chip;
  int32_t portable, assemble;
  /// Largest number of tokens of scheduled kernels, or 0 for the default:
  /// kernels for ranges that cover any number.
  int32_t tokens;
};

/// Times of a step: processor time, which does not depend on other load of the
/// machine, and wall-clock time.
struct Step {
  std::string name;
  double processor, wall;
};

/// Measures the time between marks. Processor time includes child processes.
struct Clock {
  void mark(const char *name) {
    double processor = getProcessor(), wall = getWall();
    steps.push_back({name, processor - lastProcessor, wall - lastWall});
    lastProcessor = getProcessor();
    lastWall = getWall();
  }
  static double getWall() {
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  static double getProcessor() {
    double ms = 0;
    for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      rusage usage;
      ::getrusage(who, &usage);
      for (const timeval &time : {usage.ru_utime, usage.ru_stime})
        ms += time.tv_sec * 1e3 + time.tv_usec * 1e-3;
    }
    return ms;
  }

  double lastProcessor = getProcessor(), lastWall = getWall();
  std::vector<Step> steps;
};

} // namespace

/// An instance of the first function with random weights.
struct Session {
  explicit Session(Program &program)
      : signature(program.getSignature(0)), instance(program, signature.name) {
    for (size_t i = 0; i < signature.num_arguments; ++i) {
      const fuse_tensor_type &type = signature.arguments[i];
      std::vector<int64_t> shape(type.shape, type.shape + type.ndim);
      for (int64_t &size : shape)
        size = size < 0 ? 1 : size;
      tensors.push_back(std::make_unique<Tensor>(type.dtype, shape));
      instance.bind(i, tensors.back()->view);
    }
  }
  void launch() {
    std::vector<std::unique_ptr<Tensor>> results;
    Tensors outputs;
    for (size_t i = 0; i < signature.num_results; ++i) {
      results.push_back(std::make_unique<Tensor>(
          signature.results[i].dtype,
          instance.getResultShape({}, i, signature.results[i].ndim)));
      outputs.push_back(&results.back()->view);
    }
    instance.launch({}, outputs);
  }

  fuse_signature signature;
  Instance instance;
  std::vector<std::unique_ptr<Tensor>> tensors;
};

/// The device, or nothing if there is no driver.
static std::optional<Device> openGPU() {
  try {
    return Device::cuda(0);
  } catch (const Error &) {
    return std::nullopt;
  }
}

static std::vector<Step> measure(const std::string &source,
                                 const Target &target, const char *trace,
                                 const std::optional<Device> &gpu) {
  Clock clock;
  Context context;
  if (trace)
    context.trace(trace);
  clock.mark("context");
  Module module(context, source);
  clock.mark("parse");
  module.run("builtin.module(fuse-kernel-formation-pipeline)");
  clock.mark("form");
  CompileOptions options;
  options.cpu = target.cpu;
  options.chip = target.chip;
  options.portable = target.portable;
  options.assemble = target.assemble;
  if (target.tokens)
    options.tokens = target.tokens;
  Artifact artifact = module.compile(options);
  clock.mark("compile");
  bool onCPU = *target.cpu != '\0';
  if (!onCPU && !gpu)
    return clock.steps;
  Device cpu = Device::cpu();
  Program program(artifact, onCPU ? cpu : *gpu);
  clock.mark("load");
  Session session(program);
  if (!onCPU)
    session.instance.limitTokens(kFewTokens);
  session.instance.prepare();
  clock.mark("ready");
  if (onCPU) {
    session.launch();
    clock.mark("call");
  } else if (session.signature.max_tokens > kFewTokens) {
    session.instance.limitTokens(INT64_MAX);
    clock.mark("rest");
  }
  return clock.steps;
}

static void run(const std::string &path, const char *trace,
                const std::string &only) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string source = text.str();
  std::optional<Device> gpu = openGPU();
  for (const Target &target :
       {Target{"cpu", "native", "", 0, 0, 0},
        Target{"sm_90a scheduled, up to 8 tokens", "", "sm_90a", 0, 0, 8},
        Target{"sm_90a scheduled, up to 64 tokens", "", "sm_90a", 0, 0, 64},
        Target{"sm_90a scheduled", "", "sm_90a", 0, 0, 0},
        Target{"sm_90a portable", "", "sm_90a", 1, 0, 0},
        Target{"sm_90a scheduled, up to 8 tokens, ptxas", "", "sm_90a", 0, 1,
               8}}) {
    if (!only.empty() && only != target.name)
      continue;
    std::vector<std::vector<Step>> rounds;
    for (int round = 0; round < kRounds; ++round)
      rounds.push_back(
          measure(source, target, round == 0 ? trace : nullptr, gpu));
    trace = nullptr;
    std::printf("{\"target\": \"%s\"", target.name);
    for (bool onClock : {false, true}) {
      double firstSum = 0, medianSum = 0;
      for (size_t step = 0; step < rounds[0].size(); ++step) {
        std::vector<double> times;
        for (const std::vector<Step> &steps : rounds)
          times.push_back(onClock ? steps[step].wall : steps[step].processor);
        double first = times[0];
        std::sort(times.begin() + 1, times.end());
        double median = times[1 + (times.size() - 1) / 2];
        const std::string &name = rounds[0][step].name;
        if (name != "rest") {
          firstSum += first;
          medianSum += median;
        }
        std::printf(", \"%s%s_ms\": [%.2f, %.2f]", name.c_str(),
                    onClock ? "_wall" : "", first, median);
      }
      std::printf(", \"sum%s_ms\": [%.2f, %.2f]", onClock ? "_wall" : "",
                  firstSum, medianSum);
    }
    std::printf("}\n");
    std::fflush(stdout);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: compile file.mlir [trace.json [target]]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 && *argv[2] ? argv[2] : nullptr,
        argc > 3 ? argv[3] : "");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "compile: %s\n", error.what());
    return 1;
  }
  return 0;
}
