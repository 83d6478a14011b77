//===- DecodeWaitsTest.cpp - Decode kernels reduce every sum once ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of the blocks that share an output tile, only some may reduce its partial
// sums, and the others end. These tests simulate the generated kernels and
// check two properties: all threads end, and exactly one block reduces each
// partial sum of each token.
//
//===----------------------------------------------------------------------===//

#include "KernelSimulation.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;

namespace {

struct Case {
  int64_t width, hidden, tokens, blocks, splitK, reducers, rows = 128;
  std::string more = ", weight_stages = 4, token_stages = 4, max_in_flight = 2";
  /// Whether swap-AB is used. Then one lane of each warp arrives per K-slice of
  /// a tile.
  bool isSwapAB = false, isF8 = false;

  std::string getSchedule() const {
    return ("#tile.schedule<tokens = " + llvm::Twine(tokens) + ", blocks = " +
            llvm::Twine(blocks) + ", split_k = " + llvm::Twine(splitK) +
            ", gemm2_tile_m = " + llvm::Twine(rows) + more +
            ", reducers = " + llvm::Twine(reducers) +
            ", partials = f32, tagged_partials = true, " +
            (isSwapAB ? "swap_ab" : "smem_epilogue") +
            " = true, hint = evict_first, dependent = true>")
        .str();
  }
  int64_t countLanes() const { return isSwapAB ? 4 : 1; }
};

class DecodeWaitsTest : public ::testing::Test {
protected:
  void check(const Case &item) {
    SCOPED_TRACE(item.getSchedule() + " of " + std::to_string(item.width) +
                 "/" + std::to_string(item.hidden));
    OwningOpRef<ModuleOp> module = compileMLP(context, item.width, item.hidden,
                                              item.getSchedule(), item.isF8);
    ASSERT_TRUE(module);
    tile::KernelOp kernel;
    module->walk([&](tile::KernelOp op) { kernel = op; });
    // Lane 0 of the active warps.
    SmallVector<int64_t> threads = {0, 32};
    for (int64_t warp = 4; warp < 12; ++warp)
      for (int64_t lane = 0; lane < item.countLanes(); ++lane)
        threads.push_back(32 * warp + lane);
    KernelSimulation simulation(kernel, threads);
    for (int64_t tokens : {item.tokens, item.tokens - 3, int64_t(1)})
      check(item, simulation, tokens);
  }

  void check(const Case &item, KernelSimulation &simulation, int64_t tokens) {
    SCOPED_TRACE(std::to_string(tokens) + " tokens");
    KernelSimulation::Result result = simulation.run(tokens);
    EXPECT_TRUE(result.hasEnded) << result.waiting;
    EXPECT_EQ(simulation.getExcessCopies(), 0);
    EXPECT_EQ(simulation.countInexactWaits(), 0);
    // Every warp stores each column of its tile and K-slice. A lane stores
    // those of one even and one odd token of every eight.
    int64_t columns = item.tokens / 4, wrong = 0;
    int64_t tiles = llvm::divideCeil(item.width, item.rows);
    EXPECT_EQ(int64_t(simulation.getMarked().size()),
              tiles * item.splitK * columns * 8 * item.countLanes());
    for (auto [place, count] : simulation.getMarked()) {
      int64_t column = place.second / (256 * item.rows / 64) % columns;
      int64_t lane = place.second / (item.rows / 64) % 32;
      int64_t token = column / 2 * 8 + lane % 4 * 2 + column % 2;
      wrong += count != (token < tokens);
    }
    EXPECT_EQ(wrong, 0);
  }

  MLIRContext context;
};

} // namespace

TEST_F(DecodeWaitsTest, AllAddUp) {
  for (int64_t tokens : {8, 40, 64})
    check({256, 512, tokens, 8, 4, 0});
}

TEST_F(DecodeWaitsTest, SomeAddUp) {
  for (int64_t tokens : {8, 24, 40, 56, 64})
    for (int64_t reducers : {1, 2, 3, 4})
      check({256, 512, tokens, 8, 4, reducers});
  // Numbers of tiles and K-slices without a common divisor, and a single tile.
  for (int64_t reducers : {1, 2, 4, 6})
    for (int64_t width : {128, 384, 640})
      check({width, 896, 40, 35, 7, reducers});
  for (int64_t reducers : {3, 5, 8})
    check({512, 1024, 56, 32, 8, reducers});
}

TEST_F(DecodeWaitsTest, WholeUnits) {
  for (int64_t reducers : {1, 2})
    check({512, 512, 16, 8, 4, reducers, 256});
}

