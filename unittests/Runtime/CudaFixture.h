//===- CudaFixture.h - A session with the fake driver -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_UNITTESTS_RUNTIME_CUDAFIXTURE_H
#define FUSE_UNITTESTS_RUNTIME_CUDAFIXTURE_H

#include "FakeCuda.h"
#include "TestArtifact.h"
#include "fuse-c/Fuse.hpp"
#include "gtest/gtest.h"

#include <dlfcn.h>

namespace fuse::test {

/// Profiler ranges of this thread since the last call.
inline std::string takeRanges() {
  static auto *take = reinterpret_cast<const char *(*)()>(
      ::dlsym(::dlopen(FAKE_NVTX, RTLD_NOW), "takeFakeRanges"));
  return take();
}

/// The fake driver, loaded under the driver's name before its first use.
inline const FakeCuda &getFake() {
  static const FakeCuda &fake = []() -> const FakeCuda & {
    (void)takeRanges();
    void *library = ::dlopen(FAKE_CUDA, RTLD_NOW);
    if (!library) {
      ADD_FAILURE() << ::dlerror();
      std::abort();
    }
    const FakeCuda &found = *reinterpret_cast<const FakeCuda *(*)()>(
        ::dlsym(library, "getFakeCuda"))();
    int first[] = {8, 8, 128, 4, 4}, second[] = {8, 8, 8, 8, 8};
    found.declare("first", 5, first);
    found.declare("second", 5, second);
    return found;
  }();
  return fake;
}

/// The steps of a program that runs a function.
struct CudaSession {
  explicit CudaSession(const std::string &manifest = kManifest) {
    std::string bytes = makeArtifact(manifest);
    artifact = cxx::Artifact(cxx::Artifact::create([&](fuse_artifact **made) {
      return fuse_artifact_from_bytes(bytes.data(), bytes.size(), made);
    }));
  }

  void open(int number = 0) {
    ordinal = number;
    device = cxx::Device::cuda(number);
  }
  void prepare(int64_t tokens = 3) {
    shapes[0][0] = shapes[3][0] = tokens;
    program = std::make_unique<cxx::Program>(artifact, device);
    instance = std::make_unique<cxx::Instance>(*program, nullptr);
    for (int i : {1, 2})
      instance->bind(i, getView(i, kDLCPU));
    instance->prepare();
    DLTensor input = getView(0, kDLCUDA);
    workspace = instance->createWorkspace({&input});
  }
  void launch(uint32_t flags = 0) {
    DLTensor input = getView(0, kDLCUDA), output = getView(3, kDLCUDA);
    instance->launch({&input}, {&output}, workspace, stream, flags);
  }
  void wait() { device.wait(stream, /*timeoutMs=*/20); }
  void runAll() {
    open();
    prepare();
    launch();
    wait();
  }

  DLTensor getView(int index, DLDeviceType place) {
    return {data[index],
            {place, place == kDLCUDA ? ordinal : 0},
            index == 2 ? 1 : 2,
            {kDLBfloat, 16, 1},
            shapes[index],
            nullptr,
            0};
  }

  int ordinal = 0;
  alignas(64) char data[4][256 * 64 * 2] = {};
  int64_t shapes[4][2] = {{3, 64}, {256, 64}, {64, 0}, {3, 64}};
  void *stream = reinterpret_cast<void *>(uintptr_t(77));
  cxx::Artifact artifact;
  cxx::Device device;
  std::unique_ptr<cxx::Program> program;
  std::unique_ptr<cxx::Instance> instance;
  cxx::Workspace workspace;
};

/// The status of `body` and its error message.
template <typename Body>
std::pair<fuse_status, std::string> getStatus(Body body) {
  try {
    body();
    return {FUSE_OK, ""};
  } catch (const cxx::Error &error) {
    return {error.getStatus(), error.what()};
  }
}

} // namespace fuse::test

#endif // FUSE_UNITTESTS_RUNTIME_CUDAFIXTURE_H
