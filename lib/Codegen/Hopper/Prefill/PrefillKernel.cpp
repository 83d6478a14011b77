//===- PrefillKernel.cpp - Prefill kernels: arguments, frame, copies ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One launch for [residual add] [norm] [quantize]. A second launch computes
// GEMM1, activation, [quantize], GEMM2 and [residual add], or each product has
// its own launch. Tokens are the left operand of the products. Weights are the
// right operand, packed as for the decode kernel. The kernel is persistent:
// each CTA loops over tiles with these roles:
//
//   warp 0       fills the pipeline: each stage holds one k-step of a token
//                tile and of a weight tile;
//   warp 1       signals stored hidden units to other CTAs if both products
//                share a launch. In clusters of two CTAs, warps 0 and 1
//                exchange these roles;
//   warps 2, 3   normalize the tokens of later groups if the norm kernel leaves
//                them to this launch;
//   warps 4-11   two consumer warpgroups with 64 tokens each: products and
//                epilogues. The activation of a tile overlaps with the first
//                k-steps of the next tile.
//
//===----------------------------------------------------------------------===//

#include "PrefillKernelBuilder.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// k-steps of weights that are prefetched into L2, and the token tiles that
/// must share them: with fewer, HBM is busy with more urgent loads (H200).
static constexpr int64_t kAhead = 8, kSharers = 5;

/// Stages whose weights are requested before the first activations arrive. An
/// SM gets its loads in order, and weights of all stages would delay the first
/// activations (H200).
static constexpr int64_t kEarly = 2;

/// Warps that have nothing else to do, and the named barrier of theirs.
static constexpr NormBuilder::CtaGroup kIdleCtaGroup = {2, kCopyWarps,
                                                        kMathBarrier + 1};

static NormBuilder::CtaGroup getCtaGroup(const PrefillTiling &tiling,
                                         bool isNorm) {
  if (isNorm)
    return {0, tiling.normThreads / 32, kMathBarrier};
  return {kCopyWarps, kCopyWarps + kMathWarps, kMathBarrier};
}

