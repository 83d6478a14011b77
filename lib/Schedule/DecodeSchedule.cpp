//===- DecodeSchedule.cpp - Schedules of decode kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidates are all forms of the tiles in all numbers of ranges. Each gets the
// rest of its fields by rules, and the estimate with the forms' margins decides
// among them. The choice gets what the estimate does not see.
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/DecodeSchedule.h"

using namespace mlir;
using namespace fuse;

/// Up to so many tokens, rounding partial sums saves less than looking for
/// exact ones.
static constexpr int64_t kExactTokens = 32;

/// Stages that settle while hidden units are released, with more than so many
/// tokens, and one more with more than as many again.
static constexpr int64_t kSettledStages = 2, kFewTokens = 16;

/// Up to so many k-steps of GEMM1 are unrolled. The copying warps
/// have no registers left then for rings whose stages are no power of two,
/// where they also make blocks wait or tell those with two tiles.
static constexpr int64_t kUnrolledSteps = 11;

/// Up to so many k-steps, more than every fifth block with two half tiles is
/// more than whole ones make up for.
static constexpr int64_t kShortSteps = 20;

/// Bytes in flight that are nearly enough for the memory, as a part of what
/// keeps it busy.
static constexpr double kBusyShare = 0.88;

/// Stages that settle where halves or three quarters of tiles release hidden
/// units of many tokens.
static constexpr int64_t kHalfSettled = 3, kQuarterSettled = 6;

/// Half tiles have to be expected to be faster than whole ones by this.
static constexpr double kHalfMargin = 0.02;

/// ... but may be expected to be slower by this with more than `kHalfTokens`
/// where a few blocks would have a whole tile more than the others.
static constexpr double kEvenMargin = 0.015;

/// Three quarters have to be expected to be faster than two parts by this.
static constexpr double kQuarterMargin = 0.03;

/// With few tokens, so many blocks for each that has two half tiles are enough
/// for those to have most of what memory brings. With up to so many in bf16,
/// and `kHalfTokens` in FP8, others do not wait for them then.
static constexpr int64_t kBlocksPerLong = 12, kHiddenTokens = 56;

/// At least so many blocks with work for each that has none.
static constexpr int64_t kBusyPerIdle = 16;

/// k-steps of a unit from which on it is faster to hold some back.
static constexpr int64_t kSettledSteps = 14;

/// k-steps of GEMM1 of which memory has much to bring, few, and so
/// few that blocks wait for each other most of the time.
static constexpr int64_t kLongSteps = 32, kFewSteps = 17, kLeastSteps = 14;

/// Up to so many, half of the ranges add up where tiles are halves.
static constexpr int64_t kHalfTokens = 32;

/// Tokens up to which activations may be divided by their scale: a division
/// needs registers that wider deferred tiles take.
static constexpr int64_t kDividedTokens = 160;

/// Rows of a tile with tokens on the left, one for each block, up to which it
/// is faster than other tiles.
static constexpr int64_t kSwappedRows = 160;

/// Up to so many k-steps of GEMM1, two stages in flight to each
/// block with such a tile are enough, if it has not too few rows, and up to so
/// many with any. Releases wait for less then.
static constexpr int64_t kSwappedSteps = 20, kFewestSteps = 8;

/// Bytes in flight that are enough for them with up to `kManyTokens`, in
/// bf16: in 8 bits, up to so many tokens are not the left operand.
static constexpr int64_t kSwappedBytes = 4 << 20, kSwappedTokens = 80;

/// Stages that settle while such tiles release hidden units, and with two on
/// their way where there are more than so many k-steps.
static constexpr int64_t kSwappedSettled = 7, kLessSettled = 3,
                         kSettlingSteps = 13;

/// Up to so many tokens two stages are in flight beside a release, and where
/// there are many k-steps; up to so many k-steps one stage more settles.
static constexpr int64_t kFewUnsettledTokens = 88, kUnsettledTokens = 112,
                         kSettledMore = 23;

namespace {

/// How tiles are cut: their rows in the two products, and whether a block has
/// two of the first, which are activated under what comes next.
struct Form {
  int64_t gemm1TileM, rows;
  bool deferredEpilogue = false, swapAB = false;

