//===- devices.cpp - One artifact on several devices ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   devices file.fuse most-tokens device...
//
// Loads one artifact on every device, each in its own thread. Kernels are
// loaded for 8 tokens first, and for all numbers later while another thread
// launches. Then batches of all sizes run on two streams of each device at the
// same time. Every result is compared with the CPU, for which the artifact also
// has code. Prints one JSON object per device and one for all:
//   few_ms      preparing an instance for up to 8 tokens: packing, code
//   all_ms      loading the code for more
//   launches    on all streams, with results that were compared
//   difference  largest difference from the CPU, relative to the largest value
//   refused     error message for a tensor of another device
//
//===----------------------------------------------------------------------===//

#include "DeviceMemory.h"
#include "Measure.h"
#include "Tensor.h"
#include "fuse-c/Fuse.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

using namespace embed;
using namespace fuse::cxx;

static constexpr int64_t kFewTokens = 8;
static constexpr int kStreams = 2, kRounds = 20;

/// Largest difference of two results, relative to the largest value. Infinite
/// if a value is NaN.
static double compare(const Tensor &left, const Tensor &right) {
  double difference = 0, largest = 0;
  for (int64_t i = 0; i < left.getNumElements(); ++i) {
    double delta = std::fabs(left.get(i) - right.get(i));
    if (std::isnan(delta))
      return HUGE_VAL;
    difference = std::max(difference, delta);
    largest = std::max(largest, std::fabs(right.get(i)));
  }
  return largest > 0 ? difference / largest : difference;
}

namespace {

/// A batch with its result on the CPU.
struct Batch {
  int64_t tokens;
  Tensor input, expected;
};

/// The tensors of a batch on a device, and their stream.
struct Lane {
  Lane(Instance &instance, const Batch &batch, int ordinal)
      : batch(batch), input(batch.input.bytes.size()),
        output(batch.expected.bytes.size()), inputView(batch.input.view),
        outputView(batch.expected.view) {
    input.upload(batch.input.bytes.data());
    inputView.data = input.get();
    outputView.data = output.get();
    inputView.device = outputView.device = {kDLCUDA, ordinal};
    workspace = instance.createWorkspace({&inputView});
    Driver::check(Driver::get().streamCreate(&stream, 1), "a stream");
  }
  Lane(const Lane &) = delete;
  Lane &operator=(const Lane &) = delete;
  ~Lane() { (void)Driver::get().streamDestroy(stream); }

  void launch(Instance &instance) {
    instance.launch({&inputView}, {&outputView}, workspace, stream);
  }
  double compareWithCPU(const Device &device) {
    device.wait(stream, /*timeoutMs=*/20000);
    Tensor result(batch.expected.view.dtype, batch.expected.shape);
    output.download(result.bytes.data());
    return compare(result, batch.expected);
  }

  const Batch &batch;
  DeviceMemory input, output;
  DLTensor inputView, outputView;
  Workspace workspace;
  void *stream = nullptr;
};

/// Results of one device.
struct Report {
  double fewMs = 0, allMs = 0, difference = 0;
  int launches = 0;
  std::string limited, refused, error;
};

} // namespace

static std::string getRefusal(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return std::string(fuse_status_name(error.getStatus())) + ": " +
           error.what();
  }
  return "";
}

static void serve(const Artifact &artifact, int ordinal, int other,
                  const std::vector<std::unique_ptr<Tensor>> &weights,
                  const std::vector<Batch> &batches, Report &report) {
  Device device = Device::cuda(ordinal);
  void *context = nullptr;
  Driver::check(Driver::get().retain(&context, ordinal), "a context");
  Driver::check(Driver::get().setCurrent(context), "a context");
  Program program(artifact, device);
  Instance instance(program, nullptr);
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i])
      instance.bind(i, weights[i]->view);
  instance.limitTokens(kFewTokens);
  report.fewMs = measureMs([&] { instance.prepare(); });

  // Keep launching while the code for more tokens is loaded.
  Lane few(instance, batches.front(), ordinal);
  few.launch(instance);
  auto note = [&](Lane &lane) {
    double difference = lane.compareWithCPU(device);
    report.difference = std::max(report.difference, difference);
    ++report.launches;
  };
  note(few);
  Lane many(instance, batches.back(), ordinal);
  report.limited = getRefusal([&] { many.launch(instance); });
  std::atomic<bool> loading = true;
  std::string problem;
  std::thread loader([&] {
    problem = getRefusal([&] {
      report.allMs = measureMs([&] { instance.limitTokens(INT64_MAX); });
    });
    loading = false;
  });
  while (loading) {
    few.launch(instance);
    note(few);
  }
  loader.join();
  if (!problem.empty())
    throw std::runtime_error(problem);

  DLTensor elsewhere = few.inputView;
  elsewhere.device.device_id = other;
  report.refused = getRefusal([&] {
    instance.launch({&elsewhere}, {&few.outputView}, few.workspace, few.stream);
  });
  for (const Batch &batch : batches) {
    std::vector<std::unique_ptr<Lane>> lanes;
    for (int i = 0; i < kStreams; ++i)
      lanes.push_back(std::make_unique<Lane>(instance, batch, ordinal));
    for (int round = 0; round < kRounds; ++round)
      for (const std::unique_ptr<Lane> &lane : lanes)
        lane->launch(instance);
    report.launches += kStreams * (kRounds - 1);
    for (const std::unique_ptr<Lane> &lane : lanes)
      note(*lane);
  }
}

