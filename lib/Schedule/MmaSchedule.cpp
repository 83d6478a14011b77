//===- MmaSchedule.cpp - Kernels with warp-level products -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/MmaSchedule.h"

using namespace mlir;
using namespace fuse;
using tile::MmaScheduleAttr;

/// Quarters of a packed tile of 256 rows.
static constexpr int64_t kPackedQuarters = 4;

/// Bounds of ranges of tokens: the token tiles of one launch, then numbers from
/// which on another split of GEMM2 occupies the blocks better.
static constexpr int64_t kBounds[] = {8,   16,  32,   64,   128,  256,  384,
                                      512, 768, 1024, 2048, 4096, 16384};

/// Most tokens of a token tile.
static constexpr int64_t kMaxTokenTile = 128;
/// Token tiles that share a weight tile. Their rows and one wave of weights fit
/// into the L2 of an H200 or an A100.
static constexpr int64_t kGroup = 16;

//===----------------------------------------------------------------------===//
// Tiling
//===----------------------------------------------------------------------===//

MmaTiling::MmaTiling(const MlpProblem &problem, MmaScheduleAttr schedule) {
  int64_t bytes = problem.getElementBytes();
  auto countSteps = [&](int64_t width) -> int64_t {
    return llvm::divideCeil(width * bytes, kRowBytes);
  };
  tokenTiles = llvm::divideCeil(schedule.getTokens(), schedule.getTokenTile());
  gemm2.steps = countSteps(problem.getReduction());
  for (const DecodeOutput &output : problem.outputs)
    gemm2.packedTiles +=
        llvm::divideCeil(output.rows, kPackedQuarters * kQuarterRows);
  gemm2.quarters = gemm2.packedTiles * kPackedQuarters;
  gemm2.perTile = schedule.getGemm2TileM() / kQuarterRows;
  gemm2.tiles = llvm::divideCeil(gemm2.quarters, gemm2.perTile);

  // K-slices consist of whole runs of hidden units, of which a k-step may have
  // several.
  int64_t run = 2 * kQuarterRows / (problem.isGated() ? 2 : 1), runSteps = 1;
  auto countQuarters = [&](int64_t steps) -> int64_t {
    return 2 * llvm::divideCeil(steps * kRowBytes, run * bytes);
  };
  if (problem.hasGemm1()) {
    runSteps = countSteps(run);
    gemm1.steps = countSteps(problem.width);
    gemm1.packedTiles = llvm::divideCeil(problem.hidden, 2 * run);
    gemm1.quarters = countQuarters(gemm2.steps);
    gemm1.perTile = schedule.getGemm1TileM() / kQuarterRows;
    gemm1.tiles = llvm::divideCeil(gemm1.quarters, gemm1.perTile);
  }
  stepsPerSlice = llvm::alignTo(
      llvm::divideCeil(gemm2.steps, schedule.getSplitK()), runSteps);
  slices = llvm::divideCeil(gemm2.steps, stepsPerSlice);
  quartersPerSlice = countQuarters(stepsPerSlice);
}

/// Maximum number of tokens at which 32 bits count the elements of any matrix.
static int64_t getMostTokens(const MlpProblem &problem) {
  int64_t widest = std::max(problem.width, problem.hidden);
  for (const DecodeOutput &output : problem.outputs)
    widest = std::max(widest, output.rows);
  return std::numeric_limits<int32_t>::max() / widest;
}

