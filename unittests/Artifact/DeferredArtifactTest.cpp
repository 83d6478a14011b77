//===- DeferredArtifactTest.cpp - Tests of deferred kernels ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "TemporaryDirectory.h"
#include "fuse-c/Compiler.hpp"

#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include <unistd.h>

using namespace fuse;
using namespace fuse::test;

namespace {

constexpr const char *kBlock = R"(
  func.func @mlp(%x: tensor<?x64xbf16>, %up: tensor<256x64xbf16>,
      %down: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
    %0 = fuse.mlp %x up(%up) down(%down) act(relu) rounding(exact)
      : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
        -> tensor<?x64xbf16>
    return %0 : tensor<?x64xbf16>
  })";

/// Two such ops, with an op of the portable path between them.
constexpr const char *kMixed = R"(
  func.func @mlps(%x: tensor<?x64xbf16>, %up: tensor<256x64xbf16>,
      %down: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
    %0 = fuse.mlp %x up(%up) down(%down) act(relu) rounding(exact)
      : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
        -> tensor<?x64xbf16>
    %1 = arith.negf %0 : tensor<?x64xbf16>
    %2 = fuse.mlp %1 up(%up) down(%down) act(relu) rounding(exact)
      : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
        -> tensor<?x64xbf16>
    return %2 : tensor<?x64xbf16>
  })";

/// Compiles a function with kernels for ranges of tokens, and destroys its
/// module and context.
cxx::Artifact compile(const char *trace = nullptr,
                      const std::string &text = kBlock) {
  cxx::Context context;
  if (trace)
    context.trace(trace);
  cxx::CompileOptions options;
  options.cpu = "";
  options.chip = "sm_90a";
  return cxx::Module(context, text).compile(options);
}

std::string getBytes(const cxx::Artifact &artifact) {
  size_t size = 0;
  const void *bytes = fuse_artifact_bytes(artifact.get(), &size);
  EXPECT_NE(bytes, nullptr) << fuse_last_error();
  return bytes ? std::string(static_cast<const char *>(bytes), size) : "";
}

const FakeCuda &getAnyKernelFake() {
  // With a script, the fake driver has kernels of any name.
  ::setenv("FAKE_CUDA_SCRIPT", "/dev/null", 1);
  return getFake();
}

struct Session {
  explicit Session(const cxx::Artifact &artifact)
      : device(cxx::Device::cuda(0)), program(artifact, device),
        instance(program, nullptr) {
    for (int i : {1, 2})
      instance.bind(i, DLTensor{data.data(),
                                {kDLCPU, 0},
                                2,
                                {kDLBfloat, 16, 1},
                                shapes[i],
                                nullptr,
                                0});
  }

  cxx::Device device;
  cxx::Program program;
  cxx::Instance instance;
  std::vector<char> data = std::vector<char>(256 * 64 * 2 + 64);
  int64_t shapes[3][2] = {{3, 64}, {256, 64}, {64, 256}};
};

} // namespace

TEST(DeferredArtifactTest, CompilesRangesWhenTheyAreNeeded) {
  const FakeCuda &fake = getAnyKernelFake();
  cxx::Artifact artifact = compile();
  fake.reset();
  Session session(artifact);
  session.instance.limitTokens(8);
  session.instance.prepare();
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 1);
  session.instance.limitTokens(16);
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 2);
  session.instance.limitTokens(INT64_MAX);
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 10);
}