PrefillKernelBuilder::PrefillKernelBuilder(const MlpProblem &problem,
                                           PrefillScheduleAttr schedule,
                                           const PrefillTiling &tiling,
                                           Part part, OpBuilder &builder)
    : ProductBuilder(problem, getCtaGroup(tiling, part == Part::Norm), builder),
      schedule(schedule), tiling(tiling), part(part),
      elementBytes(problem.getElementBytes()), phase(&gemm2) {
  gemm1.product = tiling.gemm1;
  gemm2.product = tiling.gemm2;
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

namespace {

/// All kernels of an op see the same workspace, so its layout does not depend
/// on the part.
struct Workspace {
  int64_t semaphores, zeroed, ready, input, hidden, partials, end;
};

} // namespace

/// Semaphores on which GEMM1 signals stored hidden units to GEMM2 if both share
/// a launch.
static int64_t countTileSemaphores(PrefillScheduleAttr schedule,
                                   const PrefillTiling &tiling) {
  if (schedule.getLaunches() != 1)
    return 0;
  return tiling.gemm1.getTokenTiles(schedule.getTokens()) *
         tiling.semaphoresPerTile;
}

/// The same, and the semaphores on which a warp of a stream-K GEMM2 signals
/// that its partial sums are stored.
static int64_t countReady(PrefillScheduleAttr schedule,
                          const PrefillTiling &tiling) {
  return countTileSemaphores(schedule, tiling) +
         (tiling.gemm2.isStreamK ? schedule.getBlocks() * kMathWarps : 0) +
         (tiling.preparedTiles ? 1 : 0);
}

static Workspace getWorkspace(const MlpProblem &problem,
                              PrefillScheduleAttr schedule,
                              const PrefillTiling &tiling) {
  WorkspaceLayout layout;
  Workspace w;
  // Semaphores come first: they are the part that must be zero before the first
  // launch. Each warp of a tile has one, after the line of the ticket.
  const PrefillProduct &gemm2 = tiling.gemm2;
  int64_t units = gemm2.slices > 1 ? gemm2.getUnits(schedule.getTokens()) : 0;
  int64_t semaphores = units / gemm2.slices * kMathWarps;
  w.semaphores = layout.reserve(units ? (1 + semaphores) * 128 : 0);
  w.zeroed = layout.getEnd();
  int64_t ready = countReady(schedule, tiling);
  w.ready = layout.reserve(ready ? (1 + ready) * 128 : 0);
  // With stream-K, each CTA has at most one tile that other CTAs finish.
  if (gemm2.isStreamK)
    units = schedule.getBlocks();
  w.partials = layout.reserve(units * kTokenTile * gemm2.rows *
                              static_cast<int64_t>(sizeof(float)));
  // Buffers with token rows come last, so that a workspace may have fewer rows
  // than the maximum.
  int64_t rowBytes = schedule.getTokens() * tiling.bytes;
  w.input = layout.reserve(rowBytes * problem.width);
  w.hidden = layout.reserve(rowBytes * problem.hidden);
  w.end = layout.getEnd();
  return w;
}

void PrefillKernelBuilder::addArguments() {
  Workspace w = getWorkspace(problem, schedule, tiling);
  if (isNorm()) {
    addWorkspace(input, element, w.input);
    addNormOperands();
    addNormResults();
    if (isJoint())
      addWorkspace(ready, builder.getI32Type(), w.ready);
    addTokens(count);
    if (problem.isF8())
      addQuantizer(inputScale, ScaleKind::Input, problem.scales);
    return;
  }
  if (hasGemm1()) {
    addTokenMap(gemm1.tokenMap, w.input, schedule.getTokens(), problem.width,
                kTokenTile);
    addGemm1Weights(gemm1.weights, tiling.tiles1, tiling.steps1);
    addHiddenBiases();
    addWorkspace(hidden, element, w.hidden);
  }
  if (preparesRest()) {
    addWorkspace(input, element, w.input);
    addNormOperands();
    addNormResults();
  }
  if (hasGemm2()) {
    addTokenMap(gemm2.tokenMap, problem.hasGemm1() ? w.hidden : w.input,
                schedule.getTokens(), problem.getReduction(), kTokenTile);
    addGemm2Weights(gemm2.weights, tiling.packedTiles2, tiling.steps2);
    if (problem.addStream && !preparesRest()) {
      addOperand(x, problem.x);
      addOperand(residual, problem.residual);
    }
    addOutputOperands();
    if (gemm2.product.slices > 1)
      addWorkspace(semaphores, builder.getI32Type(), w.semaphores);
    if (gemm2.product.slices > 1 || gemm2.product.isStreamK)
      addWorkspace(partials, f32, w.partials);
  }
  if (isJoint())
    addWorkspace(ready, builder.getI32Type(), w.ready);
  addTokens(count);
  if (preparesRest() && problem.isF8())
    addQuantizer(inputScale, ScaleKind::Input, problem.scales);
  if (hasGemm1())
    addHiddenScalars();
  if (hasGemm2())
    addOutputScalars();
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

/// `lhs` over or modulo a value that is not a constant.
static Value divide(IndexBuilder &i, Value lhs, Value rhs) {
  return arith::DivUIOp::create(i.builder, i.loc, lhs, rhs);
}

/// Token tiles of a launch, rounded up to whole clusters.
Value PrefillKernelBuilder::countTokenTiles(int64_t unit) {
  int64_t tokens = kTokenTile * schedule.getCluster();
  return mul(div(add(count, tokens - 1), tokens), schedule.getCluster() / unit);
}

/// Each role counts the units when it comes to them: registers are short.
void PrefillKernelBuilder::enter(Phase &next) {
  phase = &next;
  if (product().isStreamK) {
    reloadAssignment();
    phase->tokenTiles = countTokenTiles();
    phase->firstUnit = constant(0);
    phase->units = assignment.fragments;
    return;
  }
  Value block = id(IdKind::Block);
  phase->tokenTiles = countTokenTiles(schedule.getCluster());
  phase->units = mul(phase->tokenTiles, product().tiles * product().slices);
  phase->firstUnit = div(block, schedule.getCluster());
  // CTAs with an extra GEMM1 tile have one unit of GEMM2 less.
  if (part == Part::Both && phase == &gemm2)
    phase->firstUnit = sub(constant(getStride() - 1), phase->firstUnit);
}

/// Position of a unit. Token tiles of a group vary fastest, then weight tiles,
/// then groups, so that concurrent CTAs share few tokens and few weights. A
/// cluster has one unit with neighboring token tiles.
PrefillKernelBuilder::Unit PrefillKernelBuilder::locate(Value unit) {
  if (product().isStreamK)
    return locateFragment(unit);
  Unit result;
  if (product().isUnevenSplitK) {
    auto slice = assignKSlices().locate(unit);
    result.unevenSplitK = slice;
    result.tokenTile = slice.tokenTile;
    result.tile = slice.tile;
    result.slice = slice.slice;
    result.index = slice.index;
    result.leads = equal(slice.tokenTile, 0);
    return result;
  }
  const PrefillProduct &product = this->product();
  Value tokenTiles = phase->tokenTiles;
  result.slice = product.slices > 1 ? rem(unit, product.slices) : Value();
  Value index = div(unit, product.slices);
  if (product.getTokenTiles(schedule.getTokens()) / schedule.getCluster() <=
      schedule.getGroup()) {
    result.tile = divide(*this, index, tokenTiles);
    result.tokenTile = arith::RemUIOp::create(builder, loc, index, tokenTiles);
    result.leads = equal(result.tokenTile, 0);
  } else {
    int64_t perGroup = schedule.getGroup() * product.tiles;
    Value first = mul(div(index, perGroup), schedule.getGroup());
    Value rest = rem(index, perGroup);
    Value width = min(sub(tokenTiles, first), constant(schedule.getGroup()));
    result.tile = divide(*this, rest, width);
    Value inGroup = arith::RemUIOp::create(builder, loc, rest, width);
    result.tokenTile = add(first, inGroup);
    result.leads = equal(inGroup, 0);
  }
  result.index = index;
  if (rank) {
    result.tokenTile = add(mul(result.tokenTile, schedule.getCluster()), rank);
    result.index = add(mul(index, schedule.getCluster()), rank);
  }
  return result;
}

Value PrefillKernelBuilder::getSteps(const Unit &unit) {
  if (unit.steps)
    return unit.steps;
  if (unit.unevenSplitK)
    return assignKSlices().getSteps(*unit.unevenSplitK);
  if (product().steps % product().slices == 0)
    return constant(product().stepsPerSlice);
  Value more =
      sub(constant(product().steps + product().slices - 1), unit.slice);
  return div(more, product().slices);
}

Value PrefillKernelBuilder::getStep(const Unit &unit, Value index) {
  if (unit.steps)
    return getFragmentStep(unit, index);
  if (unit.unevenSplitK)
    return assignKSlices().getStep(*unit.unevenSplitK, index);
  return unit.slice ? add(mul(index, product().slices), unit.slice) : index;
}

PrefillKernelBuilder::Values
PrefillKernelBuilder::visitUnits(Value from, ValueRange carried,
                                 function_ref<Values(Value, ValueRange)> body) {
  return loop(from, phase->units, getStride(), carried, body);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Where the weights of a k-step lie.
Value PrefillKernelBuilder::getWeights(const Unit &unit, Value step) {
  int64_t tilesPerStep = product().packedTiles * (256 / product().rows);
  Value at = add(mul(getStep(unit, step), tilesPerStep), unit.tile);
  return scale(at, product().rows * 128);
}

/// The weights of a k-step; blocks of a cluster fetch equal parts for all.
void PrefillKernelBuilder::copyWeights(const Unit &unit, Value step,
                                       Value stage) {
  int64_t part = product().rows * 128 / schedule.getCluster();
  Value offset = getWeights(unit, step);
  // Few token tiles want a tile of weights at about the same time, and never
  // again: it need not drive anything else out of L2.
  CachePolicy policy = product().getTokenTiles(schedule.getTokens()) < kSharers
                           ? CachePolicy::EvictFirst
                           : CachePolicy::Normal;
  auto copy = [&](int64_t index, IntegerAttr multicast) {
    Value source = offset;
    if (index > 0)
      source = arith::AddIOp::create(
          builder, loc, offset,
          arith::ConstantOp::create(builder, loc,
                                    builder.getI64IntegerAttr(index * part)));
    CopyOp::create(builder, loc, phase->weights, source, stage, /*piece=*/{},
                   builder.getI64IntegerAttr(kTokenTile * 128 + index * part),
                   builder.getI64IntegerAttr(part), multicast, policy);
  };
  if (!rank)
    return copy(0, {});
  IntegerAttr both = builder.getI64IntegerAttr(3);
  either(equal(rank, 0), [&] { copy(0, both); }, [&] { copy(1, both); });
}

void PrefillKernelBuilder::copyTokens(const Unit &unit, Value step,
                                      Value stage) {
  CopyTensorOp::create(builder, loc, phase->tokenMap,
                       mul(getStep(unit, step), 128 / elementBytes),
                       mul(unit.tokenTile, kTokenTile), stage,
                       CachePolicy::Normal);
}

/// Prefetches weights into L2 some k-steps before their copy. The depth of the
/// pipeline covers only the latency of L2, not of HBM. Of the CTAs that share a
/// weight tile, the one with the first token tile issues the prefetch.
void PrefillKernelBuilder::fetch(const Unit &unit, Value condition,
                                 Value step) {
  if (product().getTokenTiles(schedule.getTokens()) < kSharers)
    return;
  Value leads = rank ? both(unit.leads, equal(rank, 0)) : unit.leads;
  when(both(leads, condition), [&] {
    PrefetchOp::create(builder, loc, phase->weights, getWeights(unit, step),
                       product().rows * 128);
  });
}

void PrefillKernelBuilder::stream() {
  enter(hasGemm1() ? gemm1 : gemm2);
  streamAhead();
  // A block without units has used no stage.
  int64_t ahead = countEarly();
  Value use = select(less(phase->firstUnit, phase->units), constant(ahead),
                     constant(0));
  use = streamUnits(use, constant(ahead), /*waits=*/false);
  if (part != Part::Both)
    return;
  enter(gemm2);
  streamUnits(use, constant(0), /*waits=*/true);
}

int64_t PrefillKernelBuilder::countEarly() const {
  return std::min({schedule.getStages(), product().getLeastSteps(), kEarly});
}

/// The first stages. Their weights do not depend on the kernel before.
void PrefillKernelBuilder::streamAhead() {
  int64_t least = product().getLeastSteps(), ahead = countEarly();
  when(less(phase->firstUnit, phase->units), [&] {
    Unit unit = locate(phase->firstUnit);
    Values stages;
    for (int64_t step = 0; step < ahead; ++step) {
      stages.push_back(RingAcquireOp::create(builder, loc, stageType(), ring,
                                             constant(step)));
      copyWeights(unit, constant(step), stages.back());
    }
    depend();
    awaitPrepared(unit);
    // Tokens were written by ordinary stores.
    FenceAsyncOp::create(builder, loc, /*shared=*/false);
    for (int64_t step = 0; step < ahead; ++step)
      copyTokens(unit, constant(step), stages[step]);
    // What follows has time.
    for (int64_t step = ahead; step < std::min(ahead + kAhead, least); ++step)
      fetch(unit, Value(), constant(step));
  });
  // A block without units of GEMM1 may have one of GEMM2.
  if (part == Part::Both)
    depend();
}

/// All k-steps but the first `done` ones of the first unit. Returns the next
/// use of the ring.
Value PrefillKernelBuilder::streamUnits(Value use, Value done, bool waits) {
  auto visit = [&](Value index, ValueRange carried) -> Values {
    Unit unit = locate(index);
    if (!waits)
      awaitPrepared(unit);
    Value after = add(index, getStride());
    // With uneven split-K, a CTA has only one K-slice, and locating it needs
    // registers.
    bool isOnly = product().isUnevenSplitK;
    Unit next = isOnly ? unit : locate(after);
    Value steps = getSteps(unit), exists = less(after, phase->units);
    // Carried: the use, and the semaphore that is known to be complete.
    auto copyStep = [&](Value step, ValueRange carried) -> Values {
      Value semaphore = carried[1];
      Value stage =
          RingAcquireOp::create(builder, loc, stageType(), ring, carried[0]);
      copyWeights(unit, step, stage);
      if (waits) {
        semaphore = div(getStep(unit, step), tiling.stepsPerSemaphore);
        awaitReady(unit, semaphore, carried[1]);
      }
      copyTokens(unit, step, stage);
      Value later = add(step, kAhead);
      fetch(unit, less(later, steps), later);
      if (isOnly)
        return {add(carried[0], 1), semaphore};
      // Only then there is a next step.
      later = sub(later, steps);
      Value most = constant(std::min(kAhead, product().getLeastSteps()));
      fetch(next, both(exists, less(later, most)), later);
      return {add(carried[0], 1), semaphore};
    };
    Value none = constant(-1);
    Value use = loop(carried[1], steps, 1, {carried[0], none}, copyStep)[0];
    return {use, constant(0)};
  };
  return visitUnits(phase->firstUnit, {use, done}, visit)[0];
}

//===----------------------------------------------------------------------===//
// Hidden units that are ready
//===----------------------------------------------------------------------===//

/// Number of tiles whose hidden units may be stored but not yet published.
static constexpr int64_t kUnpublishedTiles = 2;

/// Tells other blocks of each tile of GEMM1 when all math warps
/// have stored their hidden units.
void PrefillKernelBuilder::announceAll() {
  enter(gemm1);
  auto acquire = [&](Value ordinal) {
    RingAcquireOp::create(builder, loc, publishStageType(), publishRing,
                          ordinal);
  };
  for (int64_t ordinal = 0; ordinal < kUnpublishedTiles; ++ordinal)
    acquire(constant(ordinal));
  visitUnits(phase->firstUnit, constant(kUnpublishedTiles),
             [&](Value index, ValueRange carried) -> Values {
               acquire(carried[0]);
               Unit unit = locate(index);
               Value semaphore = div(unit.tile, tiling.tilesPerSemaphore);
               SemaphoreArriveOp::create(builder, loc,
                                         getReady(unit.tokenTile, semaphore));
               return {add(carried[0], 1)};
             });
}

/// A semaphore counts the tiles of GEMM1 that it covers.
Value PrefillKernelBuilder::getReady(Value tokenTile, Value semaphore) {
  Value index = add(mul(tokenTile, tiling.semaphoresPerTile), semaphore);
  return SemaphoreOp::create(
      builder, loc, SemaphoreType::get(builder.getContext()), ready, index);
}

/// The semaphore of a warp of this place of its block's CTA group.
Value PrefillKernelBuilder::getSlotSemaphore(Value slot) {
  Value index = add(mul(slot, kMathWarps), warpIndex);
  return SemaphoreOp::create(builder, loc,
                             SemaphoreType::get(builder.getContext()), ready,
                             add(index, countTileSemaphores(schedule, tiling)));
}

/// Waits for the hidden units of a k-step unless `known` covers them.
void PrefillKernelBuilder::awaitReady(const Unit &unit, Value semaphore,
                                      Value known) {
  Value isNew = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                      semaphore, known);
  when(isNew, [&] {
    // The last semaphore may cover fewer tiles.
    Value tiles = min(
        constant(tiling.tilesPerSemaphore),
        sub(constant(tiling.tiles1), mul(semaphore, tiling.tilesPerSemaphore)));
    SemaphoreWaitOp::create(builder, loc, getReady(unit.tokenTile, semaphore),
                            constant(0), tiles);
    FenceAsyncOp::create(builder, loc, /*shared=*/false);
  });
}

/// Tells that the warps of all blocks have prepared what the kernel of the norm
/// has not.
Value PrefillKernelBuilder::getPrepared() {
  return SemaphoreOp::create(builder, loc,
                             SemaphoreType::get(builder.getContext()), ready,
                             constant(countReady(schedule, tiling) - 1));
}

/// Waits for the tokens of a unit of a later group.
void PrefillKernelBuilder::awaitPrepared(const Unit &unit) {
  if (!preparesRest())
    return;
  when(less(constant(*tiling.preparedTiles - 1), unit.tokenTile), [&] {
    SemaphoreWaitOp::create(
        builder, loc, getPrepared(), constant(0),
        constant(schedule.getBlocks() *
                 (kIdleCtaGroup.last - kIdleCtaGroup.first)));
    FenceAsyncOp::create(builder, loc, /*shared=*/false);
  });
}

/// Token tiles after those of the first group, by warps that would be idle.
void PrefillKernelBuilder::prepareRest() {
  llvm::SaveAndRestore<CtaGroup> outside(ctaGroup, kIdleCtaGroup);
  llvm::SaveAndRestore<Value> math(
      thread, sub(id(IdKind::Thread), constant(kIdleCtaGroup.first * 32)));
  depend();
  Value from = add(id(IdKind::Block), *tiling.preparedTiles * kTokenTile);
  loop(from, count, schedule.getBlocks(), {},
       [&](Value row, ValueRange) -> Values {
         normalizeRowInPasses(row);
         // The next row's sums reuse the scratch of this one's.
         if (problem.norm)
           barrier();
         return {};
       });
  FenceAsyncOp::create(builder, loc, /*shared=*/false);
  WarpSyncOp::create(builder, loc);
  when(equal(id(IdKind::Lane), 0),
       [&] { SemaphoreArriveOp::create(builder, loc, getPrepared()); });
}

/// The kernel of the norm runs between two launches of the products, so that
/// these need no epochs.
void PrefillKernelBuilder::clearReady() {
  int64_t threads = tiling.normBlocks * tiling.normThreads;
  Value from = add(mul(block, tiling.normThreads), thread);
  loop(from, constant(countReady(schedule, tiling)), threads, {},
       [&](Value index, ValueRange) -> Values {
         // After the line of the ticket.
         store(constant(0), ready, mul(add(index, 1), 128 / 4));
         return {};
       });
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void PrefillKernelBuilder::buildProducts() {
  phase = hasGemm1() ? &gemm1 : &gemm2;
  ring = RingCreateOp::create(
      builder, loc,
      RingType::get(builder.getContext(), schedule.getStages(),
                    product().getStageBytes()),
      /*offset=*/0, /*consumers=*/2 * schedule.getCluster());
  if (part == Part::Both)
    publishRing = RingCreateOp::create(
        builder, loc, RingType::get(builder.getContext(), kUnpublishedTiles, 0),
        /*offset=*/0, /*consumers=*/kMathWarps);
  if (hasGemm1() && activatesLater())
    places = makeScratch(builder.getI32Type(), countPlaces() * kMathWarps);
  if (preparesRest()) {
    llvm::SaveAndRestore<CtaGroup> outside(ctaGroup, kIdleCtaGroup);
    makeNormScratch();
  }
  if (hasGemm2() && gemm2.product.isStreamK) {
    phase = &gemm2;
    assignKSteps();
  }
  if (schedule.getCluster() > 1) {
    ClusterBarrierOp::create(builder, loc);
    rank = id(IdKind::ClusterRank);
  } else {
    BarrierOp::create(builder, loc, builder.getI64IntegerAttr(0),
                      IntegerAttr());
  }
  if (schedule.getDependent())
    GridDependencyOp::create(builder, loc, Dependency::Launch);
  SpecializeOp roles = makeRoles();
  builder.createBlock(&roles.getRoles()[0]);
  // Warps 0, 4 and 8 share one quarter of the SM. In a cluster of two CTAs, the
  // copying warp moves to another quarter. It then does not delay the first
  // warp of each warpgroup, which the products wait for.
  int64_t copier = schedule.getCluster() > 1 ? 32 : 0;
  when(equal(id(IdKind::Thread), copier), [&] { stream(); });
  if (part == Part::Both)
    when(equal(id(IdKind::Thread), 32 - copier), [&] { announceAll(); });
  if (preparesRest())
    when(less(constant(kIdleCtaGroup.first - 1), id(IdKind::Warp)),
         [&] { prepareRest(); });
  builder.createBlock(&roles.getRoles()[1]);
  multiply();
  builder.setInsertionPointAfter(roles);
  // A block stays as long as the other one writes to its shared memory.
  if (schedule.getCluster() > 1)
    ClusterBarrierOp::create(builder, loc);
}

/// Preferred shared memory, in percent of the maximum. An SM must be idle to
/// change its carveout. A norm therefore keeps the carveout of the products
/// that overlap with it. A norm with many threads prefers the L1 cache.
std::optional<int64_t> PrefillKernelBuilder::getCarveout() const {
  constexpr int64_t kFewThreads = 1024;
  if (!isNorm() || !schedule.getDependent() ||
      tiling.normBlocks * tiling.normThreads >
          kFewThreads * schedule.getBlocks())
    return std::nullopt;
  return 100;
}

PlannedKernel PrefillKernelBuilder::build(StringRef name) {
  addArguments();
  int64_t blocks = isNorm() ? tiling.normBlocks : schedule.getBlocks();
  int64_t threads =
      isNorm() ? tiling.normThreads : (kCopyWarps + kMathWarps) * 32;
  phase = hasGemm1() ? &gemm1 : &gemm2;
  int64_t sharedBytes =
      isNorm() ? 0 : schedule.getStages() * product().getStageBytes();
  // K-slices of a tile wait for each other, and GEMM2 waits for GEMM1.
  bool cooperative =
      part == Part::Both || (part == Part::Gemm2 && gemm2.product.slices > 1);
  tile::KernelOp kernel =
      begin(name, blocks, threads, sharedBytes, cooperative);
  Workspace w = getWorkspace(problem, schedule, tiling);
  MLIRContext *context = builder.getContext();
  // Copies are of whole token tiles of a cluster.
  auto makeMatrix = [&](int64_t offset, int64_t columns) -> Attribute {
    return TokenMatrixAttr::get(context, offset, columns * tiling.bytes,
                                kTokenTile * schedule.getCluster());
  };
  SmallVector<Attribute> matrices = {makeMatrix(w.input, problem.width)};
  if (problem.hasGemm1())
    matrices.push_back(makeMatrix(w.hidden, problem.hidden));
  PlanParts parts{schedule.getTokens(),
                  WorkspaceAttr::get(context, w.end, w.zeroed,
                                     builder.getArrayAttr(matrices))};
  parts.sharesWorkspace = !isNorm();
  parts.dependent = schedule.getDependent();
  parts.carveout = getCarveout();
  if (!isNorm() && schedule.getCluster() > 1)
    kernel.setCluster(schedule.getCluster());
  PlanAttr plan = getPlan(kernel, parts);
  if (isNorm()) {
    if (schedule.getDependent())
      GridDependencyOp::create(builder, loc, Dependency::Launch);
    thread = id(IdKind::Thread);
    block = id(IdKind::Block);
    depend();
    if (isJoint())
      clearReady();
    makeNormScratch();
    Value rows = count;
    if (isJoint() && tiling.preparedTiles)
      rows = min(count, constant(*tiling.preparedTiles * kTokenTile));
    normalizeAll(block, rows, blocks);
  } else {
    buildProducts();
  }
  tile::ReturnOp::create(builder, loc);
  return {kernel, plan};
}

SmallVector<PlannedKernel>
fuse::buildPrefillKernels(const MlpProblem &problem,
                          PrefillScheduleAttr schedule, gpu::GPUModuleOp module,
                          function_ref<std::string()> getName) {
  using Part = PrefillKernelBuilder::Part;
  PrefillTiling tiling(problem, schedule);
  SmallVector<Part> parts = {Part::Norm};
  if (schedule.getLaunches() == 1) {
    parts.push_back(Part::Both);
  } else {
    if (problem.hasGemm1())
      parts.push_back(Part::Gemm1);
    parts.push_back(Part::Gemm2);
  }
  SmallVector<PlannedKernel> kernels;
  for (Part part : parts) {
    OpBuilder builder(problem.op->getContext());
    builder.setInsertionPointToEnd(module.getBody());
    kernels.push_back(
        PrefillKernelBuilder(problem, schedule, tiling, part, builder)
            .build(getName()));
  }
  return kernels;
}
