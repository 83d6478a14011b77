//===- DecodeSchedule.cpp - Schedules of decode kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidates combine every tile form with every number of K-slices. Rules set
// the other fields of each candidate. The estimate and the margins of the forms
// select one candidate. Rules then adjust it for effects that the estimate does
// not model.
//
// Constants that name the H200 were measured on one; the runs are in
// docs/appendix/decode-experiments.md.
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/DecodeSchedule.h"

using namespace mlir;
using namespace fuse;

/// Tokens up to which tagged f32 partial sums are faster than bf16 ones:
/// polling exact sums costs less than rounding saves (H200).
static constexpr int64_t kExactTokens = 32;

/// Shared memory for mbarriers, sums of rows and the like, in bytes.
static constexpr int64_t kReservedBytes = 2048;

/// Weight stages held back while a block publishes its hidden units: 2 above
/// 16 tokens, 3 above 32 (H200).
static constexpr int64_t kThrottledStages = 2, kFewTokens = 16;

/// Number of k-steps of GEMM1 up to which its loop is unrolled. Producer warps
/// then have no registers left for pipelines whose depth is not a power of two,
/// for waits, or for blocks with two tiles.
static constexpr int64_t kUnrolledSteps = 11;

/// Number of k-steps of GEMM1 up to which 256-row tiles are faster than 128-row
/// tiles, if more than one block in five has two 128-row tiles (H200).
static constexpr int64_t kShortSteps = 20;

/// Fraction of the bandwidth-saturating in-flight bytes at which HBM counts
/// as saturated (H200).
static constexpr double kBusyShare = 0.88;

/// Weight stages held back while 128-row or 192-row tiles publish the hidden
/// units of more than 32 tokens (H200).
static constexpr int64_t kTile128Throttled = 3, kTile192Throttled = 6;

/// Minimum predicted gain of 128-row tiles over 256-row ones, as a fraction
/// of the time.
static constexpr double kTile128Margin = 0.02;

/// Maximum predicted loss, as a fraction of the time, at which 128-row tiles
/// are still chosen: above `kHalfTokens` tokens, where a few blocks would
/// have one 256-row tile more than the others.
static constexpr double kEvenMargin = 0.015;

/// Minimum predicted gain of 192-row tiles over a deferred epilogue, as a
/// fraction of the time.
static constexpr double kTile192Margin = 0.03;

/// Blocks per block with two 128-row tiles. Above this ratio, blocks with two
/// tiles get most of the bandwidth. The other blocks then do not wait for them
/// up to 56 tokens in bf16, and up to `kHalfTokens` in FP8 (H200).
static constexpr int64_t kBlocksPerLong = 12, kHiddenTokens = 56;

/// Minimum ratio of busy to idle blocks.
static constexpr int64_t kBusyPerIdle = 16;

/// k-steps of a GEMM2 unit above which holding back stages is faster (H200).
static constexpr int64_t kThrottledSteps = 14;

/// k-steps of GEMM1: from 32 on, HBM has enough work; up to 17 it has little;
/// up to 14, blocks mostly wait for each other (H200).
static constexpr int64_t kLongSteps = 32, kFewSteps = 17, kLeastSteps = 14;

/// Tokens up to which half of the K-slices reduce where tiles have 128 rows
/// (H200).
static constexpr int64_t kHalfTokens = 32;

/// Maximum number of tokens with a division of a tile index in the kernel. The
/// division needs registers that wider deferred tiles use.
static constexpr int64_t kDividedTokens = 160;

/// Maximum weight rows of a swap-AB tile, with one tile per block, at which
/// swap-AB is faster than other tiles (H200).
static constexpr int64_t kSwapABRows = 160;

/// k-steps of GEMM1 up to which two stages in flight suffice for a block
/// with a swap-AB tile: 20 with enough rows, 8 with any. Releases then wait
/// for fewer loads (H200).
static constexpr int64_t kSwapABSteps = 20, kFewestSteps = 8;

/// In-flight bytes that saturate HBM for swap-AB tiles with up to
/// `kManyTokens` tokens in bf16, and tokens up to which swap-AB is not used
/// in FP8 (H200).
static constexpr int64_t kSwapABBytes = 4 << 20, kSwapABTokens = 80;