  bool isWhole() const { return gemm1TileM == 256 && !swapAB; }
  bool isQuarters() const { return gemm1TileM == 192 && !swapAB; }
  bool isHalf() const {
    return gemm1TileM == 128 && !deferredEpilogue && !swapAB;
  }
  int64_t getStageBytes() const {
    if (swapAB)
      return std::max<int64_t>(gemm1TileM, 128) * 128;
    return (isWhole() ? 256 : 128) * 128;
  }
};

/// The fields of a schedule in which choices differ.
struct Draft {
  Form form;
  int64_t tokens, blocks, splitK, weightStages, tokenStages, maxInFlight;
  int64_t stragglerInFlight = 0, publishThrottleStages = 0, publishInFlight = 0,
          reducers = 0;
  Type partials;
  bool taggedPartials, smemEpilogue;

  tile::ScheduleAttr get() const {
    return tile::ScheduleAttr::get(
        partials.getContext(), tokens, blocks, splitK, form.gemm1TileM,
        form.rows, weightStages, tokenStages, maxInFlight, stragglerInFlight,
        /*ahead=*/8, publishThrottleStages, publishInFlight, reducers, partials,
        taggedPartials, smemEpilogue, form.deferredEpilogue, form.swapAB,
        tile::CachePolicy::EvictFirst, /*dependent=*/true, /*launches=*/1);
  }
};

struct Candidate {
  Draft draft;
  double time;
};

/// Makes candidates for one problem and number of tokens, and chooses.
class DecodeSelector {
public:
  DecodeSelector(const MlpProblem &problem, int64_t tokens, const GpuModel &gpu)
      : problem(problem), gpu(gpu), width(llvm::alignTo(tokens, 8)),
        many(width > kMaxWholeTokens) {}

  tile::ScheduleAttr select(std::optional<int64_t> onlyRows);

private:
  // Candidates, each with what it has to meet and the rules for its fields.
  bool takesQuarters() const;
  bool takesParts() const;
  std::optional<Form> findSwapped() const;
  SmallVector<Form> listForms(std::optional<int64_t> onlyRows) const;
  bool waitsForBlocks(Form form) const;
  int64_t countTokenStages(Form form) const;
  int64_t countQuarterStages(const DecodeTiling &tiling) const;
  int64_t countHalfStages(const DecodeTiling &tiling) const;
  int64_t countSwappedStages(const DecodeTiling &tiling) const;
  int64_t countInFlight(Form form, const DecodeTiling &tiling) const;
  SmallVector<int64_t, 2> listGrids(Form form,
                                    const DecodeTiling &tiling) const;
  Draft makeDraft(Form form, int64_t splitK) const;
  bool isPossible(const Draft &draft, const DecodeTiling &tiling) const;
  void consider(Form form, int64_t splitK);

  // The choice.
  const Candidate *findFastest(llvm::function_ref<bool(Form)> is) const;
  const Candidate *choose() const;
  bool losesToQuarters(const Candidate &half) const;
  const Candidate *evenOut(const Candidate *best) const;

  // What the estimate does not see.
  int64_t countSettled(const Draft &draft, const DecodeTiling &tiling) const;
  bool settlesToOne(const DecodeTiling &tiling) const;
  bool evensProgress(const Draft &draft, const DecodeTiling &tiling) const;
  void shareSums(Draft &draft, const DecodeTiling &tiling) const;
  void keepRegisters(Draft &draft, const DecodeTiling &tiling) const;
  tile::ScheduleAttr refine(Draft draft) const;

  const MlpProblem &problem;
  const GpuModel &gpu;
  /// Tokens of a tile, and whether these are more than whole tiles have.
  int64_t width;
  bool many;
  /// In the order in which they are compared.
  std::vector<Candidate> candidates;
};

} // namespace

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// Where halves are more than multiprocessors, three quarters may be one for
/// each.
bool DecodeSelector::takesQuarters() const {
  return !many && canDefer(problem) &&
         ProductTiling(problem, 128, 128).tiles1 > gpu.multiprocessors;
}

