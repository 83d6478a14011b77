//===- ScheduleCandidates.cpp - Schedules worth measuring -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/ScheduleCandidates.h"

#include "fuse/Schedule/DecodeSchedule.h"
#include "fuse/Schedule/PrefillSchedule.h"
#include "fuse/Schedule/RowProblem.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fuse;

/// How much each field that differs from the model's choice counts, as a part
/// of the estimate. The model is right within a few percent.
static constexpr double kDeparture = 0.015;

namespace {

/// A candidate and what it is ranked by.
struct Candidate {
  RankedSchedule ranked;
  double score;
};

} // namespace

static std::vector<RankedSchedule> takeBest(std::vector<Candidate> candidates,
                                            size_t count) {
  // Candidates of one score stay in the order in which they were tried.
  std::vector<std::pair<double, size_t>> order;
  for (auto [index, candidate] : llvm::enumerate(candidates))
    order.push_back({candidate.score, index});
  llvm::sort(order);
  std::vector<RankedSchedule> best;
  llvm::DenseSet<Attribute> known;
  for (auto [score, index] : order) {
    if (best.size() == count)
      break;
    if (known.insert(candidates[index].ranked.schedule).second)
      best.push_back(candidates[index].ranked);
  }
  return best;
}

/// Whether releases of hidden units can wait for fewer weights.
static bool canSettle(int64_t inFlight, int64_t launches, bool deferred) {
  return inFlight > 1 && launches == 1 && !deferred;
}

/// Whether other ranges add up. Of another cut, how many follows from it.
static bool differInAdders(tile::ScheduleAttr a, int64_t rows, int64_t split,
                           int64_t adders) {
  bool sameCut = a.getRows() == rows && a.getSplit() == split;
  return sameCut ? a.getAdders() != adders
                 : (a.getAdders() > 0) != (adders > 0);
}

/// In how many fields two schedules differ. A grid follows from how the last
/// product is cut, so that both together count once; what a schedule can not
/// have does not count.
static unsigned countDepartures(tile::ScheduleAttr a, tile::ScheduleAttr b) {
  bool sameCut = a.getRows() == b.getRows() && a.getSplit() == b.getSplit();
  return (!sameCut || a.getBlocks() != b.getBlocks()) +
         (a.getWeightStages() != b.getWeightStages() ||
          (sameCut && a.getTokenStages() != b.getTokenStages())) +
         (a.getInFlight() != b.getInFlight()) + (a.getAhead() != b.getAhead()) +
         (sameCut && a.getStaged() != b.getStaged()) +
         (a.getLaunches() != b.getLaunches()) +
         (a.getSettle() != b.getSettle() &&
          canSettle(a.getInFlight(), a.getLaunches(), a.getDeferred())) +
         (a.getSettle() > 0 && b.getSettle() > 0 &&
          a.getInFlight() == b.getInFlight() &&
          a.getSettleTo() != b.getSettleTo()) +
         differInAdders(a, b.getRows(), b.getSplit(), b.getAdders()) +
         (a.getPartials() != b.getPartials()) +
         (a.getPolled() != b.getPolled());
}

namespace {

/// Tries all values of the fields of a decode schedule.
class DecodeEnumerator {
public:
  DecodeEnumerator(const DecodeProblem &problem, tile::ScheduleAttr choice,
                   const GpuModel &gpu)
      : problem(problem), choice(choice), gpu(gpu) {}

