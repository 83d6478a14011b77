//===- UnevenSplitK.cpp - Estimated time of uneven split-K ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Estimates the time of a launch of both products whose GEMM2 uses split-K, in
// k-steps. It computes when each semaphore of hidden units completes, and from
// that when each CTA finishes its K-slice.
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/UnevenSplitK.h"

using namespace fuse;

/// Latencies in k-steps: of an epilogue that is not overlapped, and from the
/// arrival at a semaphore until the waiting block has its first stage. From
/// time stamps of kernels with 256 tokens.
static constexpr int64_t kFlushSteps = 3, kSeenSteps = 4;

namespace {

/// The k-steps of a block's K-slice in the order of execution.
struct BlockSlice {
  int64_t tokenTile = 0;
  llvm::SmallVector<int64_t> steps;
  /// Number of GEMM1 tiles, from the front, that its first k-steps need.
  int64_t needed = 0;
};

} // namespace

static BlockSlice locateSlice(const PrefillTiling &tiling, int64_t blocks,
                              int64_t tokenTiles, int64_t unit) {
  const PrefillProduct &gemm2 = tiling.gemm2;
  BlockSlice result;
  HostIndex host;
  if (gemm2.isUnevenSplitK) {
    KSliceAssignment<HostIndex> assignment(host, tiling, blocks, tokenTiles);
    auto slice = assignment.locate(unit);
    result.tokenTile = slice.tokenTile;
    for (int64_t index = 0; index < assignment.getSteps(slice); ++index)
      result.steps.push_back(assignment.getStep(slice, index));
    result.needed =
        countNeeded(host, tiling, gemm2.overlapSteps, [&](int64_t index) {
          return assignment.getStep(slice, index);
        });
    return result;
  }
  result.tokenTile = unit / gemm2.slices % tokenTiles;
  for (int64_t step = unit % gemm2.slices; step < gemm2.steps;
       step += gemm2.slices)
    result.steps.push_back(step);
  // All blocks use the K-slice that needs the most tiles.
  result.needed =
      countNeeded(host, tiling, gemm2.overlapSteps, [&](int64_t index) {
        return index * gemm2.slices + gemm2.slices - 1;
      });
  return result;
}

int64_t fuse::countSliceSteps(const PrefillTiling &tiling, int64_t blocks,
                              int64_t tokens) {
  int64_t tokenTiles = tiling.gemm2.getTokenTiles(tokens);
  int64_t units = tokenTiles * tiling.tiles1;
  int64_t sliceCount = tiling.gemm2.getUnits(tokens);
  llvm::SmallVector<BlockSlice> slices(blocks);
  llvm::SmallVector<int64_t> begins(blocks);
  llvm::SmallVector<int64_t> ready(tokenTiles * tiling.semaphoresPerTile);
  for (int64_t block = 0; block < blocks; ++block) {
    // Blocks with an extra GEMM1 tile get the last units.
    int64_t unit = blocks - 1 - block;
    if (unit < sliceCount)
      slices[block] = locateSlice(tiling, blocks, tokenTiles, unit);
    int64_t later = tokenTiles * (tiling.tiles1 - slices[block].needed);
    bool flushes = unit >= sliceCount || later < blocks;
    for (int64_t own = block; own < units; own += blocks) {
      begins[block] += tiling.steps1;
      int64_t hidden = tiling.gemm1.overlapSteps;
      if (own + blocks >= units)
        hidden = flushes ? kFlushSteps : tiling.gemm2.overlapSteps;
      int64_t semaphore = own % tokenTiles * tiling.semaphoresPerTile +
                          own / tokenTiles / tiling.tilesPerSemaphore;
      ready[semaphore] =
          std::max(ready[semaphore], begins[block] + hidden + kSeenSteps);
    }
    if (flushes && begins[block] > 0)
      begins[block] += kFlushSteps;
  }
  int64_t most = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t time = begins[block];
    for (int64_t step : slices[block].steps) {
      int64_t semaphore = slices[block].tokenTile * tiling.semaphoresPerTile +
                          step / tiling.stepsPerSemaphore;
      time = std::max(time, ready[semaphore]) + 1;
    }
    most = std::max(most, time);
  }
  return most;
}
