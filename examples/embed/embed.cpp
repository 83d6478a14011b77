//===- embed.cpp - A program that serves a fused block --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   embed block.fuse [cpu | cuda]   serves what fuse-compile wrote
//   embed block.mlir [cpu | cuda]   compiles a module in this process first
//   embed block.fuse cuda host.fuse compares with the code of another file, for
//                                   kernels that a CPU does not have
//
// Weights are random and bound once. Then batches of different sizes are
// served. On a GPU every batch is compared with the CPU four times: launched,
// captured in a CUDA graph and replayed, on four streams at a time, and on one
// stream with overlapping launches. Options for tools that slow kernels down by
// a factor of a thousand:
//
//   --tokens=N    serves only batches of N tokens
//   --rounds=N    launches N times on each of those streams, instead of 50
//   --wait=N      waits N seconds for a launch, instead of 10
//
//===----------------------------------------------------------------------===//

#include "DeviceMemory.h"
#include "Tensor.h"
#include "fuse-c/Fuse.hpp"

#ifdef EMBED_COMPILER
#include "fuse-c/Compiler.hpp"

#include <fstream>
#include <sstream>
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

using namespace embed;
using namespace fuse::cxx;

namespace {
/// Options from the command line.
struct Options {
  std::vector<std::string> arguments;
  std::vector<int64_t> tokens = {1, 3, 16, 200};
  int rounds = 50;
  uint64_t waitMs = 10000;
};
} // namespace

#ifdef EMBED_COMPILER
/// Parses a module, fuses all supported sites, and compiles it.
static Artifact compile(const std::string &path, bool forGPU) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  Context context;
  // Print every site, fused or refused, with the reason.
  context.onRemark([](const fuse_remark &remark) {
    std::printf("%s %s: %s\n", remark.kind, remark.name, remark.text);
  });
  Module module(context, text.str());
  module.run("builtin.module(fuse-kernel-formation-pipeline)");
  CompileOptions options;
  options.chip = forGPU ? "sm_90a" : "";
  return module.compile(options);
}
#else
static Artifact compile(const std::string &path, bool) {
  throw std::runtime_error(path + ": this host has no compiler");
}
#endif

/// A function with its weights, on one device.
struct Server {
  Server(const Artifact &artifact, const Device &device,
         const std::vector<std::unique_ptr<Tensor>> &weights)
      : program(artifact, device), instance(program, nullptr) {
    for (size_t i = 0; i < weights.size(); ++i)
      if (weights[i])
        instance.bind(i, weights[i]->view);
    instance.prepare();
  }
  Program program;
  Instance instance;
};

/// Largest difference of two results, relative to the largest value.
static double compare(const Tensor &left, const Tensor &right) {
  double difference = 0, largest = 0;
  for (int64_t i = 0; i < left.getNumElements(); ++i) {
    // A NaN on either side counts as an infinite difference.
    double delta = std::fabs(left.get(i) - right.get(i));
    difference = delta <= difference ? difference : delta;
    largest = std::max(largest, std::fabs(right.get(i)));
  }
  return largest > 0 ? difference / largest : difference;
}

/// Serves one batch from device memory and returns the result to the host.
static void serveOnGPU(Server &server, const Device &device,
                       const Tensor &input, Tensor &output, bool inGraph,
                       uint64_t waitMs) {
  DeviceMemory in(input.bytes.size()), out(output.bytes.size());
  in.upload(input.bytes.data());
  DLTensor inputView = input.view, outputView = output.view;
  inputView.data = in.get();
  outputView.data = out.get();
  inputView.device = outputView.device = {kDLCUDA, 0};
  Workspace workspace = server.instance.createWorkspace({&inputView});
  const Driver &driver = Driver::get();
  void *stream = nullptr;
  Driver::check(driver.streamCreate(&stream, 1), "a stream");
  if (inGraph) {
    void *graph = nullptr, *executable = nullptr;
    constexpr int threadLocal = 1;
    Driver::check(driver.beginCapture(stream, threadLocal), "capturing");
    server.instance.launch({&inputView}, {&outputView}, workspace, stream);
    Driver::check(driver.endCapture(stream, &graph), "capturing");
    Driver::check(driver.instantiate(&executable, graph, 0), "a graph");
    for (int replay = 0; replay < 3; ++replay)
      Driver::check(driver.graphLaunch(executable, stream), "replaying");
    device.wait(stream, waitMs);
    (void)driver.graphExecDestroy(executable);
    (void)driver.graphDestroy(graph);
  } else {
    server.instance.launch({&inputView}, {&outputView}, workspace, stream);
    device.wait(stream, waitMs);
  }
  (void)driver.streamDestroy(stream);
  out.download(output.bytes.data());
}

