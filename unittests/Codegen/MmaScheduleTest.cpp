//===- MmaScheduleTest.cpp - Schedules of mma kernels ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/MmaSchedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "tile/IR/TileDialect.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;
using tile::MmaScheduleAttr;

namespace {

/// Shared memory of a block on sm_80, sm_86 and sm_90.
constexpr int64_t kLarge = 163 << 10, kSmall = 99 << 10, kLargest = 227 << 10;

class MmaScheduleTest : public ::testing::Test {
protected:
  MmaScheduleTest() {
    context.loadDialect<func::FuncDialect, FuseDialect, tile::TileDialect>();
  }

  /// An MLP of these widths, gated or dense.
  MlpProblem makeProblem(int64_t width, int64_t hidden, bool isGated = true,
                         bool isF8 = false) {
    auto type = [&](int64_t rows, int64_t columns, StringRef element) {
      return ("tensor<" + Twine(rows) + "x" + Twine(columns) + "x" + element +
              ">")
          .str();
    };
    StringRef stored = isF8 ? "f8E4M3FN" : "bf16";
    std::string x = ("tensor<?x" + Twine(width) + "xbf16>").str(),
                up = type(hidden, width, stored),
                down = type(width, hidden, stored);
    std::string gate = isGated ? "gate(%u) " : "",
                scale = isGated ? ", gate = 0.5" : "",
                scales = isF8 ? "scales(f8E4M3FN, input = 0.5" + scale +
                                    ", up = 0.5, hidden = 0.5, down = 0.5) "
                              : "";
    std::string text =
        "func.func @f(%x: " + x + ", %u: " + up + ", %d: " + down + ") -> " +
        x + " { %y = fuse." + (isGated ? "gated_mlp" : "mlp") + " %x " + gate +
        "up(%u) down(%d) act(silu) " + scales + "rounding(exact) : (" + x +
        ", " + (isGated ? up + ", " : "") + up + ", " + down + ") -> " + x +
        " return %y : " + x + " }";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    Operation *op = nullptr;
    module->walk([&](FusedOpInterface fused) { op = fused; });
    std::string reason;
    std::optional<MlpProblem> problem = describeMma(op, reason);
    EXPECT_EQ(reason, "");
    return *problem;
  }

