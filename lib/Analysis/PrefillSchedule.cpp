//===- PrefillSchedule.cpp - Schedules for many tokens --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/PrefillSchedule.h"

using namespace mlir;
using namespace fuse;

/// Words for each token tile: few, because the warp that copies looks at one
/// after the other.
static constexpr int64_t kReadyWords = 8;

PrefillTiling::PrefillTiling(const DecodeProblem &problem,
                             tile::PrefillScheduleAttr schedule)
    : ProductTiling(problem, /*firstRows=*/256, schedule.getRows()) {
  int64_t cluster = schedule.getCluster();
  first.rows = 256;
  first.tiles = first.packedTiles = tiles1;
  first.steps = first.stepsPerRange = steps1;
  first.ranges = 1;
  first.cluster = cluster;
  last.rows = rows;
  last.tiles = tiles2;
  last.packedTiles = packedTiles2;
  last.steps = steps2;
  last.ranges = std::min(schedule.getSplit(), steps2);
  last.stepsPerRange = llvm::divideCeil(steps2, last.ranges);
  last.cluster = cluster;
  if (problem.hasFirst()) {
    tilesPerWord = llvm::divideCeil(tiles1, kReadyWords);
    wordsPerTile = llvm::divideCeil(tiles1, tilesPerWord);
    int64_t columns = 128 / problem.getElementBytes();
    stepsPerWord = tilesPerWord * hiddenPerTile / columns;
  } else {
    tilesPerWord = wordsPerTile = stepsPerWord = 0;
  }
  // Two vectors of a row for each thread, so that one is on its way while the
  // other is worked on.
  normThreads =
      std::clamp<int64_t>(llvm::alignTo(problem.width / 16, 32), 64, 512);
  normBlocks = std::min(schedule.getTokens(),
                        schedule.getBlocks() * (2048 / normThreads));
}

std::string fuse::getScheduleProblem(const DecodeProblem &problem,
                                     tile::PrefillScheduleAttr schedule) {
  int64_t tokens = schedule.getTokens(), blocks = schedule.getBlocks();
  if (problem.tokens && *problem.tokens > tokens)
    return ("the schedule is for " + Twine(tokens) + " tokens, the op has " +
            Twine(*problem.tokens))
        .str();
  int64_t widest = std::max(problem.width, problem.hidden);
  for (const DecodeOutput &output : problem.outputs)
    widest = std::max(widest, output.rows);
  if (tokens * widest > std::numeric_limits<int32_t>::max())
    return (Twine(tokens) + " tokens of " + Twine(widest) +
            " elements are more than 32 bits count")
        .str();
  if (schedule.getLaunches() == 1 && !problem.hasFirst())
    return "launches = 1 is for two products, the op has one";
  PrefillProduct last = PrefillTiling(problem, schedule).last;
  if (last.ranges > 1 && last.getUnits(tokens) > blocks)
    return ("ranges of the last product meet, but there are " +
            Twine(last.getUnits(tokens)) + " units for " + Twine(blocks) +
            " blocks")
        .str();
  return "";
}