namespace {
/// Resources of one of several streams. A workspace serves one launch at a
/// time.
struct Lane {
  Lane(Server &server, const Tensor &input, const Tensor &result)
      : input(input.bytes.size()), output(result.bytes.size()),
        inputView(input.view), outputView(result.view) {
    inputView.data = this->input.get();
    outputView.data = output.get();
    inputView.device = outputView.device = {kDLCUDA, 0};
    workspace = server.instance.createWorkspace({&inputView});
    this->input.upload(input.bytes.data());
    Driver::check(Driver::get().streamCreate(&stream, 1), "a stream");
  }
  Lane(const Lane &) = delete;
  Lane &operator=(const Lane &) = delete;
  ~Lane() { (void)Driver::get().streamDestroy(stream); }

  DeviceMemory input, output;
  DLTensor inputView, outputView;
  Workspace workspace;
  void *stream = nullptr;
};
} // namespace

/// Serves a batch on several streams at once, many times. Returns the largest
/// difference from `expected`.
static double serveOnStreams(Server &server, const Device &device,
                             const Tensor &input, const Tensor &expected,
                             const Options &options) {
  constexpr int kStreams = 4;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < kStreams; ++i)
    lanes.push_back(std::make_unique<Lane>(server, input, expected));
  for (int round = 0; round < options.rounds; ++round)
    for (const std::unique_ptr<Lane> &lane : lanes)
      server.instance.launch({&lane->inputView}, {&lane->outputView},
                             lane->workspace, lane->stream);
  double largest = 0;
  for (const std::unique_ptr<Lane> &lane : lanes) {
    device.wait(lane->stream, options.waitMs);
    Tensor output(expected.view.dtype, expected.shape);
    lane->output.download(output.bytes.data());
    double difference = compare(output, expected);
    largest = difference <= largest ? largest : difference;
  }
  return largest;
}

/// Serves a batch many times on one stream. Since nothing else runs on the GPU,
/// each launch may begin block by block while its predecessor ends.
static double serveOverlapping(Server &server, const Device &device,
                               const Tensor &input, const Tensor &expected,
                               const Options &options) {
  Lane lane(server, input, expected);
  device.setExclusive(true);
  for (int round = 0; round < options.rounds; ++round)
    server.instance.launch({&lane.inputView}, {&lane.outputView},
                           lane.workspace, lane.stream,
                           round > 0 ? FUSE_LAUNCH_OVERLAP : 0);
  device.wait(lane.stream, options.waitMs);
  device.setExclusive(false);
  Tensor output(expected.view.dtype, expected.shape);
  lane.output.download(output.bytes.data());
  return compare(output, expected);
}