  MmaScheduleAttr make(int64_t tokens, int64_t tile, int64_t blocks,
                       int64_t split, int64_t rows1, int64_t rows2,
                       int64_t launches) {
    return MmaScheduleAttr::get(&context, tokens, tile, blocks, split, rows1,
                                rows2, /*stages=*/3, /*group=*/16, launches);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(MmaScheduleTest, CountsQuarters) {
  // A run of hidden units is two quarters. A k-step has 64 units in bf16.
  MlpProblem gated = makeProblem(128, 192);
  MmaTiling tiling(gated, make(16, 16, 8, 2, 256, 64, 1));
  EXPECT_EQ(tiling.gemm1.steps, 2);
  EXPECT_EQ(tiling.gemm2.steps, 3);
  EXPECT_EQ(tiling.gemm1.quarters, 6);
  EXPECT_EQ(tiling.gemm1.tiles, 2);
  EXPECT_EQ(tiling.gemm2.quarters, 4);
  EXPECT_EQ(tiling.stepsPerSlice, 2);
  EXPECT_EQ(tiling.slices, 2);
  EXPECT_EQ(tiling.quartersPerSlice, 4);
  EXPECT_EQ(tiling.getUnits(), 8);

  // A dense run is two k-steps, and so is a K-slice at least.
  MlpProblem dense = makeProblem(128, 512, /*isGated=*/false);
  MmaTiling runs(dense, make(16, 16, 8, 8, 64, 256, 1));
  EXPECT_EQ(runs.gemm2.steps, 8);
  EXPECT_EQ(runs.stepsPerSlice, 2);
  EXPECT_EQ(runs.slices, 4);
  EXPECT_EQ(runs.quartersPerSlice, 2);
}

TEST_F(MmaScheduleTest, CountsQuartersOf8BitFloats) {
  // A k-step has 128 units, which are two runs of a gated MLP.
  MlpProblem gated = makeProblem(128, 192, /*isGated=*/true, /*isF8=*/true);
  MmaTiling tiling(gated, make(16, 16, 8, 2, 256, 64, 1));
  EXPECT_EQ(tiling.gemm1.steps, 1);
  EXPECT_EQ(tiling.gemm2.steps, 2);
  EXPECT_EQ(tiling.gemm1.quarters, 8);
  EXPECT_EQ(tiling.stepsPerSlice, 1);
  EXPECT_EQ(tiling.quartersPerSlice, 4);

  MlpProblem dense = makeProblem(128, 512, /*isGated=*/false, /*isF8=*/true);
  MmaTiling runs(dense, make(16, 16, 8, 4, 64, 256, 1));
  EXPECT_EQ(runs.gemm1.quarters, 8);
  EXPECT_EQ(runs.slices, 4);
  EXPECT_EQ(runs.quartersPerSlice, 2);
}

TEST_F(MmaScheduleTest, BlocksThatWaitAreResident) {
  MlpProblem problem = makeProblem(512, 1024);
  EXPECT_EQ(getScheduleProblem(problem, make(16, 16, 32, 16, 256, 256, 1)), "");
  EXPECT_EQ(getScheduleProblem(problem, make(16, 16, 31, 16, 256, 256, 1)),
            "blocks wait for each other, but 31 blocks are less than the 32 "
            "units of GEMM2");
  // Without K-slices, the blocks of three launches do not wait.
  EXPECT_EQ(getScheduleProblem(problem, make(512, 64, 1, 1, 256, 256, 3)), "");
}

TEST_F(MmaScheduleTest, SelectsForEveryNumberOfTokens) {
  GpuModel gpu;
  for (bool isF8 : {false, true})
    for (int64_t shared : {kSmall, kLarge, kLargest})
      for (auto [width, hidden] :
           {std::pair(2048, 16384), std::pair(4096, 12288),
            std::pair(784, 2000)}) {
        MlpProblem problem = makeProblem(width, hidden, true, isF8);
        for (int64_t tokens : {1, 9, 64, 65, 128, 129, 512, 4096}) {
          SCOPED_TRACE(std::to_string(width) + " " + std::to_string(tokens) +
                       " " + std::to_string(shared));
          MmaScheduleAttr schedule = selectMma(problem, tokens, gpu, shared);
          ASSERT_TRUE(schedule);
          EXPECT_EQ(getScheduleProblem(problem, schedule), "");
          EXPECT_GE(schedule.getStages(), 2);
          EXPECT_LE(schedule.getSharedBytes() + 2048, shared);
          EXPECT_EQ(schedule.getLaunches(), tokens <= 128 ? 1 : 3);
          EXPECT_LE(schedule.getTokenTile(), 128);
        }
      }
}

TEST_F(MmaScheduleTest, SharesTilesEvenly) {
  // Tiles of 256 rows of 24576 would be 96 for 132 blocks, and those of 192
  // rows are 128.
  GpuModel gpu;
  MlpProblem problem = makeProblem(4096, 12288);
  for (int64_t tokens : {1, 16, 64, 128})
    EXPECT_EQ(selectMma(problem, tokens, gpu, kLargest).getGemm1TileM(), 192);
  MlpProblem wide = makeProblem(2048, 16384);
  for (int64_t tokens : {1, 16, 64, 128})
    EXPECT_EQ(selectMma(wide, tokens, gpu, kLargest).getGemm1TileM(), 256);
}

TEST_F(MmaScheduleTest, DeclinesWhat32BitsDoNotCount) {
  GpuModel gpu;
  MlpProblem problem = makeProblem(64, 262144);
  EXPECT_TRUE(selectMma(problem, 8191, gpu, kLargest));
  EXPECT_FALSE(selectMma(problem, 8192, gpu, kLargest));
  tile::DispatchAttr ranges = selectMmaRanges(
      problem, 300, gpu, kLargest, [](int64_t) { return Attribute(); });
  ASSERT_TRUE(ranges);
  EXPECT_EQ(ranges.getBounds().back(), 300);
  EXPECT_EQ(ranges.getBounds().front(), 8);
}

} // namespace
