//===- CostModel.cpp - Roofline model of decode kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/CostModel.h"

using namespace mlir;
using namespace fuse;

bool fuse::leavesIdle(const MlpProblem &problem, const DecodeTiling &tiling,
                      const GpuModel &gpu) {
  int64_t whole = llvm::divideCeil(tiling.tiles1 * tiling.gemm1TileM, 256);
  return problem.hasGemm1() && 2 * whole > gpu.multiprocessors &&
         whole * 2 * 256 * 128 < kSaturatingBytes;
}

namespace {

/// The terms of the predicted time of a kernel.
class DecodeEstimate {
public:
  DecodeEstimate(const MlpProblem &problem, tile::ScheduleAttr schedule,
                 const GpuModel &gpu);

  double getTime() const;

private:
  double getLoadTime(double bytes, double share) const;
  bool getsMoreBandwidth() const;
  double getFirstShare() const;
  double getBusiest() const;
  double getTransferRate() const;
  double getLongWait() const;
  double getExposed() const;
  double getActivation() const;
  double getSums() const;

  const MlpProblem &problem;
  tile::ScheduleAttr schedule;
  const GpuModel &gpu;
  DecodeTiling tiling;
  int64_t tokens, blocks;
  /// Bytes of a weight stage of GEMM2, and of a k-step of a GEMM1 tile.
  double weightStage, firstStep;
  /// Tensor core cycles per weight stage of GEMM2.
  double cycles;
  /// Stages of a GEMM2 unit, and GEMM1 tiles of the block with most tiles.
  int64_t stages2, rounds;
  /// True above kMaxWholeTokens, where a block has no accumulators for 256
  /// rows.
  bool many;
  /// True for 256-row tiles with three stages in flight above kManyTokens.
  bool hasThird;
  /// `hasLong`: some blocks have an extra tile and two stages in flight, above
  /// kWholeTokens. `hasLongAndMany` also requires more than kManyTokens.
  bool hasLong, hasLongAndMany;
};

} // namespace

DecodeEstimate::DecodeEstimate(const MlpProblem &problem,
                               tile::ScheduleAttr schedule, const GpuModel &gpu)
    : problem(problem), schedule(schedule), gpu(gpu), tiling(problem, schedule),
      tokens(schedule.getTokens()), blocks(schedule.getBlocks()),
      weightStage(tiling.getStepsPerStage() * tiling.rows * 128.0),
      firstStep(schedule.getGemm1TileM() * 128.0) {
  // The tensor cores of a multiprocessor need tokens / 2 cycles for 2 KB of
  // weights, both in bf16 and in f8.
  cycles = weightStage / 2048.0 * tokens / 2;
  stages2 = tiling.stepsPerSlice / tiling.getStepsPerStage();
  // With a deferred epilogue, a block has two tiles, even if the grid is
  // larger.
  rounds = schedule.getDeferredEpilogue()
               ? tiling.parts
               : llvm::divideCeil(tiling.tiles1, blocks);
  many = tokens > kMaxWholeTokens;
  hasThird = schedule.getGemm1TileM() == 256 && !tiling.swapAB &&
             schedule.getMaxInFlight() == 3 && tokens > kManyTokens;
  hasLong = tiling.longBlocks > 0 && schedule.getMaxInFlight() == 2 &&
            tokens > kWholeTokens;
  hasLongAndMany = hasLong && tokens > kManyTokens;
}

/// Time in microseconds of a block for `bytes` of weights, if it loads `share`
/// bytes per microsecond.
double DecodeEstimate::getLoadTime(double bytes, double share) const {
  return std::max(bytes / share, bytes / weightStage * cycles / gpu.clock);
}

/// Whether CTAs with 256-row tiles, which leave other CTAs without a tile, get
/// more than their share of the bandwidth. With many tokens this requires three
/// stages in flight, as with 192-row tiles.
bool DecodeEstimate::getsMoreBandwidth() const {
  if (tiling.hasSingle())
    return true;
  return problem.hasGemm1() && schedule.getGemm1TileM() == 256 &&
         !tiling.swapAB && 2 * tiling.tiles1 > gpu.multiprocessors &&
         leavesIdle(problem, tiling, gpu) == (tokens > kWholeTokens);
}

/// Bandwidth of a block in GEMM1. It grows with the bytes in flight until HBM
/// is saturated.
double DecodeEstimate::getFirstShare() const {
  if (!getsMoreBandwidth())
    return gpu.shareRate;
  double saturation =
      double(schedule.getMaxInFlight() * schedule.getGemm1Bytes()) /
      kSaturatingBytes;
  return std::max(gpu.shareRate, std::min(gpu.memoryRate / tiling.gemm1Blocks,
                                          gpu.memoryRate * saturation));
}