/// Two tiles for each block read the tokens twice. With few of them that costs
/// as much as it hides. Kernels of dense tiles do not get by with their
/// registers where few k-steps are left for a loop, and are chosen nowhere
/// else.
bool DecodeSelector::takesParts() const {
  bool divides =
      problem.scales && problem.scales.getOrder() == QuantOrder::Divide;
  return width > kWholeTokens && width <= tile::kMaxDeferredTokens &&
         canDefer(problem) && problem.isGated() &&
         (width <= kDividedTokens || !divides);
}

/// Tokens on the left, and the fewest rows that make one tile for each block.
/// Blocks have two where one would be more than the widest product takes: while
/// one warpgroup activates a tile, the other may be at the next. In between,
/// other forms are as fast.
std::optional<Form> DecodeSelector::findSwapped() const {
  if (!problem.hasGemm1() || width <= kWholeTokens || many)
    return std::nullopt;
  auto fits = [&](int64_t rows, int64_t tiles) {
    ProductTiling tiling(problem, rows, 128, /*swapped=*/true);
    return tiling.tiles1 <= tiles * gpu.multiprocessors;
  };
  bool hasTwo = !fits(256, 1);
  int64_t most = hasTwo ? 256 : kSwappedRows;
  int64_t rows = 64;
  while (rows <= most && !fits(rows, hasTwo ? 2 : 1))
    rows += 32;
  // Few bytes of few tokens wait for memory, of which halves have the same.
  bool isFew = problem.isF8() && !hasTwo &&
               width <= (rows == 128 ? kManyTokens : kSwappedTokens);
  if (rows > most || isFew)
    return std::nullopt;
  return Form{rows, 128, /*deferred=*/false, /*swapped=*/true};
}

/// The forms that the problem may have, in the order in which candidates are
/// compared.
SmallVector<Form>
DecodeSelector::listForms(std::optional<int64_t> onlyRows) const {
  SmallVector<Form> forms;
  std::optional<Form> swapAB = findSwapped();
  // The height of tiles with tokens on the left is another question.
  if (swapAB && onlyRows.value_or(0) == 0)
    return {*swapAB};
  if (!many)
    forms.append({{256, 256}, {256, 128}});
  if (many || problem.hasGemm1())
    forms.push_back({128, 128});
  if (takesQuarters())
    forms.push_back({192, 128});
  if (takesParts())
    forms.push_back({128, 128, /*deferred=*/true});
  if (onlyRows)
    llvm::erase_if(forms,
                   [&](Form form) { return form.gemm1TileM != *onlyRows; });
  return forms;
}

/// Whether half tiles of many tokens wait for each other more than for the
/// memory, so that less in flight is faster: where some blocks have a tile
/// more than the others, and where there are few k-steps.
bool DecodeSelector::waitsForBlocks(Form form) const {
  if (!form.isHalf() || !problem.hasGemm1() || width <= kWholeTokens || many)
    return false;
  ProductTiling tiling(problem, form.gemm1TileM, form.rows);
  bool hasLong = DecodeTiling::countLong(tiling.tiles1, gpu.multiprocessors);
  return hasLong ? tiling.steps1 < kLongSteps
                 : tiling.steps1 < kFewSteps && width > kManyTokens;
}

/// Few tokens leave room for a deeper ring of them, which hides more of the
/// latency of L2. A wide one takes room from the weights, which can be fetched
/// into L2 instead; of half tiles more than 64 tokens take as much as weights.
int64_t DecodeSelector::countTokenStages(Form form) const {
  if (form.deferredEpilogue && !many)
    return 5;
  if (form.isQuarters() || form.swapAB || many)
    return 4;
  if (width <= 16)
    return 8;
  if (width <= 32)
    return form.isWhole() && problem.hasGemm1() ? 8 : 6;
  if (form.isHalf())
    return width <= kWholeTokens || waitsForBlocks(form) ? 6 : 4;
  return width > kWholeTokens && form.rows == 128 ? 6 : 4;
}

