//===- CostModel.cpp - Time of a schedule by roofline ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/CostModel.h"

using namespace mlir;
using namespace fuse;

/// Up to so many tokens, rounding partial sums saves less than looking for
/// exact ones.
static constexpr int64_t kExactTokens = 32;

/// Stages that settle while hidden units are released, with more than so many
/// tokens, and one more with more than as many again.
static constexpr int64_t kSettledStages = 2, kFewTokens = 16;

/// Up to so many k-steps of the first product are unrolled. The copying warps
/// have no registers left then for rings whose stages are no power of two,
/// where they also make blocks wait or tell those with two tiles.
static constexpr int64_t kUnrolledSteps = 11;

/// Up to so many k-steps, more than every fifth block with two half tiles is
/// more than whole ones make up for.
static constexpr int64_t kShortSteps = 20;

/// Bytes on their way that are nearly enough for the memory, as a part of what
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

/// At least so many blocks with work for each that has none.
static constexpr int64_t kBusyPerIdle = 16;

/// k-steps of a unit from which on it is faster to hold some back.
static constexpr int64_t kSettledSteps = 14;

/// k-steps of the first product of which memory has much to bring, and few.
static constexpr int64_t kLongSteps = 32, kFewSteps = 17;

/// Up to so many, half of the ranges add up where tiles are halves.
static constexpr int64_t kHalfTokens = 32;

/// Up to so many, activating whole tiles at once is as fast as deferring half
/// ones.
static constexpr int64_t kWholeTokens = 64;

/// From more than so many on, the last product and the meetings are most of
/// what memory does not hide.
static constexpr int64_t kManyTokens = 96;

/// Tokens up to which activations may be divided by their scale: a division
/// needs registers that wider deferred tiles take.
static constexpr int64_t kDividedTokens = 160;

/// Whether a kernel with deferred tiles gets by with its registers. Those of
/// dense tiles do not, where few k-steps are left for a loop, and are chosen
/// nowhere else.
static bool hasRegisters(const DecodeProblem &problem, int64_t tokens) {
  return problem.isGated() && (tokens <= kDividedTokens || !problem.scales ||
                               problem.scales.getOrder() != QuantOrder::Divide);
}

/// Whether half tiles are too many to be one for each block, and two stages on
/// their way to each block with a whole one too few to keep memory busy.
static bool wantsMore(const DecodeProblem &problem, const DecodeTiling &tiling,
                      const GpuModel &gpu) {
  int64_t whole = llvm::divideCeil(tiling.tiles1 * tiling.firstRows, 256);
  return problem.hasFirst() && 2 * whole > gpu.multiprocessors &&
         whole * 2 * 256 * 128 < kSaturatingBytes;
}

/// Whether blocks with whole tiles, which leave others without any, get more
/// than their share: with many tokens only if three stages are on their way, as
/// there are where tiles are three quarters.
static bool takesMore(const DecodeProblem &problem, tile::ScheduleAttr schedule,
                      const DecodeTiling &tiling, const GpuModel &gpu) {
  if (tiling.hasSingle())
    return true;
  return problem.hasFirst() && schedule.getFirstRows() == 256 &&
         2 * tiling.tiles1 > gpu.multiprocessors &&
         wantsMore(problem, tiling, gpu) ==
             (schedule.getTokens() > kWholeTokens);
}

/// Stages of 16 KB on their way to each block with three quarters of a tile: a
/// fourth pays where there are many k-steps, as long as what memory has to
/// bring at a time is not much more than keeps it busy.
static int64_t countQuarterStages(const DecodeTiling &tiling) {
  bool isMuch = 2 * tiling.tiles1 * 4 * 128 * 128 > 3 * kSaturatingBytes;
  return tiling.steps1 > kLongSteps && !isMuch ? 4 : 3;
}

/// Whether half tiles of many tokens wait for each other more than for the
/// memory, so that less on its way is faster: where some blocks have a tile
/// more than the others, and where there are few k-steps.
static bool isShort(const DecodeProblem &problem, int64_t tokens,
                    const GpuModel &gpu) {
  if (!problem.hasFirst())
    return false;
  ProductTiling tiling(problem, 128, 128);
  bool hasLong = DecodeTiling::countLong(tiling.tiles1, gpu.multiprocessors);
  return hasLong ? tiling.steps1 < kLongSteps
                 : tiling.steps1 < kFewSteps && tokens > kManyTokens;
}