/// Weight stages held back while swap-AB tiles publish hidden units: 7, and
/// 3 with two in flight where GEMM1 has more than 13 k-steps (H200).
static constexpr int64_t kSwapABThrottled = 7, kSwapABLessThrottled = 3,
                         kSwapABThrottledSteps = 13;

/// Maximum number of tokens of swap-AB schedules that publish with two stages
/// in flight: 88, or 112 with more than kLongSteps k-steps. Above it, one stage
/// is in flight, and up to kThrottledMoreSteps k-steps another stage is held
/// back (H200).
static constexpr int64_t kFewUnthrottledTokens = 88, kUnthrottledTokens = 112,
                         kThrottledMoreSteps = 23;

namespace {

/// Tile sizes of both products, and whether a block has two GEMM1 tiles with a
/// deferred epilogue.
struct Form {
  int64_t gemm1TileM, rows;
  bool deferredEpilogue = false, swapAB = false;

  bool isTile256() const { return gemm1TileM == 256 && !swapAB; }
  bool isTile192() const { return gemm1TileM == 192 && !swapAB; }
  bool isTile128() const {
    return gemm1TileM == 128 && !deferredEpilogue && !swapAB;
  }
  int64_t getStageBytes() const {
    if (swapAB)
      return std::max<int64_t>(gemm1TileM, 128) * 128;
    return (isTile256() ? 256 : 128) * 128;
  }
};

/// The fields of a schedule that the selection changes.
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
        /*l2PrefetchStages=*/8, publishThrottleStages, publishInFlight,
        reducers, partials, taggedPartials, smemEpilogue, form.deferredEpilogue,
        form.swapAB, tile::CachePolicy::EvictFirst, /*dependent=*/true);
  }
};

struct Candidate {
  Draft draft;
  double time;
};

/// Creates the candidates for one problem and number of tokens, and selects
/// one.
class DecodeSelector {
public:
  DecodeSelector(const MlpProblem &problem, int64_t tokens, const GpuModel &gpu)
      : problem(problem), gpu(gpu), width(llvm::alignTo(tokens, 8)),
        many(width > kMaxWholeTokens) {}

  tile::ScheduleAttr select(std::optional<int64_t> onlyRows);

private:
  // Candidates: preconditions and rules for the fields.
  bool allowsTile192() const;
  bool allowsDeferredEpilogue() const;
  std::optional<Form> findSwapAB() const;
  SmallVector<Form> listForms(std::optional<int64_t> onlyRows) const;
  bool waitsForBlocks(Form form) const;
  int64_t countTokenStages(Form form) const;
  int64_t countTile192Stages(const DecodeTiling &tiling) const;
  int64_t countTile128Stages(const DecodeTiling &tiling) const;
  int64_t countSwapABStages(const DecodeTiling &tiling) const;
  int64_t countInFlight(Form form, const DecodeTiling &tiling) const;
  SmallVector<int64_t, 2> listGrids(Form form,
                                    const DecodeTiling &tiling) const;
  int64_t countStages(const Draft &draft, int64_t reserved) const;
  Draft makeDraft(Form form, int64_t splitK) const;
  bool isPossible(const Draft &draft, const DecodeTiling &tiling) const;
  void consider(Form form, int64_t splitK);

  // Selection.
  const Candidate *findFastest(llvm::function_ref<bool(Form)> is) const;
  const Candidate *choose() const;
  bool losesToTile192(const Candidate &half) const;
  const Candidate *evenOut(const Candidate *best) const;

  // Adjustments for effects that the estimate does not model.
  int64_t countThrottledStages(const Draft &draft,
                               const DecodeTiling &tiling) const;
  bool publishesWithOneInFlight(const DecodeTiling &tiling) const;
  bool limitsStragglers(const Draft &draft, const DecodeTiling &tiling) const;
  void selectReducers(Draft &draft, const DecodeTiling &tiling) const;
  void keepRegisters(Draft &draft, const DecodeTiling &tiling) const;
  tile::ScheduleAttr refine(Draft draft) const;

  const MlpProblem &problem;
  const GpuModel &gpu;
  /// Tokens of a tile. `many` is true if these exceed kMaxWholeTokens.
  int64_t width;
  bool many;
  /// In the order of comparison.
  std::vector<Candidate> candidates;
};

} // namespace

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