static int64_t countWeightStages(Form form, int64_t tokens,
                                 int64_t tokenStages) {
  int64_t stage = form.getStageBytes();
  int64_t room = tile::kMaxSharedBytes - 2048 -
                 (tokenStages + form.deferredEpilogue) * tokens * 128;
  return std::min<int64_t>(6 * 256 * 128 / stage, room / stage);
}

/// Stages of 16 KB in flight to each block with three quarters of a tile.
/// With few tokens four, or three where there are few k-steps, of which more do
/// if three stages keep memory busy. The more tokens, the more blocks wait for
/// each other: a fourth pays where three leave memory idle and there are many
/// k-steps; with many tokens where there are many, as long as what memory has
/// to bring at a time is not much more than keeps it busy.
int64_t DecodeSelector::countQuarterStages(const DecodeTiling &tiling) const {
  bool isEnough = tiling.tiles1 * 3 * 128 * 128 >= kSaturatingBytes;
  if (width <= kHalfTokens)
    return tiling.steps1 < (isEnough ? kFewSteps : kLeastSteps) ? 3 : 4;
  if (width <= kWholeTokens)
    return !isEnough && tiling.steps1 >= kLongSteps ? 4 : 3;
  bool isMuch = 2 * tiling.tiles1 * 4 * 128 * 128 > 3 * kSaturatingBytes;
  return tiling.steps1 > kLongSteps && !isMuch ? 4 : 3;
}

/// With a stage more in flight to each block with a half tile, those keep the
/// memory busy alone, and the others wait with their weights. A release waits
/// for more then, which shows where there are fewer bytes to read.
int64_t DecodeSelector::countHalfStages(const DecodeTiling &tiling) const {
  int64_t step = tiling.tiles1 * 128 * 128;
  int64_t most = problem.isF8() ? kHalfTokens : kWholeTokens;
  bool gains = width <= most && tiling.getUnits() > tiling.tiles1 &&
               3 * step < kBusyShare * kSaturatingBytes &&
               4 * step >= kSaturatingBytes;
  return gains ? 4 : 3;
}

int64_t DecodeSelector::countSwappedStages(const DecodeTiling &tiling) const {
  int64_t bytes = 2 * tiling.tiles1 * tiling.gemm1TileM * 128;
  if (!problem.isF8() && width <= kManyTokens && bytes < kSwappedBytes)
    return 3;
  // One alone is in flight beside a release then, so that a third pays with
  // fewer k-steps.
  int64_t most = settlesToOne(tiling) ? kFewSteps : kSwappedSteps;
  bool isShort = tiling.steps1 <= most && tiling.gemm1TileM > 64;
  return isShort || tiling.steps1 <= kFewestSteps ? 2 : 3;
}

/// Two whole tiles' stages in flight saturate the memory, or what is as
/// much, also when only some blocks have tiles of GEMM1.
int64_t DecodeSelector::countInFlight(Form form,
                                      const DecodeTiling &tiling) const {
  if (form.deferredEpilogue)
    return std::clamp<int64_t>(
        llvm::divideCeil(3 * gpu.multiprocessors - 12, tiling.tilesPerPart), 3,
        6);
  if (form.isQuarters())
    return countQuarterStages(tiling);
  if (form.swapAB)
    return countSwappedStages(tiling);
  if (form.isHalf())
    return waitsForBlocks(form) ? 2 : countHalfStages(tiling);
  return width > kWholeTokens && leavesIdle(problem, tiling, gpu) ? 3 : 2;
}

/// As few blocks as finish GEMM1 in the same number of rounds:
/// equal shares, and fewer to meet.
SmallVector<int64_t, 2>
DecodeSelector::listGrids(Form form, const DecodeTiling &tiling) const {
  if ((form.isQuarters() && width > kWholeTokens) || waitsForBlocks(form))
    return {gpu.multiprocessors};
  int64_t rounds = std::max<int64_t>(
      1, llvm::divideCeil(tiling.tiles1, gpu.multiprocessors));
  int64_t blocks = std::max<int64_t>(tiling.getUnits(),
                                     llvm::divideCeil(tiling.tiles1, rounds));
  // A second row of tokens for some blocks would keep all waiting.
  if (width > kWholeTokens && problem.hasGemm1() && !many &&
      !form.deferredEpilogue && rounds == 1)
    blocks = std::max(blocks, std::min(width, gpu.multiprocessors));
  if (form.swapAB)
    blocks =
        rounds > 1
            ? gpu.multiprocessors
            : std::max(blocks, std::min(kMaxWholeTokens, gpu.multiprocessors));
  // Where shares are not equal, or equal ones leave many multiprocessors
  // without work, all of them may be faster.
  if (rounds > 1 && width <= kWholeTokens && blocks < gpu.multiprocessors)
    return {blocks, gpu.multiprocessors};
  return {blocks};
}