  std::vector<Candidate> enumerate() {
    // Its grid may be none of those that are tried.
    add(choice);
    for (int64_t rows : {256, 128})
      for (int64_t split = 1; split <= gpu.multiprocessors; ++split)
        enumerateGrids(rows, split);
    return std::move(candidates);
  }

private:
  tile::ScheduleAttr make(int64_t blocks, int64_t split, int64_t rows,
                          int64_t weightStages, int64_t tokenStages,
                          int64_t inFlight, int64_t ahead, int64_t settle,
                          int64_t settleTo, int64_t adders, bool staged,
                          bool deferred, int64_t launches, bool polled) {
    MLIRContext *context = problem.op->getContext();
    // What does not fit is dropped, and is nobody's error.
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &) {});
    Location loc = problem.op->getLoc();
    if (!canSettle(inFlight, launches, deferred))
      settle = 0;
    // One less than are on their way is what it is without.
    if (settle == 0 || settleTo >= inFlight - 1)
      settleTo = 0;
    // As many more for blocks that are behind as those of the choice have.
    int64_t behind = 0;
    if (choice.getBehind() && inFlight > 0 && inFlight < weightStages)
      behind = std::min(inFlight + choice.getBehind() - choice.getInFlight(),
                        weightStages);
    auto build = [&] {
      return tile::ScheduleAttr::getChecked(
          [&] { return emitError(loc); }, context, choice.getTokens(), blocks,
          split, choice.getFirstRows(), rows, weightStages, tokenStages,
          inFlight, behind, ahead, settle, settleTo, adders,
          choice.getPartials(), polled, staged, deferred, choice.getSwapped(),
          choice.getHint(), choice.getDependent(), launches);
    };
    tile::ScheduleAttr schedule = build();
    if (schedule && behind && problem.hasFirst() &&
        !DecodeTiling(problem, schedule).sharesFirstEvenly()) {
      behind = 0;
      schedule = build();
    }
    return schedule;
  }

  /// Grids of one cut of the last product: one block for each unit, equal
  /// shares of the first product, and all multiprocessors.
  void enumerateGrids(int64_t rows, int64_t split) {
    tile::ScheduleAttr probe =
        make(gpu.multiprocessors, split, rows, choice.getWeightStages(),
             std::max<int64_t>(choice.getTokenStages(), 3),
             choice.getInFlight(), choice.getAhead(), /*settle=*/0,
             /*settleTo=*/0, /*adders=*/0, choice.getStaged(),
             /*deferred=*/false, /*launches=*/1, /*polled=*/false);
    if (!probe)
      return;
    DecodeTiling tiling(problem, probe);
    int64_t units = tiling.tiles2 * tiling.ranges;
    // Splits that leave ranges empty are the same as a smaller one.
    if (tiling.ranges != split || units > gpu.multiprocessors)
      return;
    int64_t rounds = std::max<int64_t>(
        1, llvm::divideCeil(tiling.tiles1, gpu.multiprocessors));
    int64_t shares = llvm::divideCeil(tiling.tiles1, rounds);
    for (int64_t blocks : {std::max(units, shares), units, gpu.multiprocessors})
      enumerateRings(rows, split, blocks, tiling);
  }

  /// All pairs of changes of the rest where the grid is the model's choice,
  /// single ones elsewhere.
  void enumerateRings(int64_t rows, int64_t split, int64_t blocks,
                      const DecodeTiling &tiling) {
    bool isChoice = rows == choice.getRows() && split == choice.getSplit() &&
                    blocks == choice.getBlocks();
    const int most = isChoice ? 2 : 1;
    llvm::SmallSetVector<int64_t, 3> adderCounts;
    adderCounts.insert(0);
    for (int64_t adders : {tiling.halfAdders, tiling.fewAdders})
      if (adders < split)
        adderCounts.insert(adders);
    int64_t otherSettleTo = choice.getSettleTo() > 0 ? 0 : 1;
    // Stages of half a tile are half as large.
    int64_t scale = choice.getFirstRows() == 256 ? 1 : 2;
    for (int64_t weightStages :
         {choice.getWeightStages(), 6 * scale, 5 * scale, 4 * scale, 3 * scale})
      for (int64_t tokenStages : {choice.getTokenStages(), int64_t(8),
                                  int64_t(6), int64_t(4), int64_t(3)})
        for (int64_t inFlight : {choice.getInFlight(), int64_t(2), int64_t(3),
                                 int64_t(4), int64_t(0)})
          for (int64_t ahead : {8, 0, 4, 16})
            for (int64_t launches : {1, 2}) {
              int changes = (weightStages != choice.getWeightStages() ||
                             tokenStages != choice.getTokenStages()) +
                            (inFlight != choice.getInFlight()) +
                            (ahead != choice.getAhead()) +
                            (launches != choice.getLaunches());
              if (changes > most)
                continue;
              for (int64_t settle :
                   {choice.getSettle(), int64_t(0), int64_t(2)})
                for (int64_t settleTo : {choice.getSettleTo(), otherSettleTo})
                  for (int64_t adders : adderCounts)
                    for (bool staged : {false, true})
                      for (bool polled : {false, true})
                        if (changes + (settle != choice.getSettle()) +
                                (settleTo != choice.getSettleTo()) +
                                differInAdders(choice, rows, split, adders) +
                                (polled != choice.getPolled()) <=
                            most)
                          add(make(blocks, split, rows, weightStages,
                                   tokenStages, inFlight, ahead, settle,
                                   settleTo, adders, staged,
                                   staged && choice.getDeferred(), launches,
                                   polled));
            }
  }

  void add(tile::ScheduleAttr schedule) {
    if (!schedule || !getScheduleProblem(problem, schedule).empty())
      return;
    double time = estimateDecode(problem, schedule, gpu);
    double score = time * (1 + kDeparture * countDepartures(schedule, choice));
    candidates.push_back({{schedule, time}, schedule == choice ? 0 : score});
  }

  const DecodeProblem &problem;
  tile::ScheduleAttr choice;
  const GpuModel &gpu;
  std::vector<Candidate> candidates;
};

} // namespace

