//===- PrefillSchedule.h - Schedules for many tokens ---------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_PREFILLSCHEDULE_H
#define FUSE_SCHEDULE_PREFILLSCHEDULE_H

#include "fuse/Schedule/CostModel.h"

namespace fuse {

/// Tokens of a GEMM tile.
constexpr int64_t kTokenTile = 128;

/// Parts of a tile's hidden units that are activated one after the other, each
/// under one k-step.
constexpr int64_t kQuarters = 4;

/// Fewest k-steps of a tile that a CTA group has: its first ones hide the
/// epilogue of GEMM1.
constexpr int64_t kLeastInterval = 4;
/// Fewest k-steps of a k-interval that is dealt out: what is left of them when
/// a bound moves to the bound of a tile is no less than kLeastInterval.
constexpr int64_t kLeastDealt = 2 * kLeastInterval;
/// k-steps that take as long as adding the partial sums of another block
/// (H200).
constexpr int64_t kSumSteps = 10;
/// Token tiles below which k-intervals of single CTAs, which share fewer
/// loads than CTA groups, must save one k-step in 20 (H200).
constexpr int64_t kLeastScattered = 16, kScatterGain = 20;

/// How a schedule cuts one product of a problem: tiles of 128 tokens by some
/// packed rows, and ranges of its k-steps.
struct PrefillProduct {
  /// Packed rows of a tile.
  int64_t rows;
  /// Tiles of weights side by side, and those of their packing.
  int64_t tiles, packedTiles;
  /// k-steps, most k-steps of a range, and ranges. Those take k-steps in turn:
  /// what GEMM1 writes last, all of them need late.
  int64_t steps, stepsPerRange, ranges;
  int64_t cluster;
  /// Whether CTA groups of blocks have k-intervals instead, and in how many
  /// passes they go through the k-steps of a tile.
  bool isStreamK = false;
  int64_t passes = 1;
  /// Whether ranges are longer where their blocks have a tile less of the first
  /// product.
  bool isUnevenSplitK = false;
  /// First k-steps of a tile that shadow the epilogue of the tile before.
  int64_t shadows = 0;

  /// Number of token tiles, rounded up to whole clusters.
  int64_t getTokenTiles(int64_t count) const {
    return llvm::alignTo(llvm::divideCeil(count, kTokenTile), cluster);
  }
  int64_t getUnits(int64_t count) const {
    return getTokenTiles(count) * tiles * ranges;
  }
  int64_t getStageBytes() const { return (kTokenTile + rows) * 128; }
  int64_t getLeastSteps() const {
    int64_t least = steps / ranges;
    return isStreamK || isUnevenSplitK ? std::min(kLeastInterval, least)
                                       : least;
  }
  /// k-steps that some ranges may have more than the others, all together: each
  /// keeps those that hide an epilogue.
  int64_t getMostLead() const {
    return std::max<int64_t>(0, steps - kLeastInterval * ranges);
  }
};

struct PrefillTiling : ProductTiling {
  PrefillTiling(const MlpProblem &problem, tile::PrefillScheduleAttr schedule);

  /// Effective split after rounding; schedules with equal splits are
  /// duplicates.
  int64_t getSplitK() const {
    return last.isStreamK ? last.passes : last.ranges;
  }

  PrefillProduct first, last;
  /// Tiles of GEMM1 whose hidden units are announced on one semaphore,
  /// semaphores for each token tile, and k-steps of GEMM2 for each.
  int64_t tilesPerSemaphore, semaphoresPerTile, stepsPerSemaphore;

  /// Token tiles that the kernel of the norm prepares, if not all: pairs of
  /// blocks come to those of later groups much later, and prepare these.
  std::optional<int64_t> preparedTiles;

  /// Launch shape of the norm: several blocks of a multiprocessor hide each
  /// other's waits.
  int64_t normBlocks, normThreads;

private:
  int64_t countShadows(bool ofLast, int64_t blocks, int64_t tokens) const;
};

/// Whether `schedule` can be the schedule of `problem`, or why not.
std::string getScheduleProblem(const MlpProblem &problem,
                               tile::PrefillScheduleAttr schedule);
/// On a GPU with `multiprocessors` SMs: blocks at a barrier are resident.
std::string getScheduleProblem(const MlpProblem &problem,
                               tile::PrefillScheduleAttr schedule,
                               int64_t multiprocessors);

/// Microseconds that the kernels of `schedule` take for `tokens` tokens.
double estimatePrefill(const MlpProblem &problem,
                       tile::PrefillScheduleAttr schedule, int64_t tokens,
                       const GpuModel &gpu);

/// The schedule with the smallest estimate for `tokens` tokens, or null when
/// there is none.
tile::PrefillScheduleAttr selectPrefill(const MlpProblem &problem,
                                        int64_t tokens, const GpuModel &gpu);

/// How many times as long as `best` another schedule is expected to take: the
/// estimates, weighed as selectPrefill does.
double comparePrefill(const MlpProblem &problem,
                      tile::PrefillScheduleAttr schedule,
                      tile::PrefillScheduleAttr best, int64_t tokens,
                      const GpuModel &gpu);

/// The same choices for another number of tokens.
tile::PrefillScheduleAttr withTokens(tile::PrefillScheduleAttr schedule,
                                     int64_t tokens);

/// Either kind of schedule, whichever the model thinks faster for `tokens`
/// tokens: #tile.schedule for up to 128, #tile.prefill_schedule for more than
/// 256. Null when there is none.
mlir::Attribute selectProducts(const MlpProblem &problem, int64_t tokens,
                               const GpuModel &gpu);

/// Microseconds that the kernels of either kind of schedule take.
double estimateProducts(const MlpProblem &problem, mlir::Attribute schedule,
                        int64_t tokens, const GpuModel &gpu);

} // namespace fuse

#endif // FUSE_SCHEDULE_PREFILLSCHEDULE_H