/// Blocks that limit their loads in flight, some of them with the limit for
/// stragglers.
TEST_F(DecodeWaitsTest, StragglerInFlight) {
  std::string stragglerInFlight = ", weight_stages = 4, token_stages = 4, "
                                  "max_in_flight = 2, straggler_in_flight = 4";
  check({256, 512, 16, 8, 4, 2, 128, stragglerInFlight});
  check({256, 1024, 8, 4, 2, 0, 128, stragglerInFlight});
  check({512, 512, 16, 8, 4, 1, 256, stragglerInFlight});
}

/// More blocks than units and tiles: as many as a GPU has SMs. Idle blocks wait
/// for the others to saturate memory, and all blocks are renumbered.
TEST_F(DecodeWaitsTest, IdleBlocks) {
  for (int64_t reducers : {0, 4, 5})
    check({256, 8192, 56, 132, 8, reducers, 128});
  // One unit per tile, some of them in blocks without a tile.
  for (int64_t reducers : {4, 5})
    check({2048, 16384, 56, 132, 8, reducers, 128});
  check({1024, 12288, 16, 132, 16, 8, 128});
}

/// Half tiles, with a block without a unit.
TEST_F(DecodeWaitsTest, HalfTiles) {
  std::string half = ", gemm1_tile_m = 128, weight_stages = 6, token_stages = "
                     "4, max_in_flight = 3";
  for (int64_t reducers : {1, 3})
    check({256, 512, 32, 9, 4, reducers, 128, half});
}

/// Tiles of 192 rows: an even and an odd number of k-steps, both ends of the
/// hidden layer, blocks without tiles and blocks without units.
TEST_F(DecodeWaitsTest, Gemm1Tile192) {
  std::string tile192 = ", gemm1_tile_m = 192, weight_stages = 4, "
                        "token_stages = 4, max_in_flight = 3";
  check({256, 768, 16, 8, 4, 0, 128, tile192});
  check({320, 640, 80, 12, 2, 0, 128, tile192});
  check({192, 400, 32, 9, 3, 2, 128, tile192});
  check({384, 832, 128, 9, 3, 0, 128, tile192});
}

/// swap-AB in GEMM1. Tiles begin anywhere in a unit, several K-slices need
/// parts of one tile, and the last tile overlaps its predecessor. Blocks have
/// no, one or two tiles.
TEST_F(DecodeWaitsTest, Gemm1SwapAB) {
  auto swap = [](int64_t gemm1TileM) {
    return ", gemm1_tile_m = " + std::to_string(gemm1TileM) +
           ", weight_stages = 4, token_stages = 4, max_in_flight = 3";
  };
  auto checkBoth = [&](Case item, int64_t gemm1TileM) {
    item.isSwapAB = true;
    item.more = swap(gemm1TileM);
    for (bool isF8 : {false, true}) {
      item.isF8 = isF8;
      check(item);
    }
  };
  for (int64_t count : {32, 96, 128, 160, 192, 224})
    checkBoth({256, 768, 128, 48, 3, 0}, count);
  checkBoth({384, 768, 72, 10, 3, 2}, 160);
  checkBoth({128, 1040, 104, 12, 5, 0}, 96);
  checkBoth({256, 768, 80, 8, 2, 0, 256}, 256);
  checkBoth({256, 768, 80, 8, 2, 0, 128}, 256);
  checkBoth({128, 1280, 96, 8, 5, 0}, 160);
  // K-slices with fewer rows than a tile.
  checkBoth({128, 768, 96, 6, 6, 0}, 224);
  Case narrow{128, 768, 96, 12, 12, 0};
  narrow.more = swap(192);
  narrow.isSwapAB = true;
  check(narrow);
  // Stages that are requested after the previous ones have landed.
  narrow.more += ", publish_throttle_stages = 3, publish_in_flight = 1";
  check(narrow);
}

/// More tiles than blocks: the first blocks have one more tile than the others,
/// and the last blocks have the units.
TEST_F(DecodeWaitsTest, LongBlocks) {
  std::string half = ", gemm1_tile_m = 128, weight_stages = 8, token_stages = "
                     "4, max_in_flight = 3";
  for (int64_t reducers : {0, 2})
    check({256, 640, 16, 8, 3, reducers, 128, half});
  check({384, 640, 40, 9, 2, 0, 128, half});
  check({256, 1408, 56, 8, 4, 0, 128});
  // Every block has a unit.
  check({256, 640, 16, 8, 4, 0, 128, half});
}
