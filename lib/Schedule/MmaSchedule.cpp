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

/// Most tokens of a token tile, and K-slices of GEMM2.
static constexpr int64_t kMaxTokenTile = 128, kMaxSplit = 64;
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
// Cost
//===----------------------------------------------------------------------===//

/// The cost of a k-step of a tile, in those of the weights of a quarter:
/// weights, a barrier of the block, and tokens, which come from L2. Too few
/// bytes in flight do not saturate memory. Every schedule that these numbers
/// choose was the fastest of those measured on one H200, or within 1 %, at 1 to
/// 128 tokens.
static double estimateStep(MmaScheduleAttr schedule, int64_t quarters,
                           const GpuModel &gpu) {
  constexpr double barrier = 0.15, tokensPerQuarter = 128;
  double saturating = double(kSaturatingBytes) / gpu.multiprocessors;
  double inFlight = (schedule.getStages() - 1) * quarters * kQuarterBytes;
  return quarters * std::max(1.0, saturating / inFlight) + barrier +
         schedule.getTokenTile() / tokensPerQuarter;
}

/// The cost of partial sums in the same unit: each is stored and loaded, and
/// slices are added one after the other.
static double estimateSplit(int64_t quarters, int64_t tokens, int64_t split) {
  constexpr double perSlice = 0.2, wait = 2, tokensPerQuarter = 32;
  if (split == 1)
    return 0;
  return quarters * tokens / tokensPerQuarter + perSlice * split + wait;
}

/// The cost of a product for the busiest block, in the same unit.
static double estimateProduct(const MmaTiling &tiling, MmaScheduleAttr schedule,
                              bool isGemm2, const GpuModel &gpu) {
  const MmaProduct &product = isGemm2 ? tiling.gemm2 : tiling.gemm1;
  int64_t split = isGemm2 ? tiling.slices : 1;
  int64_t rounds = 1, steps = tiling.stepsPerSlice;
  if (split == 1) {
    rounds = llvm::divideCeil(product.tiles * tiling.tokenTiles,
                              gpu.multiprocessors);
    steps = product.steps;
  }
  return rounds * steps * estimateStep(schedule, product.perTile, gpu) +
         estimateSplit(product.perTile, schedule.getTokenTile(), split);
}

double fuse::estimateMma(const MlpProblem &problem, MmaScheduleAttr schedule,
                         const GpuModel &gpu) {
  // Microseconds for the norm, and for two more launches, on one H200.
  constexpr double norm = 8, launches = 3;
  MmaTiling tiling(problem, schedule);
  double cost = estimateProduct(tiling, schedule, /*isGemm2=*/true, gpu);
  if (problem.hasGemm1())
    cost += estimateProduct(tiling, schedule, /*isGemm2=*/false, gpu);
  return cost * kQuarterBytes * gpu.multiprocessors / gpu.memoryRate + norm +
         (schedule.getLaunches() == 1 ? 0 : launches);
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

  /// The tile and the split with the smallest cost. `other` are the quarters of
  /// a tile of GEMM1 in the same pipeline.
  Choice choose(bool isGemm2, int64_t other) const {
    Choice best;
    for (int64_t quarters = kPackedQuarters; quarters >= 1; --quarters) {
      int64_t stages = countStages(std::max(quarters, other));
      if (stages < 2)
        continue;
      for (int64_t split = 1; split <= kMaxSplit; ++split) {
        auto schedule = MmaScheduleAttr::get(
            problem.op->getContext(), tokens, tokenTile, gpu.multiprocessors,
            split, quarters * kQuarterRows, quarters * kQuarterRows, stages,
            kGroup, /*launches=*/3);
        MmaTiling tiling(problem, schedule);
        // K-slices of a tile are computed at the same time.
        if (split > 1 && (!isGemm2 || tiling.getUnits() > gpu.multiprocessors))
          break;
        if (isGemm2 && tiling.slices != split)
          continue;
        double cost = estimateProduct(tiling, schedule, isGemm2, gpu);
        if (best.quarters == 0 || cost < best.cost)
          best = {quarters, split, cost};
      }
    }
    return best;
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

tile::DispatchAttr
fuse::selectMmaRanges(const MlpProblem &problem, int64_t tokens,
                      const GpuModel &gpu, int64_t sharedBytes,
                      function_ref<Attribute(int64_t)> measured) {
  tokens = std::min(tokens, getMostTokens(problem));
  SmallVector<int64_t> bounds;
  SmallVector<Attribute> schedules;
  for (int64_t bound : kBounds) {
    if (!bounds.empty() && bounds.back() >= tokens)
      break;
    bound = std::min(bound, tokens);
    Attribute schedule = measured(bound);
    if (!schedule)
      schedule = selectMma(problem, bound, gpu, sharedBytes);
    if (!schedule)
      return {};
    bounds.push_back(bound);
    schedules.push_back(schedule);
  }
  if (bounds.empty())
    return {};
  return tile::DispatchAttr::get(problem.op->getContext(), bounds, schedules);
}