/// Whether 192-row tiles are a candidate. They are useful if there are more
/// 128-row tiles than multiprocessors, so that each block may get one 192-row
/// tile.
bool DecodeSelector::allowsTile192() const {
  return !many && canDefer(problem) &&
         ProductTiling(problem, 128, 128).tiles1 > gpu.multiprocessors;
}

/// Whether the deferred epilogue, with two tiles per CTA, is a candidate. It
/// reads the tokens twice, which costs with few tokens as much as it hides.
/// Kernels of dense MLPs spill where the loop has few k-steps, and are not
/// selected elsewhere.
bool DecodeSelector::allowsDeferredEpilogue() const {
  bool divides =
      problem.scales && problem.scales.getOrder() == QuantOrder::Divide;
  return width > kWholeTokens && width <= tile::kMaxDeferredTokens &&
         canDefer(problem) && problem.isGated() &&
         (width <= kDividedTokens || !divides);
}

/// The swap-AB form with the fewest rows that gives each CTA one tile. CTAs
/// have two tiles if one tile would exceed the widest product. One warpgroup
/// can then activate a tile while the other computes the next tile. Between
/// these cases, other forms are equally fast.
std::optional<Form> DecodeSelector::findSwapAB() const {
  if (!problem.hasGemm1() || width <= kWholeTokens || many)
    return std::nullopt;
  auto fits = [&](int64_t rows, int64_t tiles) {
    ProductTiling tiling(problem, rows, 128, /*swapAB=*/true);
    return tiling.tiles1 <= tiles * gpu.multiprocessors;
  };
  bool hasTwo = !fits(256, 1);
  int64_t most = hasTwo ? 256 : kSwapABRows;
  int64_t rows = 64;
  while (rows <= most && !fits(rows, hasTwo ? 2 : 1))
    rows += 32;
  // With few bytes and few tokens, HBM is the limit, and 128-row tiles read the
  // same bytes.
  bool isFew = problem.isF8() && !hasTwo &&
               width <= (rows == 128 ? kManyTokens : kSwapABTokens);
  if (rows > most || isFew)
    return std::nullopt;
  return Form{rows, 128, /*deferredEpilogue=*/false, /*swapAB=*/true};
}

/// The forms that are possible for the problem, in the order of comparison.
SmallVector<Form>
DecodeSelector::listForms(std::optional<int64_t> onlyRows) const {
  SmallVector<Form> forms;
  // A tile has whole groups of hidden units that share a measured scale.
  if (problem.quant) {
    if (!many && onlyRows.value_or(256) == 256)
      forms.append({{256, 256}, {256, 128}});
    return forms;
  }
  std::optional<Form> swapAB = findSwapAB();
  // The number of rows of a swap-AB tile is selected separately.
  if (swapAB && onlyRows.value_or(0) == 0)
    return {*swapAB};
  if (!many)
    forms.append({{256, 256}, {256, 128}});
  if (many || problem.hasGemm1())
    forms.push_back({128, 128});
  if (allowsTile192())
    forms.push_back({192, 128});
  if (allowsDeferredEpilogue())
    forms.push_back({128, 128, /*deferredEpilogue=*/true});
  if (onlyRows)
    llvm::erase_if(forms,
                   [&](Form form) { return form.gemm1TileM != *onlyRows; });
  return forms;
}

/// Whether CTAs with 128-row tiles and many tokens wait for each other longer
/// than for HBM. A lower limit of loads in flight is then faster. This is the
/// case with few k-steps, or if some CTAs have one tile more than others.
bool DecodeSelector::waitsForBlocks(Form form) const {
  if (!form.isTile128() || !problem.hasGemm1() || width <= kWholeTokens || many)
    return false;
  ProductTiling tiling(problem, form.gemm1TileM, form.rows);
  bool hasLong = DecodeTiling::countLong(tiling.tiles1, gpu.multiprocessors);
  return hasLong ? tiling.steps1 < kLongSteps
                 : tiling.steps1 < kFewSteps && width > kManyTokens;
}