// All alternatives have the same launches around those of a range.
TEST(DeferredArtifactTest, MixesRangesWithOtherLaunches) {
  const FakeCuda &fake = getAnyKernelFake();
  cxx::Artifact artifact = compile(nullptr, kMixed);
  fake.reset();
  Session session(artifact);
  session.instance.limitTokens(8);
  session.instance.prepare();
  // One module of the portable path, and one for the kernel of two ops.
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 2);
  session.instance.limitTokens(INT64_MAX);
  EXPECT_EQ(fake.countCalls("cuModuleLoadDataEx"), 11);

  DLTensor input{session.data.data(), {kDLCUDA, 0}, 2, {kDLBfloat, 16, 1},
                 session.shapes[0],   nullptr,      0};
  session.shapes[0][0] = 16384;
  fuse_workspace *made = nullptr;
  // The fake driver does not access these addresses.
  DLTensor output = input;
  output.data = session.data.data() + (int64_t(1) << 40);
  const DLTensor *inputs[] = {&input}, *outputs[] = {&output};
  size_t bytes = 0;
  cxx::check(
      fuse_instance_workspace_size(session.instance.get(), inputs, 1, &bytes));
  cxx::check(fuse_workspace_create(session.instance.get(), bytes, &made));
  cxx::Handle<fuse_workspace, fuse_workspace_destroy> workspace(made);
  std::set<std::string> kernels;
  uint64_t words = 0;
  for (int64_t tokens : {1, 8, 9, 16, 17, 64, 65, 128, 1000, 16384, 3}) {
    session.shapes[0][0] = tokens;
    fake.reset();
    fuse_launch_args args = {sizeof(args), inputs,  1,          outputs, 1,
                             made,         nullptr, /*flags=*/0};
    cxx::check(fuse_launch(session.instance.get(), &args));
    int count = fake.countLaunches();
    ASSERT_GE(count, 3);
    // The launches before the elementwise kernel are repeated after it.
    ASSERT_EQ(count % 2, 1);
    for (int i = 0; i < count / 2; ++i) {
      std::string name = fake.getLaunch(i)->kernel;
      EXPECT_EQ(name, fake.getLaunch(count / 2 + 1 + i)->kernel);
      kernels.insert(name);
    }
    EXPECT_EQ(std::string(fake.getLaunch(count / 2)->kernel), "map_bf16_bf16");
    if (tokens > 8)
      continue;
    // Both launches of a kernel use the same semaphores for every range.
    words = words ? words : fake.getLaunch(0)->parameters[0];
    EXPECT_EQ(fake.getLaunch(0)->parameters[0], words);
    EXPECT_EQ(fake.getLaunch(2)->parameters[0], words);
  }
  EXPECT_GT(kernels.size(), 5u);
}

// The file does not depend on what was compiled before, and by which caller.
TEST(DeferredArtifactTest, MakesTheSameFile) {
  getAnyKernelFake();
  cxx::Artifact first = compile(), second = compile();
  Session session(second);
  session.instance.limitTokens(64);
  session.instance.prepare();
  std::string bytes = getBytes(first);
  EXPECT_FALSE(bytes.empty());
  EXPECT_EQ(bytes, getBytes(second));

  // The file contains all of its code and loads without the compiler.
  size_t texts = 0;
  for (size_t i = 0; i < fuse_artifact_num_sections(first.get()); ++i) {
    fuse_section section;
    cxx::check(fuse_artifact_section(first.get(), i, &section));
    texts += section.kind == FUSE_SECTION_PTX;
  }
  EXPECT_EQ(texts, 10u);
  cxx::Artifact loaded(cxx::Artifact::create([&](fuse_artifact **made) {
    return fuse_artifact_from_bytes(bytes.data(), bytes.size(), made);
  }));
  Session other(loaded);
  other.instance.prepare();
}

TEST(DeferredArtifactTest, ServesSeveralThreads) {
  getAnyKernelFake();
  cxx::Artifact artifact = compile();
  std::string bytes[4];
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      Session session(artifact);
      session.instance.limitTokens(int64_t(16) << i);
      session.instance.prepare();
      bytes[i] = getBytes(artifact);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &text : bytes)
    EXPECT_EQ(text, bytes[0]);
  EXPECT_FALSE(bytes[0].empty());
}

// The file of a trace is complete when its context is destroyed. It does not
// include kernels that are compiled later.
TEST(DeferredArtifactTest, OutlivesTheTrace) {
  getAnyKernelFake();
  TemporaryDirectory directory;
  std::string path = directory / "trace";
  cxx::Artifact artifact = compile(path.c_str());
  auto size = std::filesystem::file_size(path);
  EXPECT_FALSE(getBytes(artifact).empty());
  EXPECT_EQ(std::filesystem::file_size(path), size);
}
