//===- PrefillSchedule.cpp - Schedules of prefill kernels -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/PrefillSchedule.h"
#include "fuse/Schedule/DecodeSchedule.h"
#include "fuse/Schedule/UnevenSplitK.h"

using namespace mlir;
using namespace fuse;

/// Number of semaphores per token tile. The producer warp polls them one after
/// the other, so there are few. Uneven split-K needs more semaphores, to
/// separate the hidden units of blocks with an extra tile from the others.
static constexpr int64_t kReadySemaphoreTiles = 8, kUnevenSemaphoreTiles = 16;

/// Token columns that the idle warps of a block normalize per k-step.
/// kNormSlack is the minimum ratio of the first group's time to the time for
/// normalizing the other groups (H200).
static constexpr int64_t kNormColumns = 600, kNormSlack = 2;

PrefillTiling::PrefillTiling(const MlpProblem &problem,
                             tile::PrefillScheduleAttr schedule)
    : ProductTiling(problem, /*gemm1TileM=*/256, schedule.getGemm2TileM()) {
  int64_t cluster = schedule.getCluster();
  gemm1.rows = 256;
  gemm1.tiles = gemm1.packedTiles = tiles1;
  gemm1.steps = gemm1.stepsPerSlice = steps1;
  gemm1.slices = 1;
  gemm1.cluster = cluster;
  gemm2.rows = rows;
  gemm2.tiles = tiles2;
  gemm2.packedTiles = packedTiles2;
  gemm2.steps = steps2;
  gemm2.isStreamK = schedule.getStreamK();
  if (gemm2.isStreamK) {
    // All passes must have the same length.
    gemm2.passes = std::min(schedule.getSplitK(), steps2);
    while (steps2 % gemm2.passes != 0)
      --gemm2.passes;
  }
  gemm2.slices = gemm2.isStreamK ? 1 : std::min(schedule.getSplitK(), steps2);
  gemm2.stepsPerSlice = llvm::divideCeil(steps2, gemm2.slices);
  gemm2.cluster = cluster;
  int64_t units = gemm1.getUnits(schedule.getTokens());
  gemm2.isUnevenSplitK = schedule.getUnevenSplitK() && gemm2.slices > 1 &&
                         units > schedule.getBlocks() &&
                         units % schedule.getBlocks() != 0;
  if (problem.hasGemm1()) {
    tilesPerSemaphore =
        llvm::divideCeil(tiles1, gemm2.isUnevenSplitK ? kUnevenSemaphoreTiles
                                                      : kReadySemaphoreTiles);
    semaphoresPerTile = llvm::divideCeil(tiles1, tilesPerSemaphore);
    int64_t columns = 128 / problem.getElementBytes();
    stepsPerSemaphore = tilesPerSemaphore * hiddenPerTile / columns;
  } else {
    tilesPerSemaphore = semaphoresPerTile = stepsPerSemaphore = 0;
  }
  gemm1.overlapSteps = countOverlapSteps(
      /*ofGemm2=*/false, schedule.getBlocks(), schedule.getTokens());
  if (problem.hasGemm1())
    gemm2.overlapSteps = countOverlapSteps(
        /*ofGemm2=*/true, schedule.getBlocks(), schedule.getTokens());
  // Each thread has two vectors of a row, so that one is in flight while the
  // other is processed.
  normThreads =
      std::clamp<int64_t>(llvm::alignTo(problem.width / 16, 32), 64, 512);
  int64_t rows = schedule.getTokens();
  int64_t group = schedule.getGroup() * cluster;
  int64_t rest = rows - group * kTokenTile;
  if (gemm2.isStreamK && cluster > 1 && rest > 0 &&
      group * tiles1 * steps1 * kNormColumns >=
          kNormSlack * rest * problem.width) {
    preparedTiles = group;
    rows -= rest;
  }
  normBlocks = std::min(rows, schedule.getBlocks() * (2048 / normThreads));
}