/// Number of token stages. With few tokens the pipeline can be deeper, which
/// hides more of the latency of L2. With many tokens it takes shared memory
/// from the weights, which can be prefetched into L2 instead. With 128-row
/// tiles, more than 64 tokens need as much shared memory as the weights.
int64_t DecodeSelector::countTokenStages(Form form) const {
  if (form.deferredEpilogue && !many)
    return 5;
  if (form.isTile192() || form.swapAB || many)
    return 4;
  if (width <= 16)
    return 8;
  if (width <= 32)
    return form.isTile256() && problem.hasGemm1() ? 8 : 6;
  if (form.isTile128())
    return width <= kWholeTokens || waitsForBlocks(form) ? 6 : 4;
  return width > kWholeTokens && form.rows == 128 ? 6 : 4;
}

/// `reserved` bytes of shared memory are for other things than stages.
static int64_t countWeightStages(Form form, int64_t tokenBytes,
                                 int64_t tokenStages, int64_t reserved) {
  int64_t stage = form.getStageBytes();
  int64_t room = tile::kMaxSharedBytes - reserved -
                 (tokenStages + form.deferredEpilogue) * tokenBytes;
  return std::min<int64_t>(6 * 256 * 128 / stage, room / stage);
}

/// Number of 16 KB stages in flight per CTA with a 192-row tile. With few
/// tokens it is four, or three with few k-steps; that limit is higher if three
/// stages saturate HBM. With more tokens, CTAs wait longer for each other. A
/// fourth stage then helps with many k-steps if three stages do not saturate
/// HBM. With the most tokens it helps with many k-steps while the bytes in
/// flight exceed saturation only slightly.
int64_t DecodeSelector::countTile192Stages(const DecodeTiling &tiling) const {
  bool isEnough = tiling.tiles1 * 3 * 128 * 128 >= kSaturatingBytes;
  if (width <= kHalfTokens)
    return tiling.steps1 < (isEnough ? kFewSteps : kLeastSteps) ? 3 : 4;
  if (width <= kWholeTokens)
    return !isEnough && tiling.steps1 >= kLongSteps ? 4 : 3;
  bool isMuch = 2 * tiling.tiles1 * 4 * 128 * 128 > 3 * kSaturatingBytes;
  return tiling.steps1 > kLongSteps && !isMuch ? 4 : 3;
}

/// Number of stages in flight per CTA with a 128-row tile. With one more stage,
/// CTAs with a tile saturate HBM alone, and the others wait with their weights.
/// A release then waits for more loads, which costs time when there are fewer
/// bytes to read.
int64_t DecodeSelector::countTile128Stages(const DecodeTiling &tiling) const {
  int64_t step = tiling.tiles1 * 128 * 128;
  int64_t most = problem.isF8() ? kHalfTokens : kWholeTokens;
  bool gains = width <= most && tiling.getUnits() > tiling.tiles1 &&
               3 * step < kBusyShare * kSaturatingBytes &&
               4 * step >= kSaturatingBytes;
  return gains ? 4 : 3;
}

int64_t DecodeSelector::countSwapABStages(const DecodeTiling &tiling) const {
  int64_t bytes = 2 * tiling.tiles1 * tiling.gemm1TileM * 128;
  if (!problem.isF8() && width <= kManyTokens && bytes < kSwapABBytes)
    return 3;
  // A release then has only one stage in flight, so that a third stage is
  // faster with fewer k-steps.
  int64_t most = publishesWithOneInFlight(tiling) ? kFewSteps : kSwapABSteps;
  bool isShort = tiling.steps1 <= most && tiling.gemm1TileM > 64;
  return isShort || tiling.steps1 <= kFewestSteps ? 2 : 3;
}

/// Maximum number of stages in flight per block. Two stages of 256-row tiles,
/// or as many bytes, saturate HBM, even if only some blocks have GEMM1 tiles.
int64_t DecodeSelector::countInFlight(Form form,
                                      const DecodeTiling &tiling) const {
  if (form.deferredEpilogue)
    return std::clamp<int64_t>(
        llvm::divideCeil(3 * gpu.multiprocessors - 12, tiling.tilesPerPart), 3,
        6);
  if (form.isTile192())
    return countTile192Stages(tiling);
  if (form.swapAB)
    return countSwapABStages(tiling);
  if (form.isTile128())
    return waitsForBlocks(form) ? 2 : countTile128Stages(tiling);
  return width > kWholeTokens && leavesIdle(problem, tiling, gpu) ? 3 : 2;
}

