//===- PrefillSchedule.cpp - Schedules for many tokens --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/PrefillSchedule.h"

using namespace mlir;
using namespace fuse;

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
  last.stepsPerRange = llvm::divideCeil(steps2, schedule.getSplit());
  last.ranges = llvm::divideCeil(steps2, last.stepsPerRange);
  last.cluster = cluster;
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
  if (PrefillTiling(problem, schedule).last.ranges > 1 &&
      schedule.getBlocks() > multiprocessors)
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
    time += getTime(tiling.first);
  if (tiling.last.ranges > 1) {
    double sums = 2.0 * tiling.last.getUnits(tokens) * kTokenTile *
                  tiling.last.rows * sizeof(float);
    time += 2 * gpu.meeting + sums / gpu.l2Rate;
  }
  return time;
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
          /*stages=*/4, /*group=*/16, /*cluster=*/1, /*dependent=*/true);
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
      schedule.getCluster(), schedule.getDependent());
}