/// A quarter of an epilogue takes longer than a k-step, so each quarter gets
/// two k-steps if a unit has enough of them. GEMM2 needs twice that: the hidden
/// units that were computed last become ready during the second half. No
/// K-slice has fewer k-steps than the epilogue that it overlaps.
int64_t PrefillTiling::countOverlapSteps(bool ofGemm2, int64_t blocks,
                                         int64_t tokens) const {
  int64_t least = (ofGemm2 ? gemm2 : gemm1).getLeastSteps();
  int64_t free = least, wanted = 2 * kQuarters;
  if (ofGemm2) {
    int64_t tiles = blocks / gemm2.getTokenTiles(tokens);
    free = least * std::max<int64_t>(0, tiles1 - tiles) / tiles1;
    wanted *= 2;
  }
  return free >= wanted ? 2 * kQuarters : std::min(kQuarters, least);
}

std::string fuse::getScheduleProblem(const MlpProblem &problem,
                                     tile::PrefillScheduleAttr schedule) {
  int64_t tokens = schedule.getTokens(), blocks = schedule.getBlocks();
  if (problem.quant)
    return "prefill kernels have no measured scales";
  if (problem.tokens && *problem.tokens > tokens)
    return ("the schedule is for " + Twine(tokens) + " tokens, the op has " +
            Twine(*problem.tokens))
        .str();
  int64_t widest = std::max(problem.width, problem.hidden);
  for (const DecodeOutput &output : problem.outputs)
    widest = std::max(widest, output.rows);
  if (tokens * widest > std::numeric_limits<int32_t>::max())
    return (Twine(tokens) + " tokens of " + Twine(widest) +
            " elements exceed 32-bit indices")
        .str();
  if (schedule.getLaunches() == 1 && !problem.hasGemm1())
    return "launches = 1 requires GEMM1";
  PrefillTiling tiling(problem, schedule);
  const PrefillProduct &gemm2 = tiling.gemm2;
  if (gemm2.slices > 1 && gemm2.getUnits(tokens) > blocks)
    return ("split-K requires a block for each unit of GEMM2, but there are " +
            Twine(gemm2.getUnits(tokens)) + " units for " + Twine(blocks) +
            " blocks")
        .str();
  if (!gemm2.isStreamK)
    return "";
  int64_t tiles = gemm2.getTokenTiles(tokens);
  if (tiles > blocks)
    return ("stream-K requires a block for each token tile, but there are " +
            Twine(tiles) + " token tiles for " + Twine(blocks) + " blocks")
        .str();
  if (gemm2.steps < kLeastAssigned)
    return ("stream-K requires at least " + Twine(kLeastAssigned) +
            " k-steps of GEMM2, not " + Twine(gemm2.steps))
        .str();
  // Kernels compute k-intervals in 32 bits.
  int64_t all = tiles * gemm2.tiles * gemm2.steps;
  if (blocks * (all + blocks * tiling.steps1) >
      std::numeric_limits<int32_t>::max())
    return ("stream-K with " + Twine(blocks) + " blocks and " + Twine(all) +
            " k-steps exceeds 32-bit indices")
        .str();
  return "";
}