static int serve(const Options &options) {
  const std::vector<std::string> &arguments = options.arguments;
  const std::string &path = arguments[0];
  bool onGPU = arguments.size() > 1 && arguments[1] == "cuda";
  std::string hostPath = arguments.size() > 2 ? arguments[2] : "";
  bool isArtifact = path.size() > 5 && path.substr(path.size() - 5) == ".fuse";
  Artifact artifact = isArtifact ? Artifact::load(path) : compile(path, onGPU);
  std::optional<Artifact> separate;
  if (!hostPath.empty())
    separate = Artifact::load(hostPath);
  const Artifact &hostArtifact = separate ? *separate : artifact;
  Device cpu = Device::cpu();
  std::optional<Device> gpu;
  if (onGPU) {
    gpu = Device::cuda(0);
    // fuse uses the primary context, which CUDA libraries share.
    void *context = nullptr;
    Driver::check(Driver::get().retain(&context, 0), "a context");
    Driver::check(Driver::get().setCurrent(context), "a context");
  }

  Program program(hostArtifact, cpu);
  fuse_signature signature = program.getSignature(0);
  std::mt19937_64 random(1);
  std::vector<std::unique_ptr<Tensor>> weights(signature.num_arguments);
  for (size_t i = 1; i < signature.num_arguments; ++i) {
    const fuse_tensor_type &type = signature.arguments[i];
    weights[i] = std::make_unique<Tensor>(type.dtype, getShape(type, 1));
    weights[i]->fill(
        random, type.ndim == 2 ? 1.7 / std::sqrt(double(type.shape[1])) : 1.0);
  }
  Server host(hostArtifact, cpu, weights);
  std::unique_ptr<Server> device;
  if (gpu)
    device = std::make_unique<Server>(artifact, *gpu, weights);

  bool good = true;
  for (int64_t tokens : options.tokens) {
    const fuse_tensor_type &type = signature.arguments[0];
    Tensor input(type.dtype, getShape(type, tokens));
    input.fill(random, 1.7);
    Tensor expected(signature.results[0].dtype,
                    host.instance.getResultShape({&input.view}, 0,
                                                 signature.results[0].ndim));
    auto begin = std::chrono::steady_clock::now();
    host.instance.launch({&input.view}, {&expected.view});
    std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - begin;
    std::printf("cpu: %d tokens in %.1f us, y[0] = %g\n", int(tokens),
                time.count(), expected.get(0));
    for (bool inGraph : {false, true}) {
      if (!gpu)
        break;
      Tensor output(expected.view.dtype, expected.shape);
      serveOnGPU(*device, *gpu, input, output, inGraph, options.waitMs);
      double difference = compare(output, expected);
      // Another order of summation may change an 8-bit intermediate value by
      // one step.
      bool close = difference < 0.03;
      std::printf("cuda%s: %d tokens, differs by %.2g from the CPU: %s\n",
                  inGraph ? " graph" : "", int(tokens), difference,
                  close ? "ok" : "FAILED");
      good &= close;
    }
    for (bool overlaps : {false, true}) {
      if (!gpu)
        break;
      double difference = (overlaps ? serveOverlapping : serveOnStreams)(
          *device, *gpu, input, expected, options);
      bool close = difference < 0.03;
      std::printf("cuda, %s: %d tokens, differs by %.2g from the CPU: %s\n",
                  overlaps ? "overlapping" : "4 streams", int(tokens),
                  difference, close ? "ok" : "FAILED");
      good &= close;
    }
  }
  return good ? 0 : 1;
}

/// Returns false for an unknown option, or for a number that is not positive.
static bool parse(int argc, char **argv, Options &options) {
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument.compare(0, 2, "--") != 0) {
      options.arguments.push_back(argument);
      continue;
    }
    size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    char *end = nullptr;
    long number = equals == std::string::npos
                      ? 0
                      : std::strtol(argv[i] + equals + 1, &end, 10);
    if (!end || *end || number < 1 || number > 1000000)
      return false;
    if (name == "--tokens")
      options.tokens = {number};
    else if (name == "--rounds")
      options.rounds = int(number);
    else if (name == "--wait")
      options.waitMs = uint64_t(number) * 1000;
    else
      return false;
  }
  return !options.arguments.empty() && options.arguments.size() <= 3;
}

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "usage: embed [--tokens=N] [--rounds=N] [--wait=SECONDS]\n"
                 "  file.fuse|file.mlir [cpu|cuda [host.fuse]]\n");
    return 2;
  }
  try {
    return serve(options);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "embed: %s\n", error.what());
    return 1;
  }
}