/// A draft on all multiprocessors, with its rings.
Draft DecodeSelector::makeDraft(Form form, int64_t splitK) const {
  Draft draft;
  draft.form = form;
  draft.tokens = getTokenTile(width, form.gemm1TileM);
  draft.blocks = gpu.multiprocessors;
  draft.splitK = splitK;
  draft.tokenStages = countTokenStages(form);
  draft.weightStages = countWeightStages(form, draft.tokens, draft.tokenStages);
  draft.maxInFlight = 2;
  // Rounding partial sums is not in the exact contract.
  bool rounds = problem.rounding.getMode() == RoundingMode::Relaxed &&
                width > kExactTokens;
  MLIRContext *context = problem.op->getContext();
  draft.partials = rounds ? Type(BFloat16Type::get(context))
                          : Type(Float32Type::get(context));
  draft.taggedPartials = !rounds && !many;
  draft.smemEpilogue = form.deferredEpilogue || form.isQuarters();
  return draft;
}

/// Whether a form makes sense in so many ranges.
bool DecodeSelector::isPossible(const Draft &draft,
                                const DecodeTiling &tiling) const {
  // Splits that leave ranges empty are the same as a smaller one.
  if (tiling.ranges != draft.splitK || tiling.getUnits() > gpu.multiprocessors)
    return false;
  // In two parts, blocks that are too few would read the tokens twice.
  if (draft.form.deferredEpilogue && !many && leavesIdle(problem, tiling, gpu))
    return false;
  // A thread's own stores of half a tile would be a byte or two.
  return draft.form.isWhole() || draft.form.swapAB || !problem.hasGemm1() ||
         draft.smemEpilogue;
}

