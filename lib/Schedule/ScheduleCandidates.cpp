//===- ScheduleCandidates.cpp - Candidates for measurements ---------------===//
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

/// Penalty of each field that differs from the model's choice, as a fraction of
/// the estimate. The errors of the model are a few percent.
static constexpr double kDeparture = 0.015;

namespace {

/// A candidate and its score; lower scores rank first.
struct Candidate {
  RankedSchedule ranked;
  double score;
};

} // namespace

static std::vector<RankedSchedule> takeBest(std::vector<Candidate> candidates,
                                            size_t count) {
  // Candidates with equal scores keep their order.
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

/// Whether stages can be held back while hidden units are published.
static bool canThrottlePublish(int64_t maxInFlight, bool deferredEpilogue) {
  return maxInFlight > 1 && !deferredEpilogue;
}

/// Whether the number of reducers differs. With another split, this number
/// follows from the split.
static bool differInReducers(tile::ScheduleAttr a, int64_t rows, int64_t splitK,
                             int64_t reducers) {
  bool sameCut = a.getGemm2TileM() == rows && a.getSplitK() == splitK;
  return sameCut ? a.getReducers() != reducers
                 : (a.getReducers() > 0) != (reducers > 0);
}

/// Number of fields in which two schedules differ. The grid follows from the
/// split of GEMM2, so that both count as one field. Fields that a schedule
/// cannot have are not counted.
static unsigned countDepartures(tile::ScheduleAttr a, tile::ScheduleAttr b) {
  bool sameCut =
      a.getGemm2TileM() == b.getGemm2TileM() && a.getSplitK() == b.getSplitK();
  return (!sameCut || a.getBlocks() != b.getBlocks()) +
         (a.getWeightStages() != b.getWeightStages() ||
          (sameCut && a.getTokenStages() != b.getTokenStages())) +
         (a.getMaxInFlight() != b.getMaxInFlight()) +
         (a.getL2PrefetchStages() != b.getL2PrefetchStages()) +
         (sameCut && a.getSmemEpilogue() != b.getSmemEpilogue()) +
         (a.getPublishThrottleStages() != b.getPublishThrottleStages() &&
          canThrottlePublish(a.getMaxInFlight(), a.getDeferredEpilogue())) +
         (a.getPublishThrottleStages() > 0 &&
          b.getPublishThrottleStages() > 0 &&
          a.getMaxInFlight() == b.getMaxInFlight() &&
          a.getPublishInFlight() != b.getPublishInFlight()) +
         differInReducers(a, b.getGemm2TileM(), b.getSplitK(),
                          b.getReducers()) +
         (a.getPartials() != b.getPartials()) +
         (a.getTaggedPartials() != b.getTaggedPartials());
}

namespace {

/// Enumerates the values of all fields of a decode schedule.
class DecodeEnumerator {
public:
  DecodeEnumerator(const MlpProblem &problem, tile::ScheduleAttr choice,
                   const GpuModel &gpu)
      : problem(problem), choice(choice), gpu(gpu) {}

  std::vector<Candidate> enumerate() {
    // The enumeration may not include the grid of the choice.
    add(choice);
    for (int64_t rows : {256, 128})
      for (int64_t splitK = 1; splitK <= gpu.multiprocessors; ++splitK)
        enumerateGrids(rows, splitK);
    return std::move(candidates);
  }

private:
  tile::ScheduleAttr
  make(int64_t blocks, int64_t splitK, int64_t rows, int64_t weightStages,
       int64_t tokenStages, int64_t maxInFlight, int64_t l2PrefetchStages,
       int64_t publishThrottleStages, int64_t publishInFlight, int64_t reducers,
       bool smemEpilogue, bool deferredEpilogue, bool taggedPartials) {
    MLIRContext *context = problem.op->getContext();
    // Candidates that do not fit are dropped without an error.
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &) {});
    Location loc = problem.op->getLoc();
    if (!canThrottlePublish(maxInFlight, deferredEpilogue))
      publishThrottleStages = 0;
    // One less than the stages in flight has no effect.
    if (publishThrottleStages == 0 || publishInFlight >= maxInFlight - 1)
      publishInFlight = 0;
    // Stragglers have as many additional loads in flight as in the choice.
    int64_t stragglerInFlight = 0;
    if (choice.getStragglerInFlight() && maxInFlight > 0 &&
        maxInFlight < weightStages)
      stragglerInFlight = std::min(maxInFlight + choice.getStragglerInFlight() -
                                       choice.getMaxInFlight(),
                                   weightStages);
    auto build = [&] {
      return tile::ScheduleAttr::getChecked(
          [&] { return emitError(loc); }, context, choice.getTokens(), blocks,
          splitK, choice.getGemm1TileM(), rows, weightStages, tokenStages,
          maxInFlight, stragglerInFlight, l2PrefetchStages,
          publishThrottleStages, publishInFlight, reducers,
          choice.getPartials(), taggedPartials, smemEpilogue, deferredEpilogue,
          choice.getSwapAB(), choice.getHint(), choice.getDependent());
    };
    tile::ScheduleAttr schedule = build();
    if (schedule && stragglerInFlight && problem.hasGemm1() &&
        !DecodeTiling(problem, schedule).sharesGemm1Evenly()) {
      stragglerInFlight = 0;
      schedule = build();
    }
    return schedule;
  }

  /// Enumerates grids of one split of GEMM2: one block per unit, equal shares
  /// of GEMM1, and all multiprocessors.
  void enumerateGrids(int64_t rows, int64_t splitK) {
    tile::ScheduleAttr probe = make(
        gpu.multiprocessors, splitK, rows, choice.getWeightStages(),
        std::max<int64_t>(choice.getTokenStages(), 3), choice.getMaxInFlight(),
        choice.getL2PrefetchStages(), /*publishThrottleStages=*/0,
        /*publishInFlight=*/0, /*reducers=*/0, choice.getSmemEpilogue(),
        /*deferredEpilogue=*/false, /*taggedPartials=*/false);
    if (!probe)
      return;
    DecodeTiling tiling(problem, probe);
    int64_t units = tiling.tiles2 * tiling.slices;
    // A split with empty K-slices is a duplicate of a smaller split.
    if (tiling.slices != splitK || units > gpu.multiprocessors)
      return;
    int64_t rounds = std::max<int64_t>(
        1, llvm::divideCeil(tiling.tiles1, gpu.multiprocessors));
    int64_t shares = llvm::divideCeil(tiling.tiles1, rounds);
    for (int64_t blocks : {std::max(units, shares), units, gpu.multiprocessors})
      enumerateRings(rows, splitK, blocks, tiling);
  }

  /// Enumerates all pairs of changes of the other fields if the grid is that of
  /// the choice, and all single changes otherwise.
  void enumerateRings(int64_t rows, int64_t splitK, int64_t blocks,
                      const DecodeTiling &tiling) {
    bool isChoice = rows == choice.getGemm2TileM() &&
                    splitK == choice.getSplitK() &&
                    blocks == choice.getBlocks();
    const int most = isChoice ? 2 : 1;
    llvm::SmallSetVector<int64_t, 3> reducerCounts;
    reducerCounts.insert(0);
    for (int64_t reducers : {tiling.halfReducers, tiling.fewReducers})
      if (reducers < splitK)
        reducerCounts.insert(reducers);
    int64_t otherPublishInFlight = choice.getPublishInFlight() > 0 ? 0 : 1;
    // Stages of 128-row tiles have half the size.
    int64_t scale = choice.getGemm1TileM() == 256 ? 1 : 2;
    for (int64_t weightStages :
         {choice.getWeightStages(), 6 * scale, 5 * scale, 4 * scale, 3 * scale})
      for (int64_t tokenStages : {choice.getTokenStages(), int64_t(8),
                                  int64_t(6), int64_t(4), int64_t(3)})
        for (int64_t maxInFlight : {choice.getMaxInFlight(), int64_t(2),
                                    int64_t(3), int64_t(4), int64_t(0)})
          for (int64_t l2PrefetchStages : {8, 0, 4, 16}) {
            int changes = (weightStages != choice.getWeightStages() ||
                           tokenStages != choice.getTokenStages()) +
                          (maxInFlight != choice.getMaxInFlight()) +
                          (l2PrefetchStages != choice.getL2PrefetchStages());
            if (changes > most)
              continue;
            for (int64_t publishThrottleStages :
                 {choice.getPublishThrottleStages(), int64_t(0), int64_t(2)})
              for (int64_t publishInFlight :
                   {choice.getPublishInFlight(), otherPublishInFlight})
                for (int64_t reducers : reducerCounts)
                  for (bool smemEpilogue : {false, true})
                    for (bool taggedPartials : {false, true})
                      if (changes +
                              (publishThrottleStages !=
                               choice.getPublishThrottleStages()) +
                              (publishInFlight != choice.getPublishInFlight()) +
                              differInReducers(choice, rows, splitK, reducers) +
                              (taggedPartials != choice.getTaggedPartials()) <=
                          most)
                        add(make(blocks, splitK, rows, weightStages,
                                 tokenStages, maxInFlight, l2PrefetchStages,
                                 publishThrottleStages, publishInFlight,
                                 reducers, smemEpilogue,
                                 smemEpilogue && choice.getDeferredEpilogue(),
                                 taggedPartials));
          }
  }

  void add(tile::ScheduleAttr schedule) {
    if (!schedule || !getScheduleProblem(problem, schedule).empty())
      return;
    double time = estimateDecode(problem, schedule, gpu);
    double score = time * (1 + kDeparture * countDepartures(schedule, choice));
    candidates.push_back({{schedule, time}, schedule == choice ? 0 : score});
  }

  const MlpProblem &problem;
  tile::ScheduleAttr choice;
  const GpuModel &gpu;
  std::vector<Candidate> candidates;
};

} // namespace