std::string fuse::getScheduleProblem(const MlpProblem &problem,
                                     MmaScheduleAttr schedule) {
  MmaTiling tiling(problem, schedule);
  if (problem.tokens && schedule.getTokens() < *problem.tokens)
    return ("it is for " + Twine(schedule.getTokens()) + " tokens, not " +
            Twine(*problem.tokens))
        .str();
  if (schedule.getTokens() > getMostTokens(problem))
    return (Twine(schedule.getTokens()) +
            " tokens make more elements than 32 bits count")
        .str();
  int64_t sums =
      tiling.getUnits() * schedule.getGemm2TileM() * schedule.getTokenTile();
  if (tiling.slices > 1 && sums > std::numeric_limits<int32_t>::max() / 2)
    return (Twine(tiling.getUnits()) +
            " units make more partial sums than 32 bits count")
        .str();
  bool waits = tiling.slices > 1 || schedule.getLaunches() == 1;
  if (waits && tiling.getUnits() > schedule.getBlocks())
    return ("blocks wait for each other, but " + Twine(schedule.getBlocks()) +
            " blocks are less than the " + Twine(tiling.getUnits()) +
            " units of GEMM2")
        .str();
  return "";
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

namespace {

/// The best tile of a product and its split.
struct Choice {
  int64_t quarters = 0, split = 1;
  double cost = 0;
};

/// Selects the fields of a schedule one after the other.
class Selection {
public:
  Selection(const MlpProblem &problem, int64_t tokens, const GpuModel &gpu,
            int64_t sharedBytes)
      : problem(problem), tokens(tokens), gpu(gpu), sharedBytes(sharedBytes) {
    int64_t multiple = tokens < 64 ? 8 : 16;
    tokenTile =
        std::min<int64_t>(llvm::alignTo(tokens, multiple), kMaxTokenTile);
    isWhole = tokens <= tokenTile;
  }

  MmaScheduleAttr select() {
    int64_t quarters1 = 1;
    if (problem.hasGemm1())
      quarters1 = choose(/*isGemm2=*/false, /*other=*/0).quarters;
    Choice gemm2 = choose(/*isGemm2=*/true, problem.hasGemm1() ? quarters1 : 0);
    // GEMM2 of a single launch has all of its units at the same time.
    bool oneLaunch = isWhole;
    auto schedule = make(quarters1, gemm2.quarters, gemm2.split, oneLaunch);
    if (schedule && !getScheduleProblem(problem, schedule).empty())
      schedule = make(quarters1, gemm2.quarters, gemm2.split,
                      /*oneLaunch=*/false);
    return schedule;
  }

private:
  int64_t countStages(int64_t quarters) const {
    // Sums over rows use static shared memory.
    constexpr int64_t reserved = 2048, most = 6;
    int64_t stage = (quarters * kQuarterRows + tokenTile) * kRowBytes;
    return std::min((sharedBytes - reserved) / stage, most);
  }

  MmaScheduleAttr make(int64_t quarters1, int64_t quarters2, int64_t split,
                       bool oneLaunch) const {
    return MmaScheduleAttr::get(
        problem.op->getContext(), tokens, tokenTile, gpu.multiprocessors, split,
        quarters1 * kQuarterRows, quarters2 * kQuarterRows,
        countStages(std::max(quarters1, quarters2)), kGroup, oneLaunch ? 1 : 3);
  }

  /// The tile and the split with the smallest cost for the busiest block, in
  /// k-steps of a quarter. `other` are the quarters of a tile of GEMM1 in the
  /// same pipeline.
  Choice choose(bool isGemm2, int64_t other) const {
    Choice best;
    for (int64_t quarters = kPackedQuarters; quarters >= 1; --quarters) {
      auto base = MmaScheduleAttr::get(
          problem.op->getContext(), tokens, tokenTile, gpu.multiprocessors,
          /*splitK=*/1, quarters * kQuarterRows, quarters * kQuarterRows,
          /*stages=*/2, kGroup, /*launches=*/3);
      MmaTiling tiling(problem, base);
      const MmaProduct &product = isGemm2 ? tiling.gemm2 : tiling.gemm1;
      int64_t units = product.tiles * tiling.tokenTiles;
      int64_t most =
          isGemm2 ? std::clamp<int64_t>(gpu.multiprocessors / units, 1,
                                        std::min<int64_t>(64, product.steps))
                  : 1;
      int64_t stages = countStages(std::max(quarters, other));
      if (stages < 2)
        continue;
      for (int64_t split = 1; split <= most; ++split) {
        int64_t rounds =
            split > 1 ? 1 : llvm::divideCeil(units, gpu.multiprocessors);
        int64_t steps = llvm::divideCeil(product.steps, split);
        double cost = rounds * steps * estimateStep(quarters, stages) +
                      estimateSplit(quarters, split);
        if (best.quarters == 0 || cost < best.cost)
          best = {quarters, split, cost};
      }
    }
    return best;
  }

  /// The cost of a k-step of a tile: weights, a barrier of the block, and
  /// tokens, which come from L2. Too few bytes in flight do not saturate
  /// memory. The numbers are estimates that no GPU has confirmed yet.
  double estimateStep(int64_t quarters, int64_t stages) const {
    constexpr double barrier = 0.15, tokensPerQuarter = 128;
    double saturating = double(kSaturatingBytes) / gpu.multiprocessors;
    double cost =
        quarters *
        std::max(1.0, saturating / ((stages - 1) * quarters * kQuarterBytes));
    return cost + barrier + tokenTile / tokensPerQuarter;
  }

  /// The cost of partial sums: each is stored and loaded, and slices are added
  /// one after the other.
  double estimateSplit(int64_t quarters, int64_t split) const {
    constexpr double perSlice = 0.2, wait = 2, tokensPerQuarter = 32;
    if (split == 1)
      return 0;
    return quarters * tokenTile / tokensPerQuarter + perSlice * split + wait;
  }

  const MlpProblem &problem;
  int64_t tokens;
  const GpuModel &gpu;
  int64_t sharedBytes, tokenTile;
  bool isWhole;
};

} // namespace

MmaScheduleAttr fuse::selectMma(const MlpProblem &problem, int64_t tokens,
                                const GpuModel &gpu, int64_t sharedBytes) {
  if (tokens > getMostTokens(problem))
    return {};
  return Selection(problem, tokens, gpu, sharedBytes).select();
}

tile::DispatchAttr fuse::selectMmaRanges(const MlpProblem &problem,
                                         int64_t tokens, const GpuModel &gpu,
                                         int64_t sharedBytes) {
  tokens = std::min(tokens, getMostTokens(problem));
  SmallVector<int64_t> bounds;
  SmallVector<Attribute> schedules;
  for (int64_t bound : kBounds) {
    if (!bounds.empty() && bounds.back() >= tokens)
      break;
    bound = std::min(bound, tokens);
    MmaScheduleAttr schedule = selectMma(problem, bound, gpu, sharedBytes);
    if (!schedule)
      return {};
    bounds.push_back(bound);
    schedules.push_back(schedule);
  }
  if (bounds.empty())
    return {};
  return tile::DispatchAttr::get(problem.op->getContext(), bounds, schedules);
}