/// Schedules for many tokens: every cut of the last product with the rest as
/// chosen, and with the choice's cut, everything else.
static std::vector<RankedSchedule> rankPrefill(const DecodeProblem &problem,
                                               int64_t tokens,
                                               const GpuModel &gpu,
                                               size_t count) {
  tile::PrefillScheduleAttr choice = selectPrefill(problem, tokens, gpu);
  if (!choice)
    return {};
  MLIRContext *context = problem.op->getContext();
  // What does not fit is dropped, and is nobody's error.
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) {});
  Location loc = problem.op->getLoc();
  std::vector<Candidate> candidates;
  auto add = [&](int64_t rows, int64_t split, int64_t stages, int64_t group,
                 int64_t launches, bool even, bool unequal) {
    auto schedule = tile::PrefillScheduleAttr::getChecked(
        [&] { return emitError(loc); }, context, choice.getTokens(),
        choice.getBlocks(), split, rows, stages, group, choice.getCluster(),
        launches, even, unequal, choice.getDependent());
    if (!schedule ||
        !getScheduleProblem(problem, schedule, gpu.multiprocessors).empty())
      return;
    // Two that make the same kernels are one.
    PrefillTiling tiling(problem, schedule);
    if (tiling.getSplit() != split || tiling.last.isUnequal != unequal)
      return;
    int departures =
        (rows != choice.getRows() || split != choice.getSplit()) +
        (stages != choice.getStages()) + (group != choice.getGroup()) +
        (launches != choice.getLaunches()) + (even != choice.getEven()) +
        (unequal != choice.getUnequal());
    double time = estimatePrefill(problem, schedule, tokens, gpu);
    double score = time * (1 + kDeparture * departures);
    candidates.push_back({{schedule, time}, schedule == choice ? 0 : score});
  };
  for (int64_t launches : {1, 2}) {
    for (int64_t rows : {256, 128})
      for (int64_t split = 1; split <= 16; ++split)
        for (bool even : {false, true})
          for (bool unequal : {false, true})
            add(rows, split, choice.getStages(), choice.getGroup(), launches,
                even, unequal);
    for (int64_t stages : {4, 3})
      for (int64_t group : {16, 8, 4, 32})
        add(choice.getRows(), choice.getSplit(), stages, group, launches,
            choice.getEven(), choice.getUnequal());
  }
  return takeBest(std::move(candidates), count);
}

static std::vector<RankedSchedule> rankRows(const RowProblem &problem,
                                            const GpuModel &gpu, size_t count) {
  tile::RowScheduleAttr choice = selectRows(problem, gpu);
  std::vector<Candidate> candidates = {{{choice, 0}, 0}};
  for (int64_t threads : {64, 128, 256, 512, 1024})
    for (int64_t resident : {2048, 1024, 4096}) {
      int64_t blocks =
          std::min<int64_t>(65535, gpu.multiprocessors * resident / threads);
      auto schedule =
          tile::RowScheduleAttr::get(problem.op->getContext(), blocks, threads);
      double departure =
          std::fabs(std::log2(double(threads) / choice.getThreads())) +
          std::fabs(std::log2(resident / 2048.0));
      candidates.push_back({{schedule, 0}, departure});
    }
  return takeBest(std::move(candidates), count);
}

std::vector<RankedSchedule> fuse::rankSchedules(Operation *op, int64_t tokens,
                                                const GpuModel &gpu,
                                                size_t count) {
  std::string reason;
  if (takesRows(op)) {
    std::optional<RowProblem> problem = describeRows(op, reason);
    return problem ? rankRows(*problem, gpu, count)
                   : std::vector<RankedSchedule>();
  }
  std::optional<DecodeProblem> problem = describeDecode(op, reason);
  if (!problem)
    return {};
  int64_t most = problem->tokens.value_or(tokens);
  Attribute choice = selectProducts(*problem, most, gpu);
  if (isa_and_nonnull<tile::PrefillScheduleAttr>(choice))
    return rankPrefill(*problem, most, gpu, count);
  if (!choice)
    return {};
  auto decode = cast<tile::ScheduleAttr>(choice);
  std::vector<Candidate> candidates =
      DecodeEnumerator(*problem, decode, gpu).enumerate();
  // Everything else follows from the height of the first product's tiles. How
  // heights compare is what the model knows least, by up to 10 %: what it would
  // choose with another one comes right behind the choice.
  for (int64_t rows : {256, 192, 128, 0}) {
    if (rows == (decode.getSwapped() ? 0 : decode.getFirstRows()))
      continue;
    tile::ScheduleAttr other = selectDecode(*problem, most, gpu, rows);
    if (other)
      candidates.push_back({{other, estimateDecode(*problem, other, gpu)}, 0});
  }
  return takeBest(std::move(candidates), count);
}