void DecodeSelector::consider(Form form, int64_t splitK) {
  Draft draft = makeDraft(form, splitK);
  DecodeTiling tiling(problem, draft.get());
  int64_t hiddenStages = tiling.getHiddenStages();
  draft.smemEpilogue =
      hiddenStages > 0 && !form.swapAB &&
      hiddenStages <= std::min(draft.tokenStages, tiling.steps1);
  if (!isPossible(draft, tiling))
    return;
  draft.maxInFlight = std::min(countInFlight(form, tiling), draft.weightStages);
  for (int64_t blocks : listGrids(form, tiling)) {
    draft.blocks = blocks;
    tile::ScheduleAttr schedule = draft.get();
    if (getScheduleProblem(problem, schedule).empty())
      candidates.push_back({draft, estimateDecode(problem, schedule, gpu)});
  }
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// What the estimate of a candidate has to be below, as a part of that of the
/// best one before it. The model flatters some forms.
static double getMargin(Form best, Form form) {
  if (best.isWhole() && form.isHalf())
    return 1 - kHalfMargin;
  if (best.deferredEpilogue && form.isQuarters())
    return 1 - kQuarterMargin;
  if (best.isQuarters() && form.deferredEpilogue)
    return 1 + kQuarterMargin;
  return 1;
}

const Candidate *
DecodeSelector::findFastest(llvm::function_ref<bool(Form)> is) const {
  const Candidate *best = nullptr;
  for (const Candidate &candidate : candidates)
    if (is(candidate.draft.form) && (!best || candidate.time < best->time))
      best = &candidate;
  return best;
}

const Candidate *DecodeSelector::choose() const {
  const Candidate *best = nullptr;
  for (const Candidate &candidate : candidates) {
    Form form = candidate.draft.form;
    // With few tokens the estimate does not tell what three quarters gain.
    if (form.isQuarters() && width <= kWholeTokens)
      continue;
    if (!best ||
        candidate.time < best->time * getMargin(best->draft.form, form))
      best = &candidate;
  }
  return best ? best : findFastest([](Form form) { return true; });
}

/// Whether three quarters are done sooner than half tiles, of which some blocks
/// have two. The others wait for those: the more of them, the fewer k-steps,
/// and the more tokens, the longer. Dense ones gain in bf16 only.
bool DecodeSelector::losesToQuarters(const Candidate &half) const {
  DecodeTiling tiling(problem, half.draft.get());
  if (!problem.isGated())
    return false;
  return kBlocksPerLong * tiling.longBlocks > half.draft.blocks ||
         tiling.steps1 < kLeastSteps ||
         width > (problem.isF8() ? kHalfTokens : kHiddenTokens);
}

/// Another form where a few blocks have a tile more than the others, with few
/// tokens.
const Candidate *DecodeSelector::evenOut(const Candidate *best) const {
  DecodeTiling tiling(problem, best->draft.get());
  if (tiling.longBlocks == 0 || width > kWholeTokens)
    return best;
  // A block's second whole tile takes as long as two halves, which others may
  // have, and its activation shows.
  const Candidate *half = findFastest([](Form form) { return form.isHalf(); });
  if (best->draft.form.isWhole() && half && width > kHalfTokens &&
      half->time < best->time * (1 + kEvenMargin))
    return half;
  if (!best->draft.form.isHalf())
    return best;
  // Two half tiles of few k-steps wait for the norm, and then for each other.
  const Candidate *whole =
      findFastest([](Form form) { return form.isWhole(); });
  bool gains = whole && tiling.steps1 <= kShortSteps &&
               5 * tiling.longBlocks > best->draft.blocks;
  const Candidate *quarters =
      findFastest([](Form form) { return form.isQuarters(); });
  if (quarters && losesToQuarters(*best) &&
      !(gains && tiling.steps1 <= kUnrolledSteps))
    return quarters;
  return gains ? whole : best;
}

//===----------------------------------------------------------------------===//
// What the estimate does not see
//===----------------------------------------------------------------------===//

/// Stages of GEMM2 that are held back while hidden units are
/// released, whose releases wait for less then.
int64_t DecodeSelector::countSettled(const Draft &draft,
                                     const DecodeTiling &tiling) const {
  if (!problem.hasGemm1() || draft.form.deferredEpilogue || many)
    return 0;
  // Whole tiles, where it is hidden units that GEMM2 waits for: what
  // a block has left to read then is in its ring or in flight. Blocks without
  // tiles would leave memory idle, and with few tokens sums are there sooner
  // than weights.
  int64_t stages = tiling.stepsPerRange / tiling.getStepsPerStage();
  if (draft.form.isWhole())
    return draft.tokens > kFewTokens && draft.maxInFlight == 2 &&
                   tiling.gemm1Blocks == draft.blocks &&
                   stages <= draft.weightStages + draft.maxInFlight
               ? kSettledStages + (draft.tokens > 2 * kFewTokens)
               : 0;
  if (draft.form.isQuarters() && draft.tokens <= kHalfTokens)
    return kSettledStages;
  if (draft.tokens <= kWholeTokens)
    return 0;
  if (draft.form.isQuarters())
    return draft.maxInFlight == 3 ? kQuarterSettled : 0;
  if (draft.form.swapAB)
    return draft.maxInFlight == 3 || tiling.steps1 <= kSettlingSteps
               ? kSwappedSettled
               : kLessSettled;
  // Where a unit of halves has little, it all is in the ring by then.
  return draft.maxInFlight == 2 && tiling.stepsPerRange >= kSettledSteps
             ? kHalfSettled
             : 0;
}

/// Whether one stage alone instead of two is in flight while hidden units are
/// released, which takes half as long then. With few tokens it takes less, and
/// where there are many k-steps blocks wait for memory, which is idle
/// meanwhile: those with 128 rows with any number of tokens.
bool DecodeSelector::settlesToOne(const DecodeTiling &tiling) const {
  if (!tiling.swapAB)
    return false;
  if (tiling.steps1 <= kLongSteps)
    return width > kFewUnsettledTokens;
  return width > kUnsettledTokens && tiling.gemm1TileM != 128;
}

/// Whether blocks that are behind the others have a stage more in flight.
/// Few k-steps do not drift apart. With more tokens it is hidden units and sums
/// that blocks wait for, and those wait for what is in flight.
bool DecodeSelector::evensProgress(const Draft &draft,
                                   const DecodeTiling &tiling) const {
  return problem.hasGemm1() && draft.form.isWhole() &&
         draft.tokens <= kFewTokens && draft.maxInFlight < draft.weightStages &&
         tiling.steps1 >= kLongSteps && tiling.sharesGemm1Evenly();
}

/// Whether blocks end that the sums can do without, so that blocks of the next
/// launch begin there. The others have twice as much to read, which takes
/// longer than it gains with many tokens, and with half tiles, whose launches
/// are short, sooner.
void DecodeSelector::shareSums(Draft &draft, const DecodeTiling &tiling) const {
  int64_t most = draft.form.isWhole() ? kWholeTokens : kHalfTokens;
  if (!problem.hasGemm1() || draft.tokens > most ||
      tiling.fewReducers >= tiling.ranges)
    return;
  draft.reducers = tiling.fewReducers;
  // With a few blocks of no work evenly among the others, half of the ranges
  // gain twice as much in chains; neither do other numbers of them, nor such
  // blocks behind the others. With few tokens sums take too little time.
  bool isEven = draft.form.isWhole() && tiling.tiles1 == draft.blocks &&
                tiling.getUnits() == draft.blocks;
  int64_t idle = gpu.multiprocessors - draft.blocks;
  if (isEven && draft.tokens > 2 * kFewTokens && idle > 0 &&
      idle <= draft.blocks / kBusyPerIdle) {
    draft.blocks += idle;
    draft.reducers = tiling.halfReducers;
  }
}

/// A ring of tokens whose stages are a power of two, where the copying warps
/// would spill: the next larger one, or with many tokens the smaller one, which
/// leaves room for weights.
void DecodeSelector::keepRegisters(Draft &draft,
                                   const DecodeTiling &tiling) const {
  bool isRagged = tiling.longBlocks > 0 || tiling.waitsLate(draft.get());
  if (!draft.form.isHalf() || !isRagged || tiling.steps1 > kUnrolledSteps ||
      many)
    return;
  draft.tokenStages = draft.tokens > kWholeTokens
                          ? llvm::bit_floor(uint64_t(draft.tokenStages))
                          : llvm::PowerOf2Ceil(draft.tokenStages);
  draft.weightStages =
      countWeightStages(draft.form, draft.tokens, draft.tokenStages);
}

tile::ScheduleAttr DecodeSelector::refine(Draft draft) const {
  DecodeTiling tiling(problem, draft.get());
  draft.publishThrottleStages = countSettled(draft, tiling);
  if (draft.maxInFlight == 3 && settlesToOne(tiling)) {
    draft.publishThrottleStages =
        kLessSettled + (tiling.steps1 <= kSettledMore);
    draft.publishInFlight = 1;
  }
  if (evensProgress(draft, tiling))
    draft.stragglerInFlight = draft.maxInFlight + 1;
  keepRegisters(draft, tiling);
  shareSums(draft, tiling);
  return draft.get();
}

tile::ScheduleAttr DecodeSelector::select(std::optional<int64_t> onlyRows) {
  SmallVector<Form> forms = listForms(onlyRows);
  for (int64_t splitK = 1; splitK <= gpu.multiprocessors; ++splitK)
    for (Form form : forms)
      consider(form, splitK);
  const Candidate *best = choose();
  return best ? refine(evenOut(best)->draft) : tile::ScheduleAttr();
}

tile::ScheduleAttr fuse::selectDecode(const MlpProblem &problem, int64_t tokens,
                                      const GpuModel &gpu,
                                      std::optional<int64_t> onlyRows) {
  if (tokens > kMaxDecodeTokens)
    return {};
  return DecodeSelector(problem, tokens, gpu).select(onlyRows);
}
