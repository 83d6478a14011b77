//===- compile.cpp - How long until the first kernel ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   compile file.mlir [trace.json]
//
// Prints one JSON object per target with the milliseconds of processor time of
// each step in this process: the first time, when the libraries have just been
// loaded, and the median of the ten after it. With a second argument the first
// compilation is traced, for Perfetto.
//   context  making a context with all dialects
//   parse    text to IR
//   form     recognizing layers and forming kernels
//   compile  fused IR to an artefact: lowering, LLVM, PTX
//   load     checking the artefact, linking its code
//   call     the first launch
//
//===----------------------------------------------------------------------===//

#include "Tensor.h"
#include "fuse-c/Compiler.h"
#include "fuse-c/Fuse.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include <sys/resource.h>

using namespace embed;
using namespace fuse::cxx;

using Context = Handle<fuse_context, fuse_context_destroy>;
using Module = Handle<fuse_module, fuse_module_destroy>;

static constexpr const char *kSteps[] = {"context", "parse", "form",
                                         "compile", "load",  "call"};
static constexpr int kRounds = 11;

namespace {

struct Target {
  const char *name;
  const char *cpu;
  const char *chip;
  int32_t portable, assemble;
  /// Most tokens of scheduled kernels, 0 for the default: kernels for ranges
  /// of any number.
  int32_t tokens;
};

/// Takes the time between marks: that of processors, of this process and its
/// children. It says the same on a machine that does other things as well.
struct Clock {
  double last = now();
  double lap() {
    double begin = std::exchange(last, now());
    return last - begin;
  }
  static double now() {
    double ms = 0;
    for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
      rusage usage;
      ::getrusage(who, &usage);
      for (const timeval &time : {usage.ru_utime, usage.ru_stime})
        ms += time.tv_sec * 1e3 + time.tv_usec * 1e-3;
    }
    return ms;
  }
};

} // namespace

/// Launches the first function once on random tensors.
static void callOnce(Program &program) {
  fuse_signature signature = program.getSignature(0);
  Instance instance(program, signature.name);
  std::vector<std::unique_ptr<Tensor>> tensors;
  for (size_t i = 0; i < signature.num_arguments; ++i) {
    const fuse_tensor_type &type = signature.arguments[i];
    std::vector<int64_t> shape(type.shape, type.shape + type.ndim);
    for (int64_t &size : shape)
      size = size < 0 ? 1 : size;
    tensors.push_back(std::make_unique<Tensor>(type.dtype, shape));
    instance.bind(i, tensors.back()->view);
  }
  instance.prepare();
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

static std::vector<double> measure(const std::string &source,
                                   const Target &target, const char *trace) {
  std::vector<double> times;
  Clock clock;
  Context context(Context::create(fuse_context_create));
  if (trace)
    check(fuse_context_set_trace(context.get(), trace));
  times.push_back(clock.lap());
  Module module(Module::create([&](fuse_module **made) {
    return fuse_module_parse(context.get(), source.data(), source.size(), made);
  }));
  times.push_back(clock.lap());
  check(fuse_module_run(module.get(),
                        "builtin.module(fuse-kernel-formation-pipeline)"));
  times.push_back(clock.lap());
  fuse_compile_options options;
  fuse_compile_options_init(&options);
  options.cpu = target.cpu;
  options.chip = target.chip;
  options.portable = target.portable;
  options.assemble = target.assemble;
  if (target.tokens)
    options.tokens = target.tokens;
  Artifact artifact(Artifact::create([&](fuse_artifact **made) {
    return fuse_module_compile(module.get(), &options, made);
  }));
  times.push_back(clock.lap());
  if (*target.cpu != '\0') {
    Device device = Device::cpu();
    Program program(artifact, device);
    times.push_back(clock.lap());
    callOnce(program);
    times.push_back(clock.lap());
  }
  return times;
}

static void run(const std::string &path, const char *trace) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::string source = text.str();
  for (const Target &target :
       {Target{"cpu", "native", "", 0, 0, 0},
        Target{"sm_90a scheduled, up to 8 tokens", "", "sm_90a", 0, 0, 8},
        Target{"sm_90a scheduled, up to 64 tokens", "", "sm_90a", 0, 0, 64},
        Target{"sm_90a scheduled", "", "sm_90a", 0, 0, 0},
        Target{"sm_90a portable", "", "sm_90a", 1, 0, 0},
        Target{"sm_90a scheduled, up to 8 tokens, ptxas", "", "sm_90a", 0, 1,
               8}}) {
    std::vector<std::vector<double>> rounds;
    for (int round = 0; round < kRounds; ++round)
      rounds.push_back(measure(source, target, round == 0 ? trace : nullptr));
    trace = nullptr;
    std::printf("{\"target\": \"%s\"", target.name);
    double firstSum = 0, medianSum = 0;
    for (size_t step = 0; step < rounds[0].size(); ++step) {
      std::vector<double> times;
      for (int round = 1; round < kRounds; ++round)
        times.push_back(rounds[round][step]);
      std::sort(times.begin(), times.end());
      firstSum += rounds[0][step];
      medianSum += times[times.size() / 2];
      std::printf(", \"%s_ms\": [%.2f, %.2f]", kSteps[step], rounds[0][step],
                  times[times.size() / 2]);
    }
    std::printf(", \"sum_ms\": [%.2f, %.2f]}\n", firstSum, medianSum);
  }
}

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: compile file.mlir [trace.json]\n");
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? argv[2] : nullptr);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "compile: %s\n", error.what());
    return 1;
  }
  return 0;
}