/// Grid sizes to try: the fewest blocks that finish GEMM1 in the same number of
/// rounds. Their shares are equal, and barriers have fewer arrivals.
SmallVector<int64_t, 2>
DecodeSelector::listGrids(Form form, const DecodeTiling &tiling) const {
  if ((form.isTile192() && width > kWholeTokens) || waitsForBlocks(form))
    return {gpu.multiprocessors};
  int64_t rounds = std::max<int64_t>(
      1, llvm::divideCeil(tiling.tiles1, gpu.multiprocessors));
  int64_t blocks = std::max<int64_t>(tiling.getUnits(),
                                     llvm::divideCeil(tiling.tiles1, rounds));
  // If some blocks normalized a second token row, all blocks would wait for
  // them.
  if (width > kWholeTokens && problem.hasGemm1() && !many &&
      !form.deferredEpilogue && rounds == 1)
    blocks = std::max(blocks, std::min(width, gpu.multiprocessors));
  if (form.swapAB)
    blocks =
        rounds > 1
            ? gpu.multiprocessors
            : std::max(blocks, std::min(kMaxWholeTokens, gpu.multiprocessors));
  // With unequal shares, or with equal ones that leave many multiprocessors
  // idle, a grid of all multiprocessors may be faster.
  if (rounds > 1 && width <= kWholeTokens && blocks < gpu.multiprocessors)
    return {blocks, gpu.multiprocessors};
  return {blocks};
}

/// Stages of weights that fit beside those of tokens.
int64_t DecodeSelector::countStages(const Draft &draft,
                                    int64_t reserved) const {
  return countWeightStages(draft.form,
                           getTokenStageBytes(problem, draft.tokens),
                           draft.tokenStages, reserved);
}

/// A draft for all multiprocessors, with the depths of its pipelines.
Draft DecodeSelector::makeDraft(Form form, int64_t splitK) const {
  Draft draft;
  draft.form = form;
  draft.tokens = getTokenTile(width, form.gemm1TileM);
  draft.blocks = gpu.multiprocessors;
  draft.splitK = splitK;
  draft.tokenStages = countTokenStages(form);
  draft.weightStages = countStages(draft, kReservedBytes);
  draft.maxInFlight = 2;
  // The exact contract does not permit rounded partial sums, and a result in
  // f32 would have no other rounding.
  bool rounds = problem.rounding.getMode() == RoundingMode::Relaxed &&
                width > kExactTokens && !problem.hasPartials();
  MLIRContext *context = problem.op->getContext();
  draft.partials = rounds ? Type(BFloat16Type::get(context))
                          : Type(Float32Type::get(context));
  draft.taggedPartials = !rounds && !many;
  draft.smemEpilogue = form.deferredEpilogue || form.isTile192();
  return draft;
}

/// Whether the form is useful with `splitK` K-slices.
bool DecodeSelector::isPossible(const Draft &draft,
                                const DecodeTiling &tiling) const {
  // A split with empty K-slices is a duplicate of a smaller split.
  if (tiling.slices != draft.splitK || tiling.getUnits() > gpu.multiprocessors)
    return false;
  // If there are too few blocks, a deferred epilogue would read the tokens
  // twice.
  if (draft.form.deferredEpilogue && !many && leavesIdle(problem, tiling, gpu))
    return false;
  // Without the smem epilogue, a thread would store only one or two bytes at
  // once.
  return draft.form.isTile256() || draft.form.swapAB || !problem.hasGemm1() ||
         draft.smemEpilogue;
}

