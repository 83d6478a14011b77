//===- Cpu.cpp - Run functions on the CPU ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Host/Failure.h"
#include "fuse/Runtime/Host/HostCode.h"
#include "fuse/Runtime/Host/Instance.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace fuse::host;

namespace {

/// Takes an array of pointers: to room for the descriptors of all results, if
/// there are any, and to the descriptor of each argument.
using EntryPoint = void (*)(void **);

/// A memref descriptor: allocated pointer, aligned pointer, offset, sizes and
/// strides, each of 8 bytes.
static size_t getDescriptorWords(size_t rank) { return 3 + 2 * rank; }

static void writeDescriptor(const TensorView &view, size_t rank,
                            int64_t *words) {
  words[0] = words[1] = reinterpret_cast<intptr_t>(view.data);
  words[2] = 0;
  int64_t stride = 1;
  for (size_t dim = rank; dim-- > 0;) {
    words[3 + dim] = view.shape[dim];
    words[3 + rank + dim] = stride;
    stride *= view.shape[dim];
  }
}

class CpuInstance : public Instance {
public:
  CpuInstance(std::shared_ptr<Program> program, const Function &function,
              EntryPoint entry)
      : Instance(std::move(program), function), entry(entry) {}

  std::unique_ptr<Workspace> createWorkspace(size_t bytes) override {
    if (bytes > 0)
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "functions on the CPU need no workspace");
    return std::make_unique<Workspace>();
  }

protected:
  void checkPlace(const TensorView &view, bool isBound,
                  const std::string &what) const override {
    if (view.device.device_type != kDLCPU &&
        view.device.device_type != kDLCUDAHost)
      throw Failure(FUSE_ERROR_TENSOR,
                    what + " is on a device of type " +
                        std::to_string(view.device.device_type) +
                        ", expected the CPU (1)");
  }
  void prepareCode(const Views &arguments, SharedWeights *) override {}
  size_t computeWorkspaceSize(const Views &arguments) const override {
    return 0;
  }
  void launchCode(const Views &tensors, const LaunchOptions &options) override;

private:
  EntryPoint entry;
};

class CpuProgram : public Program {
public:
  CpuProgram(std::shared_ptr<const Artifact> source,
             std::shared_ptr<Device> device)
      : Program(std::move(source)) {
    const Manifest &manifest = getArtifact().manifest;
    if (manifest.hostTarget)
      checkHost(*manifest.hostTarget);
    for (const Function &function : manifest.functions) {
      if (!function.host)
        continue;
      std::shared_ptr<LoadedCode> &unit = code[function.host->section];
      if (!unit)
        unit = LoadedCode::load(getArtifact().sections[function.host->section]);
      entries.push_back(
          reinterpret_cast<EntryPoint>(unit->lookup(function.host->symbol)));
      functions.push_back(&function);
    }
    if (functions.empty())
      throw Failure(FUSE_ERROR_TARGET, "the artefact has no code for the CPU");
  }

  std::unique_ptr<Instance> instantiate(const Function &function) override {
    auto it = std::find(functions.begin(), functions.end(), &function);
    return std::make_unique<CpuInstance>(shared_from_this(), function,
                                         entries[it - functions.begin()]);
  }

private:
  std::map<size_t, std::shared_ptr<LoadedCode>> code;
  std::vector<EntryPoint> entries;
};

class CpuDevice : public Device {
public:
  std::shared_ptr<Program>
  load(std::shared_ptr<const Artifact> artifact) override {
    return std::make_shared<CpuProgram>(std::move(artifact),
                                        shared_from_this());
  }
  void check() const override {}
  void wait(void *stream, uint64_t timeoutMs) override {}
};

} // namespace

void CpuInstance::launchCode(const Views &tensors,
                             const LaunchOptions &options) {
  size_t numArguments = function.arguments.size();
  size_t numResultWords = 0, numWords = 0;
  for (const TensorSpec &spec : function.results)
    numResultWords += getDescriptorWords(spec.shape.size());
  for (const TensorSpec &spec : function.arguments)
    numWords += getDescriptorWords(spec.shape.size());
  // Kept between calls, so that a call allocates only what its code does.
  thread_local std::vector<int64_t> words;
  thread_local std::vector<void *> pointers;
  words.assign(numResultWords + numWords, 0);
  pointers.clear();
  int64_t *next = words.data();
  if (numResultWords > 0)
    pointers.push_back(next);
  next += numResultWords;
  for (size_t i = 0; i < numArguments; ++i) {
    size_t rank = function.arguments[i].shape.size();
    writeDescriptor(tensors[i], rank, next);
    pointers.push_back(next);
    next += getDescriptorWords(rank);
  }
  entry(pointers.data());

  // Results belong to this function now, also when one of them is wrong.
  std::string problem;
  const int64_t *result = words.data();
  for (size_t i = 0; i < function.results.size(); ++i) {
    const TensorSpec &spec = function.results[i];
    size_t rank = spec.shape.size();
    const TensorView &output = tensors[numArguments + i];
    if (!std::equal(output.shape, output.shape + rank, result + 3)) {
      TensorSpec actual = spec, given = spec;
      actual.shape.assign(result + 3, result + 3 + rank);
      given.shape.assign(output.shape, output.shape + rank);
      problem = nameResult(function, i) + " is " + toString(actual) +
                ", the output is " + toString(given);
    } else if (size_t bytes = getNumBytes(spec, output.shape)) {
      std::memcpy(output.data,
                  reinterpret_cast<const char *>(result[1]) +
                      result[2] * (spec.dtype.bits / 8),
                  bytes);
    }
    result += getDescriptorWords(rank);
  }
  pointers.clear();
  result = words.data();
  for (const TensorSpec &spec : function.results) {
    auto *allocation = reinterpret_cast<void *>(result[0]);
    // Two results may be one buffer.
    if (std::find(pointers.begin(), pointers.end(), allocation) ==
        pointers.end()) {
      pointers.push_back(allocation);
      std::free(allocation);
    }
    result += getDescriptorWords(spec.shape.size());
  }
  if (!problem.empty())
    throw Failure(FUSE_ERROR_TENSOR, problem);
}

std::shared_ptr<Device> fuse::host::openCpu() {
  return std::make_shared<CpuDevice>();
}
