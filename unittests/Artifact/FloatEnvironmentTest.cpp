//===- FloatEnvironmentTest.cpp - Callers with other rounding modes -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Compiler.hpp"
#include "gtest/gtest.h"

#include <cfenv>
#include <random>
#include <vector>

using namespace fuse;

static constexpr int64_t kTokens = 48, kWidth = 64;

// A folded constant, products, a sum and an exponential.
static constexpr const char *kSource = R"mlir(
  func.func @f(%x: tensor<?x64xf32>,
      %w: tensor<64x64xf32> {fuse.parameter = "w"}) -> tensor<?x64xf32> {
    %a = arith.constant 0.1 : f32
    %b = arith.constant 3.3 : f32
    %s = arith.mulf %a, %b : f32
    %n = tensor.splat %s : tensor<64xf32>
    %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w)
      rounding(exact) : (tensor<?x64xf32>, tensor<64xf32>, tensor<64x64xf32>)
        -> tensor<?x64xf32>
    %z = fuse.activation silu %y : tensor<?x64xf32> -> tensor<?x64xf32>
    return %z : tensor<?x64xf32>
  }
)mlir";

static cxx::Artifact compile() {
  cxx::Context context;
  return cxx::Module(context, kSource).compile();
}

namespace {

/// Sets the rounding mode of the caller until the end of a test.
struct Rounding {
  explicit Rounding(int mode) { EXPECT_EQ(std::fesetround(mode), 0); }
  ~Rounding() { std::fesetenv(FE_DFL_ENV); }
};

} // namespace

/// Runs inputs of a magnitude that is a power of two, so that making inputs is
/// exact.
static std::vector<float> run(const cxx::Artifact &artifact, float magnitude) {
  cxx::Device device = cxx::Device::cpu();
  cxx::Program program(artifact, device);
  cxx::Instance instance(program, "f");
  std::vector<float> x(kTokens * kWidth), w(kWidth * kWidth), y(x.size());
  std::mt19937 random(1);
  auto fill = [&](std::vector<float> &values, float scale) {
    for (float &value : values)
      value = float(int(random() % 2001) - 1000) * scale;
  };
  fill(x, magnitude);
  fill(w, 0x1p-10f);
  int64_t tokens[] = {kTokens, kWidth}, weight[] = {kWidth, kWidth};
  DLTensor in = {x.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1},
                 tokens,   nullptr,     0};
  DLTensor bound = in, out = in;
  bound.data = w.data();
  bound.shape = weight;
  out.data = y.data();
  instance.bind(1, bound);
  instance.prepare();
  instance.launch({&in}, {&out});
  return y;
}

// Rounding follows the IR for any caller and any number of threads.
TEST(FloatEnvironmentTest, RoundsAsTheIRSays) {
  std::vector<float> expected = run(compile(), 0x1p-10f);
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO})
    for (unsigned threads : {1, 3}) {
      Rounding rounding(mode);
      // New threads inherit the mode of this one.
      cxx::setNumThreads(5);
      cxx::setNumThreads(threads);
      EXPECT_EQ(run(compile(), 0x1p-10f), expected) << mode << " " << threads;
      // The rounding mode of the caller is restored.
      EXPECT_EQ(std::fegetround(), mode);
    }
  cxx::setNumThreads(0);
}

// Exception flags of kernels do not reach the caller, and nothing traps.
TEST(FloatEnvironmentTest, RaisesNothing) {
  cxx::Artifact artifact = compile();
  std::feclearexcept(FE_ALL_EXCEPT);
  (void)run(artifact, 0x1p117f);
  EXPECT_EQ(std::fetestexcept(FE_OVERFLOW | FE_INVALID | FE_DIVBYZERO), 0);
#ifdef __GLIBC__
  Rounding restored(FE_TONEAREST);
  ASSERT_NE(::feenableexcept(FE_OVERFLOW | FE_INVALID | FE_DIVBYZERO), -1);
  (void)run(compile(), 0x1p117f);
#endif
}