void DecodeSelector::consider(Form form, int64_t splitK) {
  Draft draft = makeDraft(form, splitK);
  DecodeTiling tiling(problem, draft.get());
  int64_t hiddenStages = tiling.getHiddenStages();
  draft.smemEpilogue =
      hiddenStages > 0 && !form.swapAB && !problem.hasTokenScales() &&
      hiddenStages <= std::min(draft.tokenStages, tiling.steps1);
  if (!isPossible(draft, tiling))
    return;
  draft.maxInFlight = std::min(countInFlight(form, tiling), draft.weightStages);
  int64_t weightStages = draft.weightStages;
  for (int64_t blocks : listGrids(form, tiling)) {
    draft.blocks = blocks;
    if (problem.quant)
      draft.weightStages =
          std::min(weightStages,
                   countStages(draft, kReservedBytes +
                                          getScaleScratchBytes(problem, tiling,
                                                               draft.get())));
    tile::ScheduleAttr schedule = draft.get();
    if (getScheduleProblem(problem, schedule).empty())
      candidates.push_back({draft, estimateDecode(problem, schedule, gpu)});
  }
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// Ratio of a candidate's estimate to the best one so far, below which the
/// candidate is selected. It corrects forms that the model estimates too low.
static double getMargin(Form best, Form form) {
  if (best.isTile256() && form.isTile128())
    return 1 - kTile128Margin;
  if (best.deferredEpilogue && form.isTile192())
    return 1 - kTile192Margin;
  if (best.isTile192() && form.deferredEpilogue)
    return 1 + kTile192Margin;
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
    // With few tokens, the estimate does not model the gain of 192-row tiles.
    if (form.isTile192() && width <= kWholeTokens)
      continue;
    if (!best ||
        candidate.time < best->time * getMargin(best->draft.form, form))
      best = &candidate;
  }
  return best ? best : findFastest([](Form form) { return true; });
}

/// Whether 192-row tiles finish before 128-row tiles of which some CTAs have
/// two. The other CTAs wait for those with two. The wait grows with the number
/// of such CTAs and with the tokens, and shrinks with the k-steps. Dense MLPs
/// gain only in bf16.
bool DecodeSelector::losesToTile192(const Candidate &half) const {
  DecodeTiling tiling(problem, half.draft.get());
  if (!problem.isGated())
    return false;
  return kBlocksPerLong * tiling.longBlocks > half.draft.blocks ||
         tiling.steps1 < kLeastSteps ||
         width > (problem.isF8() ? kHalfTokens : kHiddenTokens);
}

/// For few tokens, returns another form if a few blocks have an extra tile.
const Candidate *DecodeSelector::evenOut(const Candidate *best) const {
  DecodeTiling tiling(problem, best->draft.get());
  if (tiling.longBlocks == 0 || width > kWholeTokens)
    return best;
  // A block's second 256-row tile takes as long as two 128-row tiles, and its
  // activation is not hidden.
  const Candidate *half =
      findFastest([](Form form) { return form.isTile128(); });
  if (best->draft.form.isTile256() && half && width > kHalfTokens &&
      half->time < best->time * (1 + kEvenMargin))
    return half;
  if (!best->draft.form.isTile128())
    return best;
  // With few k-steps, blocks with two 128-row tiles wait for the norm and then
  // for each other.
  const Candidate *whole =
      findFastest([](Form form) { return form.isTile256(); });
  bool gains = whole && tiling.steps1 <= kShortSteps &&
               5 * tiling.longBlocks > best->draft.blocks;
  const Candidate *tile192 =
      findFastest([](Form form) { return form.isTile192(); });
  if (tile192 && losesToTile192(*best) &&
      !(gains && tiling.steps1 <= kUnrolledSteps))
    return tile192;
  return gains ? whole : best;
}

//===----------------------------------------------------------------------===//
// Adjustments after the selection
//===----------------------------------------------------------------------===//

/// Number of GEMM2 stages that are held back while hidden units are published.
/// The releases then wait for fewer loads.
int64_t DecodeSelector::countThrottledStages(const Draft &draft,
                                             const DecodeTiling &tiling) const {
  if (!problem.hasGemm1() || draft.form.deferredEpilogue || many)
    return 0;
  // 256-row tiles, if GEMM2 waits for hidden units: the rest of a block's
  // weights is then in its pipeline or in flight. Blocks without tiles would
  // leave HBM idle. With few tokens, sums arrive before weights.
  int64_t stages = tiling.stepsPerSlice / tiling.getStepsPerStage();
  if (draft.form.isTile256())
    return draft.tokens > kFewTokens && draft.maxInFlight == 2 &&
                   tiling.gemm1Blocks == draft.blocks &&
                   stages <= draft.weightStages + draft.maxInFlight
               ? kThrottledStages + (draft.tokens > 2 * kFewTokens)
               : 0;
  if (draft.form.isTile192() && draft.tokens <= kHalfTokens)
    return kThrottledStages;
  if (draft.tokens <= kWholeTokens)
    return 0;
  if (draft.form.isTile192())
    return draft.maxInFlight == 3 ? kTile192Throttled : 0;
  if (draft.form.swapAB)
    return draft.maxInFlight == 3 || tiling.steps1 <= kSwapABThrottledSteps
               ? kSwapABThrottled
               : kSwapABLessThrottled;
  // A short unit of 128-row tiles is then completely in the pipeline.
  return draft.maxInFlight == 2 && tiling.stepsPerSlice >= kThrottledSteps
             ? kTile128Throttled
             : 0;
}