static int run(const char *path, int64_t mostTokens,
               const std::vector<int> &ordinals) {
  Artifact artifact = Artifact::load(path);
  Device cpu = Device::cpu();
  Program program(artifact, cpu);
  fuse_signature signature = program.getSignature(0);
  std::mt19937_64 random(1);
  std::vector<std::unique_ptr<Tensor>> weights(signature.num_arguments);
  Instance host(program, nullptr);
  for (size_t i = 1; i < signature.num_arguments; ++i) {
    const fuse_tensor_type &type = signature.arguments[i];
    weights[i] = std::make_unique<Tensor>(type.dtype, getShape(type, 1));
    weights[i]->fill(
        random, type.ndim == 2 ? 1.7 / std::sqrt(double(type.shape[1])) : 1.0);
    host.bind(i, weights[i]->view);
  }
  host.prepare();
  std::vector<Batch> batches;
  for (int64_t tokens :
       {1, 8, 9, 16, 17, 40, 64, 65, 128, 129, 200, 300, 700}) {
    if (tokens > mostTokens)
      break;
    const fuse_tensor_type &type = signature.arguments[0];
    Tensor input(type.dtype, getShape(type, tokens));
    input.fill(random, 1.7);
    Tensor expected(
        signature.results[0].dtype,
        host.getResultShape({&input.view}, 0, signature.results[0].ndim));
    host.launch({&input.view}, {&expected.view});
    batches.push_back({tokens, std::move(input), std::move(expected)});
  }

  std::vector<Report> reports(ordinals.size());
  std::vector<std::thread> threads;
  double seconds =
      measureMs([&] {
        for (size_t i = 0; i < ordinals.size(); ++i)
          threads.emplace_back([&, i] {
            int other = ordinals[(i + 1) % ordinals.size()];
            if (other == ordinals[i])
              ++other;
            try {
              serve(artifact, ordinals[i], other, weights, batches, reports[i]);
            } catch (const std::exception &error) {
              reports[i].error = error.what();
            }
          });
        for (std::thread &thread : threads)
          thread.join();
      }) /
      1000;
  bool good = true;
  for (size_t i = 0; i < ordinals.size(); ++i) {
    const Report &report = reports[i];
    // Another order of summation may change an 8-bit intermediate value by one
    // step.
    bool ok = report.error.empty() && report.difference < 0.03 &&
              !report.refused.empty();
    good &= ok;
    std::printf("{\"file\": \"%s\", \"device\": %d, \"few_ms\": %.1f, "
                "\"all_ms\": %.1f, \"launches\": %d, \"difference\": %.2g, "
                "\"limited\": \"%s\", \"refused\": \"%s\", \"error\": \"%s\", "
                "\"ok\": %s}\n",
                path, ordinals[i], report.fewMs, report.allMs, report.launches,
                report.difference, report.limited.c_str(),
                report.refused.c_str(), report.error.c_str(),
                ok ? "true" : "false");
  }
  std::printf("{\"file\": \"%s\", \"devices\": %zu, \"seconds\": %.2f, "
              "\"ok\": %s}\n",
              path, ordinals.size(), seconds, good ? "true" : "false");
  return good ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: devices file.fuse most-tokens device...\n");
    return 2;
  }
  std::vector<int> ordinals;
  for (int i = 3; i < argc; ++i)
    ordinals.push_back(std::atoi(argv[i]));
  try {
    return run(argv[1], std::atoll(argv[2]), ordinals);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "devices: %s\n", error.what());
    return 1;
  }
}
