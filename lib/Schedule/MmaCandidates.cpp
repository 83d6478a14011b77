//===- MmaCandidates.cpp - Candidates of mma kernels ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/MmaSchedule.h"
#include "fuse/Schedule/ScheduleCandidates.h"
#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace fuse;
using tile::MmaScheduleAttr;

/// Penalty of each field that differs from the model's choice, as a fraction of
/// the estimate, as for the other kernels.
static constexpr double kDeparture = 0.015;

/// Fields that are chosen together count as one.
static int countDepartures(MmaScheduleAttr a, MmaScheduleAttr b) {
  return (a.getGemm1TileM() != b.getGemm1TileM()) +
         (a.getGemm2TileM() != b.getGemm2TileM() ||
          a.getSplitK() != b.getSplitK()) +
         (a.getTokenTile() != b.getTokenTile()) +
         (a.getStages() != b.getStages()) + (a.getGroup() != b.getGroup()) +
         (a.getLaunches() != b.getLaunches());
}

std::vector<RankedSchedule> fuse::rankMma(const MlpProblem &problem,
                                          int64_t tokens, const GpuModel &gpu,
                                          size_t count) {
  MmaScheduleAttr choice = selectMma(problem, tokens, gpu, gpu.sharedBytes);
  if (!choice)
    return {};
  MLIRContext *context = problem.op->getContext();
  // Candidates that do not fit are dropped without an error.
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) {});
  std::vector<std::pair<double, MmaScheduleAttr>> order = {{0, choice}};
  llvm::DenseSet<Attribute> known = {choice};
  auto add = [&](int64_t tokenTile, int64_t split, int64_t rows1, int64_t rows2,
                 int64_t stages, int64_t group, int64_t launches) {
    auto schedule = MmaScheduleAttr::getChecked(
        [&] { return emitError(problem.op->getLoc()); }, context,
        choice.getTokens(), tokenTile, choice.getBlocks(), split, rows1, rows2,
        stages, group, launches);
    // A split with empty K-slices is a duplicate of a smaller one.
    if (!schedule || schedule.getSharedBytes() + 2048 > gpu.sharedBytes ||
        !getScheduleProblem(problem, schedule).empty() ||
        MmaTiling(problem, schedule).slices != split ||
        !known.insert(schedule).second)
      return;
    double cost = estimateMma(problem, schedule, gpu);
    order.push_back(
        {cost * (1 + kDeparture * countDepartures(schedule, choice)),
         schedule});
  };
  SmallVector<int64_t> rows = {256, 192, 128, 64}, rows1 = rows;
  if (!problem.hasGemm1())
    rows1 = {choice.getGemm1TileM()};
  SmallVector<int64_t> tokenTiles = {choice.getTokenTile()}, groups = {16};
  if (tokens > choice.getTokenTile()) {
    tokenTiles.push_back(64);
    groups = {16, 8, 4, 32};
  }
  for (int64_t launches : {1, 3})
    for (int64_t gemm1 : rows1)
      for (int64_t gemm2 : rows)
        for (int64_t split = 1; split <= 64; ++split)
          for (int64_t stages = 2; stages <= 6; ++stages)
            for (int64_t tokenTile : tokenTiles)
              for (int64_t group : groups)
                add(tokenTile, split, gemm1, gemm2, stages, group, launches);
  // Candidates with equal costs keep their order.
  std::vector<std::pair<double, size_t>> ranks;
  for (auto [index, candidate] : llvm::enumerate(order))
    ranks.push_back({candidate.first, index});
  llvm::sort(ranks);
  std::vector<RankedSchedule> best;
  for (auto [cost, index] : ranks) {
    if (best.size() == count)
      break;
    MmaScheduleAttr schedule = order[index].second;
    best.push_back({schedule, estimateMma(problem, schedule, gpu)});
  }
  return best;
}