double fuse::estimateDecode(const DecodeProblem &problem,
                            tile::ScheduleAttr schedule, const GpuModel &gpu) {
  DecodeTiling tiling(problem, schedule);
  int64_t blocks = schedule.getBlocks();
  double tokenStage = schedule.getTokens() * 128.0;
  // The tensor cores of a multiprocessor take tokens / 2 cycles for 2 KB of
  // weights, bf16 and f8 alike.
  double weightStage = schedule.getWeightBytes();
  double firstStep = schedule.getFirstRows() * 128.0;
  double cycles = weightStage / 2048.0 * schedule.getTokens() / 2;
  auto timeOf = [&](double bytes, double share) {
    return std::max(bytes / share, bytes / weightStage * cycles / gpu.clock);
  };
  double stage = timeOf(weightStage, gpu.shareRate);
  // The weight stream does not stop between the products, so the kernel lasts
  // as long as device memory needs for all weights, the busiest block for its
  // stages of both products, or L2 for weights and activations.
  int64_t stepsPerStage = tiling.getStepsPerStage();
  int64_t stages1 = tiling.tiles1 * tiling.steps1;
  int64_t steps2 = tiling.tiles2 * tiling.steps2;
  double bytes = stages1 * firstStep + steps2 / stepsPerStage * weightStage;
  // A block with deferred tiles has two, also where there are more blocks.
  int64_t rounds = schedule.getDeferred()
                       ? tiling.parts
                       : llvm::divideCeil(tiling.tiles1, blocks);
  int64_t stages2 = tiling.stepsPerRange / stepsPerStage;
  // What a block takes in grows with what is on its way, as long as memory
  // brings it.
  bool hasThird = schedule.getFirstRows() == 256 &&
                  schedule.getInFlight() == 3 &&
                  schedule.getTokens() > kManyTokens;
  double share = gpu.shareRate;
  if (takesMore(problem, schedule, tiling, gpu)) {
    double onItsWay = schedule.getInFlight() * weightStage / kSaturatingBytes;
    share = std::max(share, std::min(gpu.memoryRate / tiling.firstBlocks,
                                     gpu.memoryRate * onItsWay));
  }
  // Whole tiles of many tokens wait for shared memory, which products read and
  // copies write, an eighth longer than for the tensor cores.
  double firstTime = timeOf(firstStep, share);
  if (hasThird)
    firstTime = std::max(firstTime, 9.0 / 8 * cycles / gpu.clock);
  double busiest = rounds * tiling.steps1 * firstTime + stages2 * stage;
  // Those that have a tile more get twice as much as others, which have the
  // units if they are enough.
  if (tiling.longBlocks > 0) {
    double fast =
        timeOf(weightStage,
               std::clamp(2 * gpu.memoryRate / (blocks + tiling.longBlocks),
                          gpu.shareRate, 2 * gpu.shareRate));
    int64_t more = tiling.longBlocks > tiling.firstUnit ? stages2 : 0;
    busiest = std::max(rounds * tiling.steps1 * fast + more * stage,
                       ((rounds - 1) * tiling.steps1 + stages2) * stage);
  }
  // Whole tiles stop reading while they activate, deferred ones do not, and of
  // half ones some blocks go on.
  bool many = schedule.getTokens() > kMaxWholeTokens;
  bool goesOn = tiling.longBlocks > 0 && schedule.getInFlight() == 2 &&
                schedule.getTokens() > kWholeTokens;
  double rate =
      schedule.getDeferred() || many || goesOn ? gpu.copyRate : gpu.l2Rate;
  double time = std::max({bytes / gpu.memoryRate, busiest,
                          (bytes + (stages1 + steps2) * tokenStage) / rate});
  // Partial sums are written and read once, and blocks meet twice.
  double partial = schedule.getPartials().getIntOrFloatBitWidth() / 8.0;
  double sums = 2.0 * tiling.ranges * tiling.tiles2 * tiling.rows *
                schedule.getTokens() * partial;
  // Blocks meet through a memory that has more on its way with a third stage.
  double meeting = gpu.meeting * (hasThird ? 1.5 : 1);
  // A range waits for the slowest of its tiles, a sum for the slowest of its
  // ranges. The weights of the last product are there before its tokens are,
  // so that they hide only a part of its time on the tensor cores.
  time += gpu.tileWait * tiling.tilesPerRange + gpu.rangeWait * tiling.ranges;
  bool isLate = goesOn && schedule.getTokens() > kManyTokens;
  if (goesOn)
    time += (isLate ? gpu.longWait : gpu.longWait / 2) * tiling.longBlocks;
  if (problem.hasFirst())
    time += (isLate ? gpu.lateExposed : gpu.exposed) * tiling.stepsPerRange /
            tiling.parts / stepsPerStage * cycles / gpu.clock;
  // Activations wait for the last stage of a tile, and the last product for
  // them, unless they are done under what comes next.
  if (!schedule.getDeferred()) {
    // Weights keep memory busy during all but the last; with many tokens it is
    // the tensor cores that stand still.
    time += (many ? rounds : 1) * meeting;
    time += (isLate ? 1 : rounds) * tiling.hiddenPerTile *
            schedule.getTokens() * gpu.activation / gpu.clock;
  }
  if (many)
    time += gpu.row * (llvm::divideCeil(schedule.getTokens(), blocks) - 1);
  // What is on its way to late blocks leaves room for sums, of which the one
  // with most columns is the last to end.
  if (isLate) {
    int64_t columns = schedule.getTokens() / 4;
    int64_t most = llvm::divideCeil(columns, tiling.ranges) * tiling.ranges;
    return time + sums * (columns + most) / (2 * columns) / gpu.copyRate +
           meeting;
  }
  return time + sums / gpu.l2Rate + meeting;
}

