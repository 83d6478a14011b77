//===- DamagedPlanTest.cpp - Tests of launch plans with a wrong byte ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A valid checksum does not make a plan valid, since anybody can write one. A
// plan with one changed byte is either refused with a message, or it is another
// plan that runs. The sanitizers check that it accesses no foreign memory.
// FUSE_DAMAGED_PLANS is the number of plans to try, starting with seed
// FUSE_SEED.
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "fuse-c/Compiler.hpp"
#include "fuse/Runtime/Core/Container.h"

#include <cstdlib>
#include <map>
#include <random>

using namespace fuse;
using namespace fuse::test;

namespace {

/// Two ops with kernels for three ranges, with an op of the portable path
/// between them.
constexpr const char *kMixed = R"(
  func.func @mlps(%x: tensor<?x64xbf16>, %up: tensor<128x64xbf16>,
      %down: tensor<64x128xbf16>) -> tensor<?x64xbf16> {
    %0 = fuse.mlp %x up(%up) down(%down) act(relu) rounding(exact)
      : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<64x128xbf16>)
        -> tensor<?x64xbf16>
    %1 = arith.negf %0 : tensor<?x64xbf16>
    %2 = fuse.mlp %1 up(%up) down(%down) act(relu) rounding(exact)
      : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<64x128xbf16>)
        -> tensor<?x64xbf16>
    return %2 : tensor<?x64xbf16>
  })";

std::string compile() {
  cxx::Context context;
  cxx::Module module(context, kMixed);
  cxx::CompileOptions options;
  options.cpu = "";
  options.chip = "sm_90a";
  options.tokens = 64;
  cxx::Artifact artifact = module.compile(options);
  size_t size = 0;
  const void *data = fuse_artifact_bytes(artifact.get(), &size);
  return std::string(static_cast<const char *>(data), size);
}

/// Uses a file like a server does, and returns how far it got.
std::string serve(const std::string &bytes) {
  std::string step = "load";
  try {
    cxx::Artifact artifact(cxx::Artifact::create([&](fuse_artifact **made) {
      return fuse_artifact_from_bytes(bytes.data(), bytes.size(), made);
    }));
    step = "program";
    cxx::Device device = cxx::Device::cuda(0);
    cxx::Program program(artifact, device);
    step = "instance";
    cxx::Instance instance(program, nullptr);
    std::vector<char> data(128 * 64 * 2 + 64);
    int64_t weights[2][2] = {{128, 64}, {64, 128}}, tokens[2] = {64, 64};
    for (int i : {0, 1})
      instance.bind(i + 1, DLTensor{data.data(),
                                    {kDLCPU, 0},
                                    2,
                                    {kDLBfloat, 16, 1},
                                    weights[i],
                                    nullptr,
                                    0});
    step = "prepare";
    instance.prepare();
    DLTensor input{data.data(), {kDLCUDA, 0}, 2, {kDLBfloat, 16, 1},
                   tokens,      nullptr,      0};
    DLTensor output = input;
    output.data = data.data() + (int64_t(1) << 40);
    step = "workspace";
    cxx::Workspace workspace = instance.createWorkspace({&input});
    step = "launch";
    for (int64_t count : {1, 16, 64}) {
      tokens[0] = count;
      instance.launch({&input}, {&output}, workspace, nullptr);
    }
  } catch (const cxx::Error &error) {
    EXPECT_GT(std::strlen(error.what()), 10u) << step;
    return step;
  }
  return "runs";
}

uint64_t getNumber(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

} // namespace

TEST(DamagedPlanTest, RefusesOrRunsPlansWithAWrongByte) {
  // With a script, the fake driver has kernels of any name.
  ::setenv("FAKE_CUDA_SCRIPT", "/dev/null", 1);
  const FakeCuda &fake = getFake();
  std::string bytes = compile();
  ASSERT_EQ(serve(bytes), "runs");
  std::vector<runtime::Section> sections = runtime::readContainer(bytes);
  const std::string manifest(sections[0].data);
  uint64_t first = getNumber("FUSE_SEED", 0);
  uint64_t count = getNumber("FUSE_DAMAGED_PLANS", 300);
  std::map<std::string, int> reached;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("FUSE_SEED=" + std::to_string(seed) + " FUSE_DAMAGED_PLANS=1");
    std::mt19937_64 random(seed);
    std::string damaged = manifest;
    size_t place = random() % damaged.size();
    // Characters that occur in manifests pass more checks than arbitrary bytes.
    constexpr char kCharacters[] = "0123456789-[]{},:\"se";
    char other = random() % 2
                     ? kCharacters[random() % (sizeof(kCharacters) - 1)]
                     : char(damaged[place] ^ (1 << random() % 7));
    damaged[place] = other;
    sections[0].data = damaged;
    fake.reset();
    ++reached[serve(runtime::writeContainer(sections))];
  }
  for (const auto &[step, number] : reached)
    std::printf("%d plans: %s\n", number, step.c_str());
  if (count >= 100) {
    EXPECT_GT(reached["load"], 0);
    EXPECT_GT(reached["runs"], 0);
  }
}