/// Time of the busiest block for its stages of both products.
double DecodeEstimate::getBusiest() const {
  double stage = getLoadTime(weightStage, gpu.shareRate);
  // With a third stage in flight, products and copies compete for shared
  // memory, which takes an eighth longer than the tensor cores.
  double firstTime = getLoadTime(firstStep, getFirstShare());
  if (hasThird)
    firstTime = std::max(firstTime, 9.0 / 8 * cycles / gpu.clock);
  // Shared memory transfers one row of a k-step per cycle. Both operands are
  // written, and each warpgroup reads 64 tokens and all rows.
  if (tiling.swapAB)
    firstTime =
        std::max(firstTime, (tokens + 128 + 3 * tiling.gemm1TileM) / gpu.clock);
  if (tiling.longBlocks == 0)
    return rounds * tiling.steps1 * firstTime + stages2 * stage;
  // Blocks with an extra tile get up to twice the bandwidth of other blocks.
  // The other blocks process the units if there are enough of them.
  double fast = getLoadTime(
      weightStage, std::clamp(2 * gpu.memoryRate / (blocks + tiling.longBlocks),
                              gpu.shareRate, 2 * gpu.shareRate));
  int64_t more = tiling.longBlocks > tiling.firstUnit ? stages2 : 0;
  return std::max(rounds * tiling.steps1 * fast + more * stage,
                  ((rounds - 1) * tiling.steps1 + stages2) * stage);
}

/// Whole tiles stop loading during the activation. With a deferred epilogue,
/// with many tokens, or if some blocks have an extra tile, loading continues.
double DecodeEstimate::getTransferRate() const {
  return schedule.getDeferredEpilogue() || many || hasLong ? gpu.copyRate
                                                           : gpu.l2Rate;
}

/// Time that other blocks wait for blocks with an extra tile.
double DecodeEstimate::getLongWait() const {
  if (!hasLong)
    return 0;
  return (hasLongAndMany ? gpu.longWait : gpu.longWait / 2) * tiling.longBlocks;
}

/// The weights of GEMM2 arrive before its tokens. They therefore hide only a
/// part of its time on the tensor cores.
double DecodeEstimate::getExposed() const {
  if (!problem.hasGemm1())
    return 0;
  double part = tiling.swapAB    ? gpu.swapABExposed
                : hasLongAndMany ? gpu.longExposed
                                 : gpu.exposed;
  return part * tiling.stepsPerSlice / tiling.parts /
         tiling.getStepsPerStage() * cycles / gpu.clock;
}

double DecodeEstimate::getActivation() const {
  return (hasLongAndMany ? 1 : rounds) * tiling.hiddenPerTile * tokens *
         gpu.activation / gpu.clock;
}

/// Partial sums are written once and read once.
double DecodeEstimate::getSums() const {
  double partial = schedule.getPartials().getIntOrFloatBitWidth() / 8.0;
  double bytes =
      2.0 * tiling.slices * tiling.tiles2 * tiling.rows * tokens * partial;
  if (!hasLongAndMany)
    return bytes / gpu.l2Rate;
  // The loads in flight of blocks with an extra tile leave bandwidth for
  // partial sums. The block that adds the most columns finishes last.
  int64_t columns = tokens / 4;
  int64_t most = llvm::divideCeil(columns, tiling.slices) * tiling.slices;
  return bytes * (columns + most) / (2 * columns) / gpu.copyRate;
}

double DecodeEstimate::getTime() const {
  // The weight stream continues between the products. The kernel is therefore
  // bounded by HBM for all weights, by the busiest CTA for its stages of both
  // products, or by L2 for weights and activations.
  int64_t stages1 = tiling.tiles1 * tiling.steps1;
  int64_t steps2 = tiling.tiles2 * tiling.steps2;
  double bytes =
      stages1 * firstStep + steps2 / tiling.getStepsPerStage() * weightStage;
  double tokenBytes = (stages1 + steps2) * (tokens * 128.0);
  double time = std::max({bytes / gpu.memoryRate, getBusiest(),
                          (bytes + tokenBytes) / getTransferRate()});
  // A K-slice waits for the slowest of its tiles, and a sum for the slowest of
  // its K-slices.
  time += gpu.tileWait * tiling.tilesPerSlice + gpu.sliceWait * tiling.slices;
  time += getLongWait();
  time += getExposed();
  // There are two grid barriers. They take longer if a third stage is in
  // flight.
  double barrierTime = gpu.barrierTime * (hasThird ? 1.5 : 1);
  // Without a deferred epilogue, the activation waits for the last stage of a
  // tile, and GEMM2 waits for the activation. Weights keep HBM busy during all
  // tiles but the last. With many tokens the tensor cores are idle instead.
  if (!schedule.getDeferredEpilogue()) {
    time += (many ? rounds : 1) * barrierTime;
    time += getActivation();
  }
  if (many)
    time += gpu.row * (llvm::divideCeil(tokens, blocks) - 1);
  return time + getSums() + barrierTime;
}

double fuse::estimateDecode(const MlpProblem &problem,
                            tile::ScheduleAttr schedule, const GpuModel &gpu) {
  return DecodeEstimate(problem, schedule, gpu).getTime();
}