/// Ranks prefill schedules: every split of GEMM2 with the other fields of the
/// choice, and every change of the other fields with the split of the choice.
static std::vector<RankedSchedule> rankPrefill(const MlpProblem &problem,
                                               int64_t tokens,
                                               const GpuModel &gpu,
                                               size_t count) {
  tile::PrefillScheduleAttr choice = selectPrefill(problem, tokens, gpu);
  if (!choice)
    return {};
  MLIRContext *context = problem.op->getContext();
  // Candidates that do not fit are dropped without an error.
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) {});
  Location loc = problem.op->getLoc();
  std::vector<Candidate> candidates;
  auto add = [&](int64_t rows, int64_t splitK, int64_t stages, int64_t group,
                 int64_t launches, bool streamK, bool unevenSplitK) {
    auto schedule = tile::PrefillScheduleAttr::getChecked(
        [&] { return emitError(loc); }, context, choice.getTokens(),
        choice.getBlocks(), splitK, rows, stages, group, choice.getCluster(),
        launches, streamK, unevenSplitK, choice.getDependent());
    if (!schedule ||
        !getScheduleProblem(problem, schedule, gpu.multiprocessors).empty())
      return;
    // Schedules with equal kernels are duplicates.
    PrefillTiling tiling(problem, schedule);
    if (tiling.getSplitK() != splitK ||
        tiling.gemm2.isUnevenSplitK != unevenSplitK)
      return;
    int departures =
        (rows != choice.getGemm2TileM() || splitK != choice.getSplitK()) +
        (stages != choice.getStages()) + (group != choice.getGroup()) +
        (launches != choice.getLaunches()) + (streamK != choice.getStreamK()) +
        (unevenSplitK != choice.getUnevenSplitK());
    double time = estimatePrefill(problem, schedule, tokens, gpu);
    double score = time * (1 + kDeparture * departures);
    candidates.push_back({{schedule, time}, schedule == choice ? 0 : score});
  };
  for (int64_t launches : {1, 2}) {
    for (int64_t rows : {256, 128})
      for (int64_t splitK = 1; splitK <= 16; ++splitK)
        for (bool streamK : {false, true})
          for (bool unevenSplitK : {false, true})
            add(rows, splitK, choice.getStages(), choice.getGroup(), launches,
                streamK, unevenSplitK);
    for (int64_t stages : {4, 3})
      for (int64_t group : {16, 8, 4, 32})
        add(choice.getGemm2TileM(), choice.getSplitK(), stages, group, launches,
            choice.getStreamK(), choice.getUnevenSplitK());
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
  if (isRowOp(op)) {
    std::optional<RowProblem> problem = describeRows(op, reason);
    return problem ? rankRows(*problem, gpu, count)
                   : std::vector<RankedSchedule>();
  }
  std::optional<MlpProblem> problem = describeProducts(op, gpu, reason);
  if (!problem)
    return {};
  int64_t most = problem->tokens.value_or(tokens);
  if (!gpu.isHopper)
    return rankMma(*problem, most, gpu, count);
  Attribute choice = selectProducts(*problem, most, gpu);
  if (isa_and_nonnull<tile::PrefillScheduleAttr>(choice))
    return rankPrefill(*problem, most, gpu, count);
  if (!choice)
    return {};
  auto decode = cast<tile::ScheduleAttr>(choice);
  std::vector<Candidate> candidates =
      DecodeEnumerator(*problem, decode, gpu).enumerate();
  // All other fields follow from `gemm1_tile_m`. The model compares tile
  // heights least accurately, with errors of up to 10 %. Its choice for each
  // other height therefore follows directly after its best choice.
  for (int64_t rows : {256, 192, 128, 0}) {
    if (rows == (decode.getSwapAB() ? 0 : decode.getGemm1TileM()))
      continue;
    tile::ScheduleAttr other = selectDecode(*problem, most, gpu, rows);
    if (other)
      candidates.push_back({{other, estimateDecode(*problem, other, gpu)}, 0});
  }
  return takeBest(std::move(candidates), count);
}