/// Whether releases of hidden units wait for less, where it is them that the
/// last product waits for: what a block has left to read then is in its ring or
/// on its way. Blocks without tiles would leave memory idle, and with few
/// tokens sums are there sooner than weights.
static bool settles(const DecodeProblem &problem, tile::ScheduleAttr s,
                    const DecodeTiling &tiling) {
  return problem.hasFirst() && !s.getDeferred() && s.getFirstRows() == 256 &&
         s.getTokens() > kFewTokens && s.getInFlight() == 2 &&
         tiling.firstBlocks == s.getBlocks() &&
         tiling.stepsPerRange / tiling.getStepsPerStage() <=
             s.getWeightStages() + s.getInFlight();
}

/// Whether blocks end that the sums can do without, so that blocks of the next
/// launch begin there. The others have twice as much to read, which takes
/// longer than it gains with many tokens, and with half tiles, whose launches
/// are short, sooner.
static bool sharesSums(const DecodeProblem &problem, tile::ScheduleAttr s,
                       const DecodeTiling &tiling) {
  int64_t most = s.getFirstRows() == 256 ? kWholeTokens : kHalfTokens;
  return problem.hasFirst() && s.getTokens() <= most &&
         tiling.fewAdders < tiling.ranges;
}

/// What the estimate does not see.
static tile::ScheduleAttr refine(const DecodeProblem &problem,
                                 tile::ScheduleAttr s, const GpuModel &gpu) {
  DecodeTiling tiling(problem, s);
  int64_t settle = 0, adders = 0, blocks = s.getBlocks();
  if (settles(problem, s, tiling))
    settle = kSettledStages + (s.getTokens() > 2 * kFewTokens);
  bool wait = problem.hasFirst() && s.getTokens() > kWholeTokens &&
              s.getTokens() <= kMaxWholeTokens && !s.getDeferred();
  // Where a unit has little, it all is in the ring by then.
  if (wait && tiling.hasSingle() && s.getInFlight() == 3)
    settle = kQuarterSettled;
  if (wait && s.getFirstRows() == 128 && s.getInFlight() == 2 &&
      tiling.stepsPerRange >= kSettledSteps)
    settle = kHalfSettled;
  if (sharesSums(problem, s, tiling)) {
    adders = tiling.fewAdders;
    // With a few blocks of no work evenly among the others, half of the ranges
    // gain twice as much in chains; neither do other numbers of them, nor such
    // blocks behind the others. With few tokens sums take too little time.
    bool isEven = s.getFirstRows() == 256 && tiling.tiles1 == blocks &&
                  tiling.getUnits() == blocks;
    int64_t idle = gpu.multiprocessors - blocks;
    if (isEven && s.getTokens() > 2 * kFewTokens && idle > 0 &&
        idle <= blocks / kBusyPerIdle) {
      blocks += idle;
      adders = tiling.halfAdders;
    }
  }
  int64_t tokenStages = s.getTokenStages(), weightStages = s.getWeightStages();
  bool isRagged = tiling.longBlocks > 0 || tiling.waitsLate(s);
  if (s.getFirstRows() == 128 && isRagged && tiling.steps1 <= kUnrolledSteps &&
      s.getTokens() <= kWholeTokens && !s.getDeferred()) {
    tokenStages = llvm::PowerOf2Ceil(tokenStages);
    int64_t room =
        tile::kMaxSharedBytes - 2048 - tokenStages * s.getTokens() * 128;
    weightStages = std::min(weightStages, room / s.getWeightBytes());
  }
  return tile::ScheduleAttr::get(
      s.getContext(), s.getTokens(), blocks, s.getSplit(), s.getFirstRows(),
      s.getRows(), weightStages, tokenStages, s.getInFlight(), s.getAhead(),
      settle, adders, s.getPartials(), s.getPolled(), s.getStaged(),
      s.getDeferred(), s.getHint(), s.getDependent(), s.getLaunches());
}