std::string fuse::getScheduleProblem(const DecodeProblem &problem,
                                     tile::PrefillScheduleAttr schedule,
                                     int64_t multiprocessors) {
  bool meet = schedule.getLaunches() == 1 ||
              PrefillTiling(problem, schedule).last.ranges > 1;
  if (meet && schedule.getBlocks() > multiprocessors)
    return ("it has " + Twine(schedule.getBlocks()) + " blocks that meet for " +
            Twine(multiprocessors) + " multiprocessors")
        .str();
  return getScheduleProblem(problem, schedule);
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// Bytes of a stage that a multiprocessor gets from L2 in a cycle, all of them
/// at work.
static constexpr double kBytesPerCycle = 44;
/// Cycles of a k-step for each packed row. The tensor cores need 4; shared
/// memory, which they read while it is filled, delivers less.
static constexpr double kRowCycles = 4.8;
/// Cycles of an epilogue that nothing hides.
static constexpr double kEpilogueCycles = 1500;
/// Microseconds between the products when each has a launch: the end of one
/// grid, the first stages of the next.
static constexpr double kLaunchGap = 3;

double fuse::estimatePrefill(const DecodeProblem &problem,
                             tile::PrefillScheduleAttr schedule, int64_t tokens,
                             const GpuModel &gpu) {
  PrefillTiling tiling(problem, schedule);
  // A product lasts as long as the busiest block, or as the weights take.
  auto getTime = [&](const PrefillProduct &product) {
    double step = std::max(product.rows * kRowCycles,
                           product.getStageBytes() / kBytesPerCycle);
    double unit = product.stepsPerRange * step + kEpilogueCycles;
    int64_t rounds =
        llvm::divideCeil(product.getUnits(tokens), schedule.getBlocks());
    double bytes = product.packedTiles * product.steps * 256.0 * 128;
    return std::max(rounds * unit / gpu.clock, bytes / gpu.memoryRate);
  };
  double time = getTime(tiling.last);
  if (problem.hasFirst())
    time +=
        getTime(tiling.first) + (schedule.getLaunches() == 1 ? 0 : kLaunchGap);
  if (tiling.last.ranges > 1) {
    double sums = 2.0 * tiling.last.getUnits(tokens) * kTokenTile *
                  tiling.last.rows * sizeof(float);
    time += 2 * gpu.meeting + sums / gpu.l2Rate;
  }
  return time;
}

/// Both products share a launch where the last one has ranges. With so many
/// tokens that it has none, the gap between the launches is little, and blocks
/// that come to the last product at different times find less in L2. The erf of
/// an exact GELU takes more registers than a kernel of both has to spare.
static int64_t getLaunches(const DecodeProblem &problem, int64_t rows,
                           int64_t split) {
  bool joint = problem.hasFirst() && rows == 256 && split > 1 &&
               problem.activation != Activation::GELU;
  return joint ? 1 : 2;
}

tile::PrefillScheduleAttr fuse::selectPrefill(const DecodeProblem &problem,
                                              int64_t tokens,
                                              const GpuModel &gpu) {
  tile::PrefillScheduleAttr best;
  double bestTime = 0;
  for (int64_t rows : {256, 128})
    for (int64_t split = 1; split <= 16; ++split) {
      auto schedule = tile::PrefillScheduleAttr::get(
          problem.op->getContext(), tokens, gpu.multiprocessors, split, rows,
          /*stages=*/4, /*group=*/16, /*cluster=*/1,
          getLaunches(problem, rows, split),
          /*dependent=*/true);
      // Splits that leave ranges empty are the same as a smaller one.
      if (PrefillTiling(problem, schedule).last.ranges != split ||
          !getScheduleProblem(problem, schedule).empty())
        continue;
      double time = estimatePrefill(problem, schedule, tokens, gpu);
      if (!best || time < bestTime) {
        best = schedule;
        bestTime = time;
      }
    }
  return best;
}

tile::PrefillScheduleAttr fuse::withTokens(tile::PrefillScheduleAttr schedule,
                                           int64_t tokens) {
  return tile::PrefillScheduleAttr::get(
      schedule.getContext(), tokens, schedule.getBlocks(), schedule.getSplit(),
      schedule.getRows(), schedule.getStages(), schedule.getGroup(),
      schedule.getCluster(), schedule.getLaunches(), schedule.getDependent());
}

double fuse::estimateProducts(const DecodeProblem &problem, Attribute schedule,
                              int64_t tokens, const GpuModel &gpu) {
  if (auto prefill = dyn_cast<tile::PrefillScheduleAttr>(schedule))
    return estimatePrefill(problem, prefill, tokens, gpu);
  return estimateDecode(problem, cast<tile::ScheduleAttr>(schedule), gpu);
}

Attribute fuse::selectProducts(const DecodeProblem &problem, int64_t tokens,
                               const GpuModel &gpu) {
  Attribute decode = selectDecode(problem, tokens, gpu);
  if (tokens <= kMaxWholeTokens)
    return decode;
  Attribute prefill = selectPrefill(problem, tokens, gpu);
  if (!decode || !prefill)
    return decode ? decode : prefill;
  return estimateProducts(problem, decode, tokens, gpu) <
                 estimateProducts(problem, prefill, tokens, gpu)
             ? decode
             : prefill;
}
