//===- DecodeWaitsTest.cpp - Decode kernels add up every sum once ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of the blocks that share an output tile only some may add up its sums, and
// the others end. These tests run what the compiler emits and look at two
// things: all threads end, and one block adds up each partial sum of each
// token.
//
//===----------------------------------------------------------------------===//

#include "KernelSimulation.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;

namespace {

struct Case {
  int64_t width, hidden, tokens, blocks, split, adders, rows = 128;
  std::string more = ", weight_stages = 4, token_stages = 4, in_flight = 2";

  std::string getSchedule() const {
    return ("#tile.schedule<tokens = " + llvm::Twine(tokens) + ", blocks = " +
            llvm::Twine(blocks) + ", split = " + llvm::Twine(split) +
            ", rows = " + llvm::Twine(rows) + more + ", adders = " +
            llvm::Twine(adders) + ", partials = f32, polled = true, " +
            "staged = true, hint = evict_first, dependent = true>")
        .str();
  }
};

class DecodeWaitsTest : public ::testing::Test {
protected:
  void check(const Case &item) {
    SCOPED_TRACE(item.getSchedule() + " of " + std::to_string(item.width) +
                 "/" + std::to_string(item.hidden));
    OwningOpRef<ModuleOp> module =
        compileMLP(context, item.width, item.hidden, item.getSchedule());
    ASSERT_TRUE(module);
    tile::KernelOp kernel;
    module->walk([&](tile::KernelOp op) { kernel = op; });
    // Lane 0 of the warps that do something.
    SmallVector<int64_t> threads = {0, 32};
    for (int64_t warp = 4; warp < 12; ++warp)
      threads.push_back(32 * warp);
    KernelSimulation simulation(kernel, threads);
    for (int64_t tokens : {item.tokens, item.tokens - 3, int64_t(1)})
      check(item, simulation, tokens);
  }

  void check(const Case &item, KernelSimulation &simulation, int64_t tokens) {
    SCOPED_TRACE(std::to_string(tokens) + " tokens");
    KernelSimulation::Result result = simulation.run(tokens);
    EXPECT_TRUE(result.hasEnded) << result.waiting;
    // Every warp stores each column of its tile and range, and lane 0 of it
    // those of one token of every eight, even and odd.
    int64_t columns = item.tokens / 4, wrong = 0;
    int64_t tiles = llvm::divideCeil(item.width, item.rows);
    EXPECT_EQ(int64_t(simulation.getMarked().size()),
              tiles * item.split * columns * 8);
    for (auto [place, count] : simulation.getMarked()) {
      int64_t column = place.second / (256 * item.rows / 64) % columns;
      wrong += count != (column / 2 * 8 + column % 2 < tokens);
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
    for (int64_t adders : {1, 2, 3, 4})
      check({256, 512, tokens, 8, 4, adders});
  // Tiles and ranges that have no common divisor, and one tile alone.
  for (int64_t adders : {1, 2, 4, 6})
    for (int64_t width : {128, 384, 640})
      check({width, 896, 40, 35, 7, adders});
  for (int64_t adders : {3, 5, 8})
    check({512, 1024, 56, 32, 8, adders});
}

TEST_F(DecodeWaitsTest, WholeUnits) {
  for (int64_t adders : {1, 2})
    check({512, 512, 16, 8, 4, adders, 256});
}

/// More blocks than units and tiles, as many as a GPU has multiprocessors:
/// where the others keep memory busy, those wait for them, and all are numbered
/// anew.
TEST_F(DecodeWaitsTest, IdleBlocks) {
  for (int64_t adders : {0, 4, 5})
    check({256, 8192, 56, 132, 8, adders, 128});
  // A unit for each tile, and some units in blocks without a tile.
  for (int64_t adders : {4, 5})
    check({2048, 16384, 56, 132, 8, adders, 128});
  check({1024, 12288, 16, 132, 16, 8, 128});
}

/// Half tiles, with a block that has no unit.
TEST_F(DecodeWaitsTest, HalfTiles) {
  std::string half =
      ", first_rows = 128, weight_stages = 6, token_stages = 4, in_flight = 3";
  for (int64_t adders : {1, 3})
    check({256, 512, 32, 9, 4, adders, 128, half});
}

/// Three quarters of a tile for each block: an even and an odd number of
/// k-steps, both ends of the hidden layer, blocks without tiles and without
/// units.
TEST_F(DecodeWaitsTest, Quarters) {
  std::string quarters =
      ", first_rows = 192, weight_stages = 4, token_stages = 4, in_flight = 3";
  check({256, 768, 16, 8, 4, 0, 128, quarters});
  check({320, 640, 80, 12, 2, 0, 128, quarters});
  check({192, 400, 32, 9, 3, 2, 128, quarters});
  check({384, 832, 128, 9, 3, 0, 128, quarters});
}

/// More tiles than blocks: the first blocks have one more than the others, and
/// the last blocks have the units.
TEST_F(DecodeWaitsTest, LongBlocks) {
  std::string half =
      ", first_rows = 128, weight_stages = 8, token_stages = 4, in_flight = 3";
  for (int64_t adders : {0, 2})
    check({256, 640, 16, 8, 3, adders, 128, half});
  check({384, 640, 40, 9, 2, 0, 128, half});
  check({256, 1408, 56, 8, 4, 0, 128});
  // Every block has a unit.
  check({256, 640, 16, 8, 4, 0, 128, half});
}