std::string fuse::getScheduleProblem(const MlpProblem &problem,
                                     tile::PrefillScheduleAttr schedule,
                                     int64_t multiprocessors) {
  bool hasBarrier = schedule.getLaunches() == 1 ||
                    PrefillTiling(problem, schedule).gemm2.slices > 1;
  if (hasBarrier && schedule.getBlocks() > multiprocessors)
    return ("it has a grid barrier of " + Twine(schedule.getBlocks()) +
            " blocks for " + Twine(multiprocessors) + " multiprocessors")
        .str();
  return getScheduleProblem(problem, schedule);
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// Bytes per cycle that an SM loads from L2 while all SMs load (H200).
static constexpr double kBytesPerCycle = 44;
/// Cycles of a k-step per weight row. The tensor cores need 4. Shared memory,
/// which copies fill at the same time, has less bandwidth (H200).
static constexpr double kRowCycles = 4.8;
/// Cycles of an epilogue that is not overlapped (H200).
static constexpr double kEpilogueCycles = 1500;
/// Microseconds between the products if each has a launch: the end of one grid
/// and the first stages of the next.
static constexpr double kLaunchGap = 3;

/// Microseconds to add the partial sums of a tile, and to wait for the first of
/// them (H200).
static constexpr double kAddSums = 2, kAwaitSums = 4;

namespace {

/// The stream-K intervals of GEMM2, computed in the same way as in kernels.
struct Intervals {
  Intervals(const PrefillTiling &tiling, int64_t blocks, int64_t tokens);

  int64_t getLength(size_t ctaGroup) const {
    return bounds[ctaGroup + 1] - bounds[ctaGroup];
  }
  /// k-steps of both products for a block of a CTA group.
  int64_t getSteps(size_t ctaGroup) const {
    bool lacksExtra = ctaGroup < static_cast<size_t>(groupsWithoutExtra);
    return (lacksExtra ? fewest : most) * tiling.steps1 + getLength(ctaGroup);
  }
  /// Number of blocks whose partial sums a block of a CTA group adds.
  int64_t getOthers(size_t ctaGroup) const;

  const PrefillTiling &tiling;
  /// Minimum and maximum number of GEMM1 tiles of a block, and number of CTA
  /// groups with the minimum, which have no extra tile.
  int64_t fewest, most, groupsWithoutExtra;
  /// First k-step of each k-interval, and the end.
  SmallVector<int64_t> bounds;

private:
  int64_t assignToGroups(int64_t members, int64_t blocks, int64_t tokenTiles);

  /// Number of CTA groups, number of CTA groups with k-intervals, total of the
  /// k-steps to assign, and GEMM1 k-steps of an extra tile.
  int64_t ctaGroups, assignedGroups, sum, extraSteps;
};

} // namespace

/// Assigns k-intervals to groups of `members` CTAs. Returns the number of
/// k-steps of the first group, including the time to add sums.
int64_t Intervals::assignToGroups(int64_t members, int64_t blocks,
                                  int64_t tokenTiles) {
  int64_t units = tokenTiles * tiling.tiles1;
  int64_t tiles = tokenTiles / members * tiling.gemm2.tiles;
  int64_t all = tiles * tiling.gemm2.steps;
  ctaGroups = assignedGroups = blocks / members;
  fewest = units / blocks;
  most = llvm::divideCeil(units, blocks);
  groupsWithoutExtra = std::min((blocks - units % blocks) / members, ctaGroups);
  extraSteps = tiling.steps1;
  if (all < groupsWithoutExtra * extraSteps + ctaGroups * kLeastAssigned) {
    assignedGroups =
        std::min(groupsWithoutExtra ? groupsWithoutExtra : ctaGroups,
                 all / kLeastAssigned);
    extraSteps = 0;
  }
  sum = all + (ctaGroups - groupsWithoutExtra) * extraSteps;
  bool isWhole =
      tiles % assignedGroups == 0 &&
      (groupsWithoutExtra == 0 || groupsWithoutExtra >= assignedGroups);
  return sum / assignedGroups + (isWhole ? 0 : kSumSteps);
}

Intervals::Intervals(const PrefillTiling &tiling, int64_t blocks,
                     int64_t tokens)
    : tiling(tiling) {
  int64_t tokenTiles = tiling.gemm2.getTokenTiles(tokens);
  int64_t large = assignToGroups(tokenTiles, blocks, tokenTiles);
  int64_t least =
      tokenTiles < kLeastScattered ? large - large / kScatterGain : large;
  if (assignToGroups(tiling.gemm2.cluster, blocks, tokenTiles) >= least)
    assignToGroups(tokenTiles, blocks, tokenTiles);
  for (int64_t ctaGroup = 0; ctaGroup <= ctaGroups; ++ctaGroup) {
    int64_t at =
        std::min(ctaGroup, assignedGroups) * sum / assignedGroups -
        std::max<int64_t>(0, ctaGroup - groupsWithoutExtra) * extraSteps;
    int64_t inTile = at % tiling.steps2;
    if (inTile < kLeastInterval)
      at -= inTile;
    else if (inTile > tiling.steps2 - kLeastInterval)
      at += tiling.steps2 - inTile;
    bounds.push_back(at);
  }
}

int64_t Intervals::getOthers(size_t ctaGroup) const {
  int64_t start = llvm::alignDown(bounds[ctaGroup], tiling.steps2);
  // A CTA group owns its first tile only if its interval reaches the tile's
  // end.
  if (bounds[ctaGroup] == start || bounds[ctaGroup + 1] < start + tiling.steps2)
    return 0;
  return llvm::count_if(ArrayRef(bounds).take_front(ctaGroup + 1),
                        [&](int64_t bound) { return bound > start; });
}

/// Cycles of a k-step of a tile.
static double getStepCycles(const PrefillProduct &product) {
  return std::max(product.rows * kRowCycles,
                  product.getStageBytes() / kBytesPerCycle);
}

static double getWeightBytes(const PrefillProduct &product) {
  return product.packedTiles * product.steps * 256.0 * 128;
}

/// Whether each block has at most one tile of GEMM2.
static bool hasFewTiles(const PrefillTiling &tiling, int64_t blocks,
                        int64_t tokens) {
  return tiling.gemm2.getUnits(tokens) <= blocks;
}

/// Cycles of the busiest block if both products share a launch.
static double estimateJoint(const PrefillTiling &tiling, int64_t blocks,
                            int64_t tokens, double addCycles) {
  double step = getStepCycles(tiling.gemm1), time = 0;
  int64_t rounds = llvm::divideCeil(tiling.gemm1.getUnits(tokens), blocks);
  if (tiling.gemm2.isStreamK) {
    Intervals intervals(tiling, blocks, tokens);
    for (size_t ctaGroup = 0; ctaGroup + 1 < intervals.bounds.size();
         ++ctaGroup)
      time = std::max(time, intervals.getSteps(ctaGroup) * step +
                                intervals.getOthers(ctaGroup) * addCycles);
    return time + (rounds + 1) * kEpilogueCycles;
  }
  // Waits matter if blocks have different numbers of GEMM1 tiles, or if no
  // block has more than one whole tile of GEMM2.
  bool waits = tiling.gemm2.slices > 1
                   ? rounds > 1 && tiling.gemm1.getUnits(tokens) % blocks != 0
                   : hasFewTiles(tiling, blocks, tokens);
  if (waits)
    return countSliceSteps(tiling, blocks, tokens) * step +
           (rounds + 1) * kEpilogueCycles;
  // Blocks with an extra GEMM1 tile have one unit of GEMM2 less, if the units
  // are not evenly distributed.
  int64_t over = tiling.gemm1.getUnits(tokens) % blocks;
  int64_t units = tiling.gemm2.getUnits(tokens);
  int64_t least = units / blocks, more = units % blocks;
  auto getSteps = [&](int64_t tiles, int64_t units) {
    return tiles * tiling.steps1 + units * tiling.gemm2.stepsPerSlice;
  };
  int64_t most = getSteps(rounds, more > blocks - over ? least + 1 : least);
  if (over == 0 || more > 0)
    most = std::max(
        most, getSteps(over ? rounds - 1 : rounds, more ? least + 1 : least));
  return most * step + (rounds + 1) * kEpilogueCycles;
}

double fuse::estimatePrefill(const MlpProblem &problem,
                             tile::PrefillScheduleAttr schedule, int64_t tokens,
                             const GpuModel &gpu) {
  PrefillTiling tiling(problem, schedule);
  const PrefillProduct &gemm2 = tiling.gemm2;
  int64_t blocks = schedule.getBlocks();
  // The time of a product is that of the busiest block or of the weights.
  auto getTime = [&](const PrefillProduct &product) {
    double unit =
        product.stepsPerSlice * getStepCycles(product) + kEpilogueCycles;
    int64_t rounds = llvm::divideCeil(product.getUnits(tokens), blocks);
    return std::max(rounds * unit / gpu.clock,
                    getWeightBytes(product) / gpu.memoryRate);
  };
  double time = 0;
  if (schedule.getLaunches() == 1) {
    double bytes = getWeightBytes(tiling.gemm1) + getWeightBytes(gemm2);
    time = std::max(
        estimateJoint(tiling, blocks, tokens, kAddSums * gpu.clock) / gpu.clock,
        bytes / gpu.memoryRate);
  } else {
    time = getTime(gemm2);
    if (problem.hasGemm1())
      time += getTime(tiling.gemm1) + kLaunchGap;
  }
  if (gemm2.isStreamK)
    time += 2 * gpu.barrierTime + kAwaitSums;
  if (gemm2.slices > 1) {
    double sums =
        2.0 * gemm2.getUnits(tokens) * kTokenTile * gemm2.rows * sizeof(float);
    time += 2 * gpu.barrierTime + sums / gpu.l2Rate;
  }
  return time;
}

/// Whether a kernel of both products has enough registers. The erf of an exact
/// GELU needs too many. So do the bounds of ragged tiles of a dense MLP, whose
/// threads store twice as many 8-bit hidden units as those of a gated one.
static bool canShare(const MlpProblem &problem) {
  bool hasRaggedHidden =
      problem.isF8() && !problem.isGated() && problem.hidden % 256 != 0;
  return problem.hasGemm1() && problem.activation != Activation::GELU &&
         !hasRaggedHidden;
}

/// Number of launches. Both products share one if GEMM2 uses split-K.
static int64_t getLaunches(const MlpProblem &problem, int64_t rows,
                           int64_t splitK) {
  return canShare(problem) && rows == 256 && splitK > 1 ? 1 : 2;
}

/// Whether stream-K fits into the registers. The partial sums of other CTAs are
/// added while all own sums are live. No registers remain for hidden units that
/// are not rounded to bf16 pairs, for divisions, or for bounds of ragged tiles.
static bool canUseStreamK(const MlpProblem &problem) {
  return canShare(problem) && problem.roundsAt(RoundingPoint::Up) &&
         (!problem.isGated() || problem.roundsAt(RoundingPoint::Gate)) &&
         !(problem.isF8() && problem.scales.getOrder() == QuantOrder::Divide) &&
         problem.hidden % 256 == 0 &&
         llvm::all_of(problem.outputs, [](const DecodeOutput &output) {
           return output.rows % 256 == 0;
         });
}

/// Whether uneven split-K fits into the registers. The position and length of a
/// K-slice need registers, which are scarce if the hidden units or outputs of a
/// dense MLP have bounds.
static bool canSplitUnevenly(const MlpProblem &problem) {
  return canShare(problem) &&
         (problem.isGated() ||
          (problem.hidden % 256 == 0 &&
           llvm::all_of(problem.outputs, [](const DecodeOutput &output) {
             return output.rows % 256 == 0;
           })));
}

/// Minimum fraction of the SMs that a schedule uses.
static constexpr double kLeastUsed = 0.95;

/// Number of blocks of a launch of both products. If slightly fewer blocks have
/// equal numbers of tiles, additional blocks would only use power and wait.
static int64_t selectBlocks(const PrefillTiling &tiling, int64_t tokens,
                            int64_t multiprocessors) {
  int64_t units = tiling.gemm1.getUnits(tokens);
  int64_t rounds = llvm::divideCeil(units, multiprocessors);
  int64_t blocks = llvm::divideCeil(units, rounds);
  bool isEqual = units % rounds == 0 && tiling.gemm2.getUnits(tokens) <= blocks;
  return isEqual && blocks >= kLeastUsed * multiprocessors ? blocks
                                                           : multiprocessors;
}

/// Bytes of tokens that stay in L2 while GEMM1 iterates over weight tiles. L2
/// has 60 MB, but stores data that both halves of the chip read twice.
static constexpr int64_t kKeptBytes = 20 << 20;

/// Number of token tiles that share a pass over the weights. The CTA groups of
/// stream-K have a block per token tile, so their number should be the maximum
/// for L2.
static int64_t selectGroup(const MlpProblem &problem, bool streamK) {
  int64_t bytes = kTokenTile * problem.width * problem.getElementBytes();
  return streamK && 32 * bytes <= kKeptBytes ? 32 : 16;
}

/// Minimum number of token tiles for clusters of two CTAs that share weights.
/// Clusters read a third less from L2, and the saved power raises the clock.
/// With fewer tokens, the wait of the CTAs for each other costs more.
static constexpr int64_t kLeastPaired = 16;

/// Uses clusters of two for a stream-K schedule, if no block of a pair would be
/// idle.
static tile::PrefillScheduleAttr
pairBlocks(const MlpProblem &problem, tile::PrefillScheduleAttr schedule) {
  int64_t tokenTiles = llvm::divideCeil(schedule.getTokens(), kTokenTile);
  if (!schedule.getStreamK() || !problem.tokens || tokenTiles < kLeastPaired ||
      tokenTiles % 2 != 0 || schedule.getBlocks() % 2 != 0)
    return schedule;
  return tile::PrefillScheduleAttr::get(
      schedule.getContext(), schedule.getTokens(), schedule.getBlocks(),
      schedule.getSplitK(), schedule.getGemm2TileM(), schedule.getStages(),
      schedule.getGroup() / 2, /*cluster=*/2, schedule.getLaunches(),
      schedule.getStreamK(), schedule.getUnevenSplitK(),
      schedule.getDependent());
}

/// Ratio of the estimates of stream-K and the best schedule so far, below which
/// stream-K is selected. The model does not include the waits of blocks for
/// each other. It also does not include the lower L2 hit rate with few token
/// tiles and separate k-intervals per block. With one or two tiles per block,
/// stream-K took 4 to 24 % longer than even split-K. The model does include the
/// waits of uneven split-K, but underestimates its time if the waits are short.
/// Blocks with whole tiles of GEMM2 wait as long as those with stream-K.
static double getStreamKMargin(const PrefillTiling &tiling,
                               tile::PrefillScheduleAttr best, int64_t tokens,
                               int64_t multiprocessors) {
  if (tiling.gemm1.getUnits(tokens) < 2 * multiprocessors)
    return 0.87;
  if (best && best.getUnevenSplitK())
    return 1.015;
  if (tokens >= kLeastPaired * kTokenTile)
    return 0.987;
  bool isWhole = best && best.getSplitK() == 1;
  return isWhole ? 0.99 : 0.98;
}

/// Predicted time, relative to the best schedule so far, below which uneven
/// split-K is chosen.
static constexpr double kUnevenMargin = 0.99;
/// Predicted time, relative to the best schedule so far, below which a larger
/// uneven split is chosen. More K-slices leave fewer blocks without one, and
/// were faster even if the model predicted slightly more time.
static constexpr double kMoreSlices = 1.01;

tile::PrefillScheduleAttr fuse::selectPrefill(const MlpProblem &problem,
                                              int64_t tokens,
                                              const GpuModel &gpu) {
  tile::PrefillScheduleAttr best;
  double bestTime = 0;
  auto consider = [&](int64_t rows, int64_t splitK, int64_t launches,
                      bool streamK, bool unevenSplitK = false) {
    auto get = [&](int64_t blocks) {
      return tile::PrefillScheduleAttr::get(
          problem.op->getContext(), tokens, blocks, splitK, rows,
          /*stages=*/4, selectGroup(problem, streamK), /*cluster=*/1, launches,
          streamK, unevenSplitK, /*dependent=*/true);
    };
    tile::PrefillScheduleAttr schedule = get(gpu.multiprocessors);
    if (launches == 1 && !streamK && !unevenSplitK)
      schedule = get(selectBlocks(PrefillTiling(problem, schedule), tokens,
                                  gpu.multiprocessors));
    // A split with empty K-slices is a duplicate of a smaller split. Uneven
    // split-K with equal numbers of tiles is a duplicate of even split-K.
    PrefillTiling tiling(problem, schedule);
    if (tiling.getSplitK() != splitK ||
        tiling.gemm2.isUnevenSplitK != unevenSplitK ||
        !getScheduleProblem(problem, schedule).empty())
      return;
    // With more whole tiles, the gap between two launches is insignificant, and
    // blocks that start GEMM2 at different times have a lower L2 hit rate.
    if (launches == 1 && splitK == 1 && !streamK &&
        !hasFewTiles(tiling, schedule.getBlocks(), tokens))
      return;
    double time = estimatePrefill(problem, schedule, tokens, gpu);
    double margin = 1;
    if (streamK)
      margin = getStreamKMargin(tiling, best, tokens, gpu.multiprocessors);
    else if (unevenSplitK && best)
      margin = best.getUnevenSplitK() ? kMoreSlices : kUnevenMargin;
    if (!best || time < margin * bestTime) {
      best = schedule;
      bestTime = time;
    }
  };
  for (int64_t rows : {256, 128})
    for (int64_t splitK = 1; splitK <= 16; ++splitK)
      consider(rows, splitK, getLaunches(problem, rows, splitK),
               /*streamK=*/false);
  if (canShare(problem))
    consider(/*rows=*/256, /*splitK=*/1, /*launches=*/1, /*streamK=*/false);
  if (canSplitUnevenly(problem))
    for (int64_t splitK = 2; splitK <= 16; ++splitK)
      consider(/*rows=*/256, splitK, /*launches=*/1, /*streamK=*/false,
               /*unevenSplitK=*/true);
  if (canUseStreamK(problem))
    consider(/*rows=*/256, /*splitK=*/1, /*launches=*/1, /*streamK=*/true);
  return best ? pairBlocks(problem, best) : best;
}

double fuse::comparePrefill(const MlpProblem &problem,
                            tile::PrefillScheduleAttr schedule,
                            tile::PrefillScheduleAttr best, int64_t tokens,
                            const GpuModel &gpu) {
  double ratio = estimatePrefill(problem, schedule, tokens, gpu) /
                 estimatePrefill(problem, best, tokens, gpu);
  auto getMargin = [&](tile::PrefillScheduleAttr streamK,
                       tile::PrefillScheduleAttr other) {
    return getStreamKMargin(PrefillTiling(problem, streamK), other, tokens,
                            gpu.multiprocessors);
  };
  if (schedule.getStreamK() && !best.getStreamK())
    ratio /= getMargin(schedule, best);
  if (best.getStreamK() && !schedule.getStreamK())
    ratio *= getMargin(best, schedule);
  return ratio;
}

tile::PrefillScheduleAttr fuse::withTokens(tile::PrefillScheduleAttr schedule,
                                           int64_t tokens) {
  return tile::PrefillScheduleAttr::get(
      schedule.getContext(), tokens, schedule.getBlocks(), schedule.getSplitK(),
      schedule.getGemm2TileM(), schedule.getStages(), schedule.getGroup(),
      schedule.getCluster(), schedule.getLaunches(), schedule.getStreamK(),
      schedule.getUnevenSplitK(), schedule.getDependent());
}

double fuse::estimateProducts(const MlpProblem &problem, Attribute schedule,
                              int64_t tokens, const GpuModel &gpu) {
  if (auto prefill = dyn_cast<tile::PrefillScheduleAttr>(schedule))
    return estimatePrefill(problem, prefill, tokens, gpu);
  return estimateDecode(problem, cast<tile::ScheduleAttr>(schedule), gpu);
}

Attribute fuse::selectProducts(const MlpProblem &problem, int64_t tokens,
                               const GpuModel &gpu) {
  Attribute decode = selectDecode(problem, tokens, gpu);
  if (tokens <= kMaxWholeTokens || problem.quant)
    return decode;
  Attribute prefill = selectPrefill(problem, tokens, gpu);
  if (!decode || !prefill)
    return decode ? decode : prefill;
  return estimateProducts(problem, decode, tokens, gpu) <
                 estimateProducts(problem, prefill, tokens, gpu)
             ? decode
             : prefill;
}