tile::ScheduleAttr fuse::selectDecode(const DecodeProblem &problem,
                                      int64_t tokens, const GpuModel &gpu,
                                      std::optional<int64_t> onlyRows) {
  MLIRContext *context = problem.op->getContext();
  if (tokens > kMaxDecodeTokens)
    return {};
  int64_t width = llvm::alignTo(tokens, 8);
  bool many = width > kMaxWholeTokens;
  // Rounding partial sums is not in the exact contract.
  bool rounds = problem.rounding.getMode() == RoundingMode::Relaxed &&
                width > kExactTokens;
  Type partials = rounds ? Type(BFloat16Type::get(context))
                         : Type(Float32Type::get(context));
  // Where halves are more than multiprocessors, three quarters may be one for
  // each.
  bool needsQuarters =
      problem.hasFirst() && canDefer(problem) &&
      ProductTiling(problem, 128, 128).tiles1 > gpu.multiprocessors;
  tile::ScheduleAttr best, bestWhole, bestHalf;
  double bestTime = 0, wholeTime = 0, halfTime = 0;
  auto consider = [&](int64_t firstRows, int64_t rows, int64_t split,
                      bool deferred) {
    if (onlyRows && *onlyRows != firstRows)
      return;
    // Few tokens leave room for a deeper ring of them, which hides more of the
    // latency of L2. A wide one takes room from the weights, which can be
    // fetched into L2 instead; of half tiles more than 64 tokens take as much
    // as weights.
    bool whole = firstRows == 256;
    bool few = width <= 16 || (width <= 32 && whole && problem.hasFirst());
    // Warpgroups share the tokens of a quarter.
    bool quarters = firstRows == 192;
    int64_t columns = quarters ? llvm::alignTo(width, 16) : width;
    bool waits = firstRows == 128 && !deferred && !many &&
                 width > kWholeTokens && isShort(problem, width, gpu);
    int64_t tokenStages = few                                     ? 8
                          : width <= 32                           ? 6
                          : waits                                 ? 6
                          : many || quarters                      ? 4
                          : deferred                              ? 5
                          : (width <= 64) == whole || rows == 256 ? 4
                                                                  : 6;
    int64_t stageRows = whole ? 256 : 128;
    int64_t room =
        tile::kMaxSharedBytes - 2048 - (tokenStages + deferred) * columns * 128;
    int64_t weightStages =
        std::min<int64_t>(6 * 256 / stageRows, room / (stageRows * 128));
    auto make = [&](int64_t blocks, bool staged, int64_t inFlight) {
      return tile::ScheduleAttr::get(
          context, columns, blocks, split, firstRows, rows, weightStages,
          tokenStages, std::min(inFlight, weightStages), /*ahead=*/8,
          /*settle=*/0, /*adders=*/0, partials, /*polled=*/!rounds && !many,
          staged, deferred, tile::CachePolicy::EvictFirst, /*dependent=*/true,
          /*launches=*/1);
    };
    int64_t inFlight = whole || waits ? 2 : 3;
    DecodeTiling tiling(
        problem, make(gpu.multiprocessors, deferred || quarters, inFlight));
    if (quarters)
      inFlight = countQuarterStages(tiling);
    // What saturates the memory is on its way to fewer blocks when only some
    // have tiles of the first product. In two parts, those few would read the
    // tokens twice.
    if (width > kWholeTokens && !many && wantsMore(problem, tiling, gpu)) {
      if (deferred)
        return;
      if (whole)
        inFlight = 3;
    }
    // Splits that leave ranges empty are the same as a smaller one.
    int64_t units = tiling.tiles2 * tiling.ranges;
    if (tiling.ranges != split || units > gpu.multiprocessors)
      return;
    if (deferred && !hasRegisters(problem, width))
      return;
    // With a stage more on its way to each block with a half tile, those keep
    // the memory busy alone, and the others wait with their weights. A release
    // waits for more then, which shows where there are fewer bytes to read.
    int64_t step = tiling.tiles1 * stageRows * 128;
    int64_t most = problem.isF8() ? kHalfTokens : kWholeTokens;
    if (!whole && !deferred && width <= most && units > tiling.tiles1 &&
        inFlight * step < kBusyShare * kSaturatingBytes &&
        (inFlight + 1) * step >= kSaturatingBytes)
      ++inFlight;
    // As few blocks as finish the first product in the same number of rounds:
    // equal shares, and fewer to meet.
    int64_t rounds = std::max<int64_t>(
        1, llvm::divideCeil(tiling.tiles1, gpu.multiprocessors));
    int64_t blocks = std::max(
        units, static_cast<int64_t>(llvm::divideCeil(tiling.tiles1, rounds)));
    // A second row of tokens for some blocks would keep all waiting.
    if (quarters || waits)
      blocks = gpu.multiprocessors;
    else if (width > kWholeTokens && problem.hasFirst() && !many && !deferred &&
             rounds == 1)
      blocks = std::max(blocks, std::min(width, gpu.multiprocessors));
    int64_t hiddenStages = tiling.getHiddenStages();
    bool staged = hiddenStages > 0 &&
                  hiddenStages <= std::min(tokenStages, tiling.steps1);
    // A thread's own stores of half a tile would be a byte or two.
    if (!whole && problem.hasFirst() && !staged)
      return;
    if (deferred)
      inFlight = std::clamp<int64_t>(
          llvm::divideCeil(3 * gpu.multiprocessors - 12, tiling.tilesPerPart),
          3, 6);
    // Where shares are not equal, or equal ones leave many multiprocessors
    // without work, all of them may be faster.
    llvm::SmallVector<int64_t, 2> grids = {blocks};
    if (rounds > 1 && width <= kWholeTokens && blocks < gpu.multiprocessors)
      grids.push_back(gpu.multiprocessors);
    for (int64_t grid : grids) {
      tile::ScheduleAttr schedule = make(grid, staged, inFlight);
      if (!getScheduleProblem(problem, schedule).empty())
        continue;
      double time = estimateDecode(problem, schedule, gpu);
      auto &bestOfKind = whole ? bestWhole : bestHalf;
      double &timeOfKind = whole ? wholeTime : halfTime;
      if (!deferred && (!bestOfKind || time < timeOfKind)) {
        bestOfKind = schedule;
        timeOfKind = time;
      }
      bool mixes =
          best && best.getFirstRows() == 256 && firstRows == 128 && !deferred;
      double factor = mixes ? 1 - kHalfMargin : 1;
      if (best && best.getDeferred() && quarters)
        factor = 1 - kQuarterMargin;
      else if (best && best.getFirstRows() == 192 && deferred)
        factor = 1 + kQuarterMargin;
      if (!best || time < bestTime * factor) {
        best = schedule;
        bestTime = time;
      }
    }
  };
  for (int64_t split = 1; split <= gpu.multiprocessors; ++split) {
    if (!many) {
      consider(256, 256, split, /*deferred=*/false);
      consider(256, 128, split, false);
    }
    if (many || problem.hasFirst())
      consider(128, 128, split, false);
    if (width > kWholeTokens && !many && needsQuarters)
      consider(192, 128, split, false);
    // Two tiles for each block read the tokens twice. With few of them that
    // costs as much as it hides.
    if (width > kWholeTokens && width <= tile::kMaxDeferredTokens &&
        canDefer(problem))
      consider(128, 128, split, true);
  }
  if (!best)
    return best;
  DecodeTiling tiling(problem, best);
  if (tiling.longBlocks > 0 && width <= kWholeTokens) {
    // A block's second whole tile takes as long as two halves, which others may
    // have, and its activation shows.
    if (best == bestWhole && bestHalf && width > kHalfTokens &&
        halfTime < bestTime * (1 + kEvenMargin))
      best = bestHalf;
    // Two half tiles of few k-steps wait for the norm, and then for each other.
    else if (best == bestHalf && bestWhole && tiling.steps1 <= kShortSteps &&
             5 * tiling.longBlocks > best.getBlocks())
      best = bestWhole;
  }
  return refine(problem, best, gpu);
}
