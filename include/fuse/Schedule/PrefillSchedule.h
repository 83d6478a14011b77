//===- PrefillSchedule.h - Schedules of prefill kernels ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_PREFILLSCHEDULE_H
#define FUSE_SCHEDULE_PREFILLSCHEDULE_H

#include "fuse/Schedule/CostModel.h"

namespace fuse {

/// Number of tokens of a GEMM tile.
constexpr int64_t kTokenTile = 128;

/// Number of parts of the hidden units of a tile. Each part is activated during
/// one k-step.
constexpr int64_t kQuarters = 4;

/// Minimum number of k-steps of a tile that a CTA group has. Its first k-steps
/// hide the epilogue of GEMM1.
constexpr int64_t kLeastInterval = 4;
/// Minimum number of k-steps of an assigned k-interval. If one of its bounds
/// moves to the bound of a tile, at least kLeastInterval k-steps remain.
constexpr int64_t kLeastAssigned = 2 * kLeastInterval;
/// Time to add the partial sums of another block, in k-steps (H200).
constexpr int64_t kSumSteps = 10;
/// Number of token tiles below which k-intervals of single CTAs must save one
/// k-step in 20 (H200). Single CTAs share fewer loads than CTA groups.
constexpr int64_t kLeastScattered = 16, kScatterGain = 20;

/// The tiles of one product: 128 tokens by a number of packed rows, and
/// K-slices.
struct PrefillProduct {
  /// Number of packed rows of a tile.
  int64_t rows;
  /// Number of weight tiles, and number of packed tiles.
  int64_t tiles, packedTiles;
  /// Number of k-steps, maximum number of k-steps of a K-slice, and number of
  /// K-slices. K-slices have interleaved k-steps, so that all of them need the
  /// last results of GEMM1 late.
  int64_t steps, stepsPerSlice, slices;
  int64_t cluster;
  /// Whether CTA groups have k-intervals instead (stream-K), and the number of
  /// passes over the k-steps of a tile.
  bool isStreamK = false;
  int64_t passes = 1;
  /// Whether K-slices are longer if their blocks have one GEMM1 tile less.
  bool isUnevenSplitK = false;
  /// First k-steps of a tile that overlap the epilogue of the previous tile.
  int64_t overlapSteps = 0;

  /// Number of token tiles, rounded up to whole clusters.
  int64_t getTokenTiles(int64_t count) const {
    return llvm::alignTo(llvm::divideCeil(count, kTokenTile), cluster);
  }
  int64_t getUnits(int64_t count) const {
    return getTokenTiles(count) * tiles * slices;
  }
  int64_t getStageBytes() const { return (kTokenTile + rows) * 128; }
  int64_t getLeastSteps() const {
    int64_t least = steps / slices;
    return isStreamK || isUnevenSplitK ? std::min(kLeastInterval, least)
                                       : least;
  }
  /// Total number of k-steps that longer K-slices may have in addition. Each
  /// K-slice keeps the k-steps that hide an epilogue.
  int64_t getMostLead() const {
    return std::max<int64_t>(0, steps - kLeastInterval * slices);
  }
};

struct PrefillTiling : ProductTiling {
  PrefillTiling(const MlpProblem &problem, tile::PrefillScheduleAttr schedule);

  /// Effective split after rounding; schedules with equal splits are
  /// duplicates.
  int64_t getSplitK() const {
    return gemm2.isStreamK ? gemm2.passes : gemm2.slices;
  }

  PrefillProduct gemm1, gemm2;
  /// Number of GEMM1 tiles that arrive at one semaphore, number of semaphores
  /// per token tile, and number of GEMM2 k-steps per semaphore.
  int64_t tilesPerSemaphore, semaphoresPerTile, stepsPerSemaphore;

  /// Number of token tiles that the norm kernel normalizes, or nothing if it
  /// normalizes all. Clusters reach the tiles of later groups much later, and
  /// normalize these themselves.
  std::optional<int64_t> preparedTiles;

  /// Launch shape of the norm. Several blocks per multiprocessor hide the
  /// latency of each other.
  int64_t normBlocks, normThreads;

private:
  int64_t countOverlapSteps(bool ofGemm2, int64_t blocks, int64_t tokens) const;
};

/// The reason why `schedule` is invalid for `problem`, or an empty string.
std::string getScheduleProblem(const MlpProblem &problem,
                               tile::PrefillScheduleAttr schedule);
/// Also checks that blocks of a barrier are resident with `multiprocessors`
/// SMs.
std::string getScheduleProblem(const MlpProblem &problem,
                               tile::PrefillScheduleAttr schedule,
                               int64_t multiprocessors);

/// Predicted time of the kernels for `tokens` tokens, in microseconds.
double estimatePrefill(const MlpProblem &problem,
                       tile::PrefillScheduleAttr schedule, int64_t tokens,
                       const GpuModel &gpu);

/// The schedule with the smallest estimate for `tokens` tokens, or null if
/// there is none.
tile::PrefillScheduleAttr selectPrefill(const MlpProblem &problem,
                                        int64_t tokens, const GpuModel &gpu);

/// Ratio of the predicted times of `schedule` and `best`, with the margins of
/// selectPrefill.
double comparePrefill(const MlpProblem &problem,
                      tile::PrefillScheduleAttr schedule,
                      tile::PrefillScheduleAttr best, int64_t tokens,
                      const GpuModel &gpu);

/// The same schedule for another number of tokens.
tile::PrefillScheduleAttr withTokens(tile::PrefillScheduleAttr schedule,
                                     int64_t tokens);

/// The schedule with the smaller estimate for `tokens` tokens: #tile.schedule
/// for up to 128 tokens, #tile.prefill_schedule for more than 256. Null if
/// there is none.
mlir::Attribute selectProducts(const MlpProblem &problem, int64_t tokens,
                               const GpuModel &gpu);

/// Predicted time of the kernels of either kind of schedule, in microseconds.
double estimateProducts(const MlpProblem &problem, mlir::Attribute schedule,
                        int64_t tokens, const GpuModel &gpu);

} // namespace fuse

#endif // FUSE_SCHEDULE_PREFILLSCHEDULE_H
