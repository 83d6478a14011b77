//===- CostModel.cpp - Time of a schedule by roofline ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/CostModel.h"

using namespace mlir;
using namespace fuse;

static constexpr int64_t kWeightStage = 256 * 128;

double fuse::estimateDecode(const DecodeProblem &problem,
                            tile::ScheduleAttr schedule, const GpuModel &gpu) {
  DecodeTiling tiling(problem, schedule);
  int64_t blocks = schedule.getBlocks();
  double tokenStage = schedule.getTokens() * 128.0;
  // The tensor cores of a multiprocessor take tokens / 2 cycles for 2 KB of
  // weights, bf16 and f8 alike.
  double cycles = kWeightStage / 2048.0 * schedule.getTokens() / 2;
  double stage = std::max(kWeightStage / gpu.shareRate, cycles / gpu.clock);
  // The weight stream does not stop between the products, so the kernel lasts
  // as long as device memory needs for all weights, the busiest block for its
  // stages of both products, or L2 for weights and activations.
  int64_t stages =
      tiling.tiles1 * tiling.steps1 + tiling.tiles2 * tiling.steps2;
  int64_t busiest = llvm::divideCeil(tiling.tiles1, blocks) * tiling.steps1 +
                    tiling.stepsPerRange;
  double time =
      std::max({stages * kWeightStage / gpu.memoryRate, busiest * stage,
                stages * (kWeightStage + tokenStage) / gpu.l2Rate});
  // Partial sums are written and read once, and blocks meet twice. A round of
  // sums that not all ranges take part in waits for L2 once more.
  double partial = schedule.getPartials().getIntOrFloatBitWidth() / 8.0;
  double sums = 2.0 * tiling.ranges * tiling.tiles2 * 256 *
                schedule.getTokens() * partial;
  int64_t columns = schedule.getTokens() / 4;
  if (columns > tiling.ranges && columns % tiling.ranges != 0)
    time += gpu.meeting / 2;
  return time + sums / gpu.l2Rate + 2 * gpu.meeting;
}

tile::ScheduleAttr fuse::selectDecode(const DecodeProblem &problem,
                                      int64_t tokens, const GpuModel &gpu) {
  MLIRContext *context = problem.op->getContext();
  int64_t width = llvm::alignTo(tokens, 8);
  // Few tokens leave room for a deeper ring of them, which hides more of the
  // latency of L2; more than four do not help wide ones.
  int64_t tokenStages = width <= 16 ? 8 : width <= 32 ? 6 : 4;
  int64_t room = tile::kMaxSharedBytes - 2048 - tokenStages * width * 128;
  int64_t weightStages = std::min<int64_t>(6, room / kWeightStage);
  // Rounding partial sums is not in the exact contract.
  bool relaxed = problem.rounding.getMode() == RoundingMode::Relaxed;
  Type partials = relaxed ? Type(BFloat16Type::get(context))
                          : Type(Float32Type::get(context));
  tile::ScheduleAttr best;
  double bestTime = 0;
  for (int64_t split = 1; split <= gpu.multiprocessors; ++split) {
    auto make = [&](int64_t blocks) {
      return tile::ScheduleAttr::get(context, width, blocks, split,
                                     weightStages, tokenStages, /*inFlight=*/2,
                                     partials, tile::CachePolicy::EvictFirst,
                                     /*dependent=*/true);
    };
    DecodeTiling tiling(problem, make(gpu.multiprocessors));
    // Splits that leave ranges empty are the same as a smaller one.
    int64_t units = tiling.tiles2 * tiling.ranges;
    if (tiling.ranges != split || units > gpu.multiprocessors)
      continue;
    // As few blocks as finish the first product in the same number of rounds:
    // equal shares, and fewer to meet.
    int64_t rounds = llvm::divideCeil(tiling.tiles1, gpu.multiprocessors);
    int64_t blocks = std::max(
        units, static_cast<int64_t>(llvm::divideCeil(tiling.tiles1, rounds)));
    tile::ScheduleAttr schedule = make(blocks);
    double time = estimateDecode(problem, schedule, gpu);
    if (!best || time < bestTime) {
      best = schedule;
      bestTime = time;
    }
  }
  return best;
}
