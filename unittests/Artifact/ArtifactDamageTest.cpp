//===- ArtifactDamageTest.cpp - Tests of damaged artifacts ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ContainerTest and ManifestTest flip every byte of small handwritten files.
// This test damages the compiler's output for a block of a real model. It has
// code for a CPU and a GPU, several launches, packed weights and sites.
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Compiler.hpp"
#include "fuse-c/Fuse.hpp"
#include "fuse/Runtime/Core/Container.h"
#include "gtest/gtest.h"

#include <cstring>
#include <set>

using namespace fuse;

namespace {

constexpr const char *kBlock = R"mlir(
func.func @block(%x: tensor<?x1024xbf16>,
    %norm: tensor<1024xbf16> {fuse.parameter = "norm"},
    %gate: tensor<3072x1024xbf16> {fuse.parameter = "gate"},
    %up: tensor<3072x1024xbf16> {fuse.parameter = "up"},
    %down: tensor<1024x3072xbf16> {fuse.parameter = "down"})
    -> tensor<?x1024xbf16> {
  %n = fuse.rms_norm %x weight(%norm) eps 1.0e-6
    : (tensor<?x1024xbf16>, tensor<1024xbf16>) -> tensor<?x1024xbf16>
  %g = fuse.linear %n, %gate
    : (tensor<?x1024xbf16>, tensor<3072x1024xbf16>) -> tensor<?x3072xbf16>
  %a = fuse.activation silu %g : tensor<?x3072xbf16> -> tensor<?x3072xbf16>
  %u = fuse.linear %n, %up
    : (tensor<?x1024xbf16>, tensor<3072x1024xbf16>) -> tensor<?x3072xbf16>
  %h = fuse.gated_mul %a, %u
    : (tensor<?x3072xbf16>, tensor<?x3072xbf16>) -> tensor<?x3072xbf16>
  %y = fuse.linear %h, %down
    : (tensor<?x3072xbf16>, tensor<1024x3072xbf16>) -> tensor<?x1024xbf16>
  %r = fuse.residual_add %x, %y
    : (tensor<?x1024xbf16>, tensor<?x1024xbf16>) -> tensor<?x1024xbf16>
  return %r : tensor<?x1024xbf16>
}
func.func @portable(%x: tensor<?x1024xf32>, %y: tensor<?x1024xf32>)
    -> tensor<?x1024xf32> {
  %0 = fuse.residual_add %x, %y
    : (tensor<?x1024xf32>, tensor<?x1024xf32>) -> tensor<?x1024xf32>
  %1 = fuse.rms_norm %0 eps 1.0e-6 : (tensor<?x1024xf32>) -> tensor<?x1024xf32>
  return %1 : tensor<?x1024xf32>
}
)mlir";

/// The compiled artifact of the block.
const std::string &getBytes() {
  static const std::string bytes = [] {
    cxx::Context context;
    cxx::Module module(context, kBlock);
    module.run("builtin.module(fuse-kernel-formation-pipeline)");
    cxx::CompileOptions options;
    options.chip = "sm_90a";
    options.tokens = 8;
    options.link = 1;
    cxx::Artifact artifact = module.compile(options);
    size_t size = 0;
    const void *data = fuse_artifact_bytes(artifact.get(), &size);
    return std::string(static_cast<const char *>(data), size);
  }();
  return bytes;
}

/// Does everything that a program does with a file before it launches.
void load(const std::string &bytes) {
  cxx::Artifact artifact(cxx::Artifact::create([&](fuse_artifact **made) {
    return fuse_artifact_from_bytes(bytes.data(), bytes.size(), made);
  }));
  cxx::Device device = cxx::Device::cpu();
  cxx::Program program(artifact, device);
  for (const char *name : {"block", "portable"}) {
    cxx::Instance instance(program, name);
    fuse_signature signature = program.getSignature(0);
    EXPECT_LE(signature.num_results, 64u);
  }
}

} // namespace

TEST(ArtifactDamageTest, NoticesFlippedBytes) {
  const std::string &bytes = getBytes();
  ASSERT_NO_THROW(load(bytes));
  // Flip every byte of header and table, and a thousand bytes of the rest.
  constexpr size_t kWhole = 512;
  size_t step = std::max<size_t>(1, bytes.size() / 1000);
  std::string damaged = bytes;
  std::set<std::string> reasons;
  for (size_t place = 0; place < bytes.size();
       place += place < kWhole ? 1 : step) {
    damaged[place] ^= char(1 << (place % 8));
    try {
      load(damaged);
      ADD_FAILURE() << "byte " << place << " of " << bytes.size();
    } catch (const cxx::Error &error) {
      reasons.insert(error.what());
    }
    damaged[place] = bytes[place];
  }
  EXPECT_NO_THROW(load(damaged));
  EXPECT_TRUE(reasons.count("the artifact is damaged: its checksum is wrong"));
  for (const std::string &reason : reasons)
    EXPECT_GT(reason.size(), 10u);
}

// A valid checksum does not make the contents trustworthy.
TEST(ArtifactDamageTest, ChecksManifestsWithRightChecksums) {
  std::vector<runtime::Section> sections = runtime::readContainer(getBytes());
  std::string manifest(sections[0].data);
  size_t step = std::max<size_t>(1, manifest.size() / 700), refused = 0;
  size_t checked = 0;
  for (size_t place = 0; place < manifest.size(); place += step, ++checked) {
    std::string damaged = manifest;
    damaged[place] ^= char(1 << (checked % 7));
    sections[0].data = damaged;
    try {
      load(runtime::writeContainer(sections));
    } catch (const cxx::Error &error) {
      EXPECT_STRNE(error.what(), "");
      ++refused;
    }
  }
  // White space and names may have any value.
  EXPECT_GT(refused, checked / 4);
  EXPECT_LT(refused, checked);
}
