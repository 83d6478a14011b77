//===- launch.cpp - Cost of a launch --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   launch file.fuse tokens...
//
// Prints one JSON object per number of tokens:
//   load_ms     reading and checking the file
//   prepare_ms  loading the code, packing and copying weights
//   host_us     host time of one call of fuse_launch
//   graph_us    device time per launch in a graph of 20
//   chain_us    the same, if each may start while its predecessor ends
//   exclusive_us  the same on an exclusive device
//
//===----------------------------------------------------------------------===//

#include "DeviceMemory.h"
#include "Measure.h"
#include "Tensor.h"
#include "fuse-c/Fuse.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>

using namespace embed;
using namespace fuse::cxx;

static constexpr int kGraphLaunches = 20, kReplays = 25, kHostCalls = 500;

namespace {

/// One function with weights on the device, on its own stream.
struct Bench {
  Bench(const Artifact &artifact, const Device &device)
      : program(artifact, device), instance(program, nullptr),
        signature(program.getSignature(0)) {
    std::mt19937_64 random(1);
    for (size_t i = 1; i < signature.num_arguments; ++i) {
      const fuse_tensor_type &type = signature.arguments[i];
      weights.push_back(
          std::make_unique<Tensor>(type.dtype, getShape(type, 1)));
      weights.back()->fill(random, type.ndim == 2
                                       ? 1.7 / std::sqrt(double(type.shape[1]))
                                       : 1.0);
      instance.bind(i, weights.back()->view);
    }
    Driver::check(Driver::get().streamCreate(&stream, 1), "a stream");
  }

  /// Median device time per launch in a graph.
  double measureGraph(const std::function<void(int)> &launch) {
    const Driver &driver = Driver::get();
    void *graph = nullptr, *executable = nullptr, *begin = nullptr,
         *end = nullptr;
    Driver::check(driver.beginCapture(stream, 1), "capturing");
    for (int i = 0; i < kGraphLaunches; ++i)
      launch(i);
    Driver::check(driver.endCapture(stream, &graph), "capturing");
    Driver::check(driver.instantiate(&executable, graph, 0), "a graph");
    Driver::check(driver.eventCreate(&begin, 0), "an event");
    Driver::check(driver.eventCreate(&end, 0), "an event");
    std::vector<float> times;
    for (int i = 0; i < kReplays + 3; ++i) {
      Driver::check(driver.eventRecord(begin, stream), "recording");
      Driver::check(driver.graphLaunch(executable, stream), "replaying");
      Driver::check(driver.eventRecord(end, stream), "recording");
      Driver::check(driver.eventSynchronize(end), "waiting");
      float ms = 0;
      Driver::check(driver.eventElapsed(&ms, begin, end), "measuring");
      if (i >= 3)
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    (void)driver.eventDestroy(begin);
    (void)driver.eventDestroy(end);
    (void)driver.graphExecDestroy(executable);
    (void)driver.graphDestroy(graph);
    return times[times.size() / 2] * 1000.0 / kGraphLaunches;
  }

  Program program;
  Instance instance;
  fuse_signature signature;
  std::vector<std::unique_ptr<Tensor>> weights;
  void *stream = nullptr;
};

} // namespace

static void run(const char *path, const std::vector<int64_t> &sizes) {
  Artifact artifact;
  double loadMs = measureMs([&] { artifact = Artifact::load(path); });
  Device device = Device::cuda(0);
  void *context = nullptr;
  Driver::check(Driver::get().retain(&context, 0), "a context");
  Driver::check(Driver::get().setCurrent(context), "a context");
  Bench bench(artifact, device);
  double prepareMs = measureMs([&] { bench.instance.prepare(); });
  for (int64_t tokens : sizes) {
    const fuse_tensor_type &type = bench.signature.arguments[0];
    const fuse_tensor_type &resultType = bench.signature.results[0];
    Tensor input(type.dtype, getShape(type, tokens));
    std::mt19937_64 random(2);
    input.fill(random, 1.7);
    DeviceMemory in(input.bytes.size());
    in.upload(input.bytes.data());
    DLTensor inputView = input.view;
    inputView.data = in.get();
    inputView.device = {kDLCUDA, 0};
    Tensor output(resultType.dtype, bench.instance.getResultShape(
                                        {&inputView}, 0, resultType.ndim));
    DeviceMemory out(output.bytes.size());
    DLTensor outputView = output.view;
    outputView.data = out.get();
    outputView.device = {kDLCUDA, 0};
    Workspace workspace = bench.instance.createWorkspace({&inputView});
    Tensors inputs = {&inputView}, outputs = {&outputView};
    auto launch = [&](uint32_t flags) {
      bench.instance.launch(inputs, outputs, workspace, bench.stream, flags);
    };
    // The host runs ahead of the device. Wait after every 50 launches, since
    // the device's queue holds fewer than kHostCalls.
    launch(0);
    device.wait(bench.stream, 10000);
    double hostMs = 0;
    for (int i = 0; i < kHostCalls; i += 50) {
      hostMs += measureMs([&] {
        for (int j = 0; j < 50; ++j)
          launch(0);
      });
      device.wait(bench.stream, 10000);
    }
    double graphUs = bench.measureGraph([&](int) { launch(0); });
    double chainUs = bench.measureGraph(
        [&](int i) { launch(i > 0 ? FUSE_LAUNCH_OVERLAP : 0); });
    device.setExclusive(true);
    double exclusiveUs = bench.measureGraph(
        [&](int i) { launch(i > 0 ? FUSE_LAUNCH_OVERLAP : 0); });
    device.setExclusive(false);
    std::printf("{\"file\": \"%s\", \"tokens\": %d, \"load_ms\": %.2f, "
                "\"prepare_ms\": %.1f, \"host_us\": %.2f, "
                "\"graph_us\": %.2f, \"chain_us\": %.2f, "
                "\"exclusive_us\": %.2f}\n",
                path, int(tokens), loadMs, prepareMs,
                hostMs * 1000.0 / kHostCalls, graphUs, chainUs, exclusiveUs);
  }
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: launch file.fuse tokens...\n");
    return 2;
  }
  std::vector<int64_t> sizes;
  for (int i = 2; i < argc; ++i)
    sizes.push_back(std::atoll(argv[i]));
  try {
    run(argv[1], sizes);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "launch: %s\n", error.what());
    return 1;
  }
  return 0;
}