/// Whether a CTA drains to one stage in flight instead of two before it
/// publishes hidden units. The publication then takes half of the time. With
/// few tokens it takes less anyway. With many k-steps CTAs wait for HBM, which
/// would be idle meanwhile; this holds for 128-row tiles with any number of
/// tokens.
bool DecodeSelector::publishesWithOneInFlight(
    const DecodeTiling &tiling) const {
  if (!tiling.swapAB)
    return false;
  if (tiling.steps1 <= kLongSteps)
    return width > kFewUnthrottledTokens;
  return width > kUnthrottledTokens && tiling.gemm1TileM != 128;
}

/// Whether straggling CTAs have one more stage in flight. With few k-steps CTAs
/// do not drift apart. With more tokens CTAs wait for hidden units and sums,
/// and those wait for the loads in flight.
bool DecodeSelector::limitsStragglers(const Draft &draft,
                                      const DecodeTiling &tiling) const {
  return problem.hasGemm1() && draft.form.isTile256() &&
         draft.tokens <= kFewTokens && draft.maxInFlight < draft.weightStages &&
         tiling.steps1 >= kLongSteps && tiling.sharesGemm1Evenly();
}

/// Selects fewer reducers if that is faster. CTAs that do not reduce exit
/// early, so that CTAs of the next launch start there. Each reducer reads twice
/// the partial sums. With many tokens that costs more than it gains. With
/// 128-row tiles, whose launches are short, this limit is lower.
void DecodeSelector::selectReducers(Draft &draft,
                                    const DecodeTiling &tiling) const {
  int64_t most = draft.form.isTile256() ? kWholeTokens : kHalfTokens;
  if (!problem.hasGemm1() || draft.tokens > most ||
      tiling.fewReducers >= tiling.slices)
    return;
  draft.reducers = tiling.fewReducers;
  // A few idle CTAs, spread evenly over the grid, double the gain of half of
  // the reducers in chains of launches. Other numbers of reducers, or idle CTAs
  // at the end of the grid, do not. With few tokens the sums take too little
  // time.
  bool isEven = draft.form.isTile256() && tiling.tiles1 == draft.blocks &&
                tiling.getUnits() == draft.blocks;
  int64_t idle = gpu.multiprocessors - draft.blocks;
  if (isEven && draft.tokens > 2 * kFewTokens && idle > 0 &&
      idle <= draft.blocks / kBusyPerIdle) {
    draft.blocks += idle;
    draft.reducers = tiling.halfReducers;
  }
}

/// Rounds the number of token stages to a power of two where the producer warps
/// would spill. It rounds up, or down with many tokens, which leaves shared
/// memory for weights.
void DecodeSelector::keepRegisters(Draft &draft,
                                   const DecodeTiling &tiling) const {
  bool isRagged = tiling.longBlocks > 0 || tiling.delaysGemm2Only(draft.get());
  if (!draft.form.isTile128() || !isRagged || tiling.steps1 > kUnrolledSteps ||
      many)
    return;
  draft.tokenStages = draft.tokens > kWholeTokens
                          ? llvm::bit_floor(uint64_t(draft.tokenStages))
                          : llvm::PowerOf2Ceil(draft.tokenStages);
  draft.weightStages = countStages(draft, kReservedBytes);
}

tile::ScheduleAttr DecodeSelector::refine(Draft draft) const {
  DecodeTiling tiling(problem, draft.get());
  draft.publishThrottleStages = countThrottledStages(draft, tiling);
  if (draft.maxInFlight == 3 && publishesWithOneInFlight(tiling)) {
    draft.publishThrottleStages =
        kSwapABLessThrottled + (tiling.steps1 <= kThrottledMoreSteps);
    draft.publishInFlight = 1;
  }
  if (limitsStragglers(draft, tiling))
    draft.stragglerInFlight = draft.maxInFlight + 1;
  keepRegisters(draft, tiling);
  selectReducers(draft, tiling);
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
