//===- DecodeKernel.cpp - Decode kernels: arguments and frame -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One persistent launch: [residual add] [norm] [quantize], GEMM1, activation,
// [quantize], GEMM2 [residual add]. Weights are the left operand of every
// product and tokens the right one, so few tokens do not waste rows of a tile.
// `fuse.norm_linear` and `fuse.fused_linear` use the same kernel without GEMM1.
//
//   warp 0       streams weights across phase boundaries: the weights of GEMM2
//                are in flight before the hidden units exist;
//   warp 1       streams tokens. It is the only producer warp that waits for
//                the semaphores between CTAs;
//   warps 4-11   two consumer warpgroups: norm, products, epilogues and
//                split-K reduction.
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

DecodeKernelBuilder::DecodeKernelBuilder(const MlpProblem &problem,
                                         ScheduleAttr schedule,
                                         OpBuilder &builder)
    : ProductBuilder(problem,
                     {kCopyWarps, kCopyWarps + kMathWarps, kMathBarrier},
                     builder),
      schedule(schedule), tiling(problem, schedule),
      tokens(schedule.getTokens()), elementBytes(problem.getElementBytes()) {
  acc = AccType::get(builder.getContext(), 64, tokens, f32);
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

namespace {

/// Offsets in bytes.
struct Workspace {
  int64_t semaphores, zeroed, input, hidden, partials;
  /// Of measured scales of tokens.
  int64_t inputScales, hiddenScales, activated, largest;
  int64_t end;
};

} // namespace

static Workspace getWorkspace(const MlpProblem &problem, ScheduleAttr schedule,
                              const DecodeTiling &tiling) {
  WorkspaceLayout layout;
  Workspace w;
  // Data that must be zero before the first launch comes first: semaphores and
  // tagged partial sums. The semaphores of a kernel are a ticket, one for the
  // norm, one per part of a K-slice and one per warp of a unit. CTAs
  // without a GEMM1 tile wait for one more. With a straggler limit, two more
  // count the stages of CTAs.
  int64_t lines = 2 + tiling.parts * tiling.slices +
                  tiling.tiles2 * kMathWarps +
                  tiling.delaysGemm2Only(schedule) +
                  (schedule.getStragglerInFlight() ? 2 : 0) +
                  (problem.hasTokenScales() ? 1 : 0);
  w.semaphores = layout.reserve(lines * 128);
  int64_t sums = tiling.tiles2 * tiling.slices * tiling.rows *
                 schedule.getTokens() *
                 schedule.getPartials().getIntOrFloatBitWidth() / 8;
  if (schedule.getTaggedPartials())
    w.partials = layout.reserve(sums);
  w.zeroed = layout.getEnd();
  int64_t stepBytes = getTokenStageBytes(problem, schedule.getTokens());
  w.input = layout.reserve(
      stepBytes * (problem.hasGemm1() ? tiling.steps1 : tiling.steps2));
  w.hidden = layout.reserve(problem.hasGemm1() ? stepBytes * tiling.steps2 : 0);
  if (!schedule.getTaggedPartials())
    w.partials = layout.reserve(sums);
  if (problem.hasTokenScales()) {
    int64_t tileBytes = schedule.getTokens() * tiling.tiles1 * 4;
    w.inputScales = layout.reserve(schedule.getTokens() * 4);
    w.hiddenScales = layout.reserve(tileBytes);
    w.largest = layout.reserve(tileBytes);
    w.activated = layout.reserve(tileBytes * tiling.hiddenPerTile);
  }
  w.end = layout.getEnd();
  return w;
}

void DecodeKernelBuilder::addWorkspaces() {
  Workspace w = getWorkspace(problem, schedule, tiling);
  // Entries other than the offset are for readers of the plan.
  auto addPackedTokens = [&](Value &buffer, int64_t columns, int64_t offset) {
    addArgument(
        buffer, bufferOf(element),
        PlaceAttr::get(builder.getContext(), offset, tokens, columns, element));
  };
  addWorkspace(semaphores, builder.getI32Type(), w.semaphores);
  addPackedTokens(input, problem.width, w.input);
  if (problem.hasGemm1())
    addPackedTokens(hidden, problem.hidden, w.hidden);
  if (problem.hasBlockScales())
    addWorkspace(inputScales, f32, w.input);
  if (problem.hasBlockScales() && problem.hasGemm1())
    addWorkspace(hiddenScales, f32, w.hidden);
  if (problem.hasTokenScales())
    addWorkspace(inputScales, f32, w.inputScales);
  if (problem.hasTokenScales() && problem.hasGemm1()) {
    addWorkspace(hiddenScales, f32, w.hiddenScales);
    addWorkspace(largestUnits, f32, w.largest);
    addWorkspace(activated, roundsHidden() ? narrowType : f32, w.activated);
  }
  addWorkspace(partials, schedule.getPartials(), w.partials);
}

void DecodeKernelBuilder::addWeights() {
  if (problem.hasGemm1())
    addGemm1Weights(weights1, tiling.packedTiles1, tiling.steps1);
  addGemm2Weights(weights2, tiling.packedTiles2, tiling.steps2);
}

void DecodeKernelBuilder::addArguments() {
  addWorkspaces();
  addWeights();
  addNormOperands();
  addHiddenBiases();
  addWeightScales();
  addOutputOperands();
  addNormResults();
  addTokens(count);
  addScalars();
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

Type DecodeKernelBuilder::stageOf(Value ring) {
  return StageType::get(builder.getContext(),
                        cast<RingType>(ring.getType()).getBytes());
}

Value DecodeKernelBuilder::getSliceSteps() {
  if (tiling.slices * tiling.stepsPerSlice == tiling.steps2)
    return constant(tiling.stepsPerSlice);
  return min(constant(tiling.stepsPerSlice),
             sub(constant(tiling.steps2), mul(slice, tiling.stepsPerSlice)));
}

/// Renumbers CTAs so that CTAs without a GEMM1 tile are spread evenly over the
/// grid. This applies if CTAs with a tile saturate HBM alone, or if only they
/// have work. Runs of 8 or 16 neighboring CTAs are placed on one side of the
/// chip, which has half of the bandwidth. The position therefore changes in
/// every group of eight.
Value DecodeKernelBuilder::placeBlock(Value index) {
  int64_t blocks = schedule.getBlocks(), busy = tiling.gemm1Blocks;
  if (!tiling.spreadsGemm2Only(schedule))
    return index;
  int64_t whole = blocks / 8 * 8;
  Value eight = div(index, 8);
  Value place = add(mul(eight, 8), rem(add(index, eight), 8));
  if (whole != blocks)
    place = select(less(index, constant(whole)), place, index);
  Value tile = div(mul(place, busy), blocks);
  Value next = div(mul(add(place, 1), busy), blocks);
  return select(less(tile, next), tile, add(sub(place, tile), busy));
}

/// Token rows go round the blocks; then everyone may read them.
void DecodeKernelBuilder::normalizeRows() {
  bool oneRow = tokens <= schedule.getBlocks();
  if (oneRow) {
    // Requested before the weights, which would delay it.
    Values loaded =
        loadRow(min(block, sub(count, constant(1))), /*early=*/true);
    when(less(block, count), [&] { normalizeRow(block, loaded); });
  } else {
    normalizeAll(block, count, schedule.getBlocks());
  }
  FenceAsyncOp::create(builder, loc, /*shared=*/false);
  barrier();
  // A fence takes microseconds while weights come in, so only blocks that may
  // have a row arrive. Their number must not depend on the launch.
  when(both(equal(thread, 0), less(block, constant(normBlocks()))), [&] {
    SemaphoreArriveOp::create(builder, loc, semaphore(constant(0)));
  });
}

void DecodeKernelBuilder::multiply() {
  thread = sub(id(IdKind::Thread), constant(kCopyWarps * 32));
  warpIndex = sub(id(IdKind::Warp), constant(kCopyWarps));
  group = div(warpIndex, 4);
  warp = rem(warpIndex, 4);
  lane = id(IdKind::Lane);
  row8 = div(lane, 4);
  leads = equal(lane, 0);
  depend();
  normalizeRows();
  if (problem.hasBlockScales())
    loadWeightScales();
  Uses uses{constant(0), constant(0)};
  std::optional<Deferred> deferred;
  if (schedule.getDeferredEpilogue())
    deferred = multiplyDeferred(uses);
  else if (problem.hasGemm1())
    multiplyGemm1(uses);
  auto multiplyGemm2 = [&] {
    int64_t steps = tiling.getStepsPerStage(), accs = tiling.rows / 128;
    Value stages = div(getSliceSteps(), steps);
    SmallVector<Values> sums;
    if (problem.hasTokenScales() && problem.hasGemm1())
      loadTokenScales(hiddenScales, mul(slice, tiling.tilesPerSlice * tokens),
                      uses.token);
    else if (problem.hasTokenScales())
      loadTokenScales(inputScales, constant(0), uses.token);
    if (problem.hasBlockScales())
      sums = sumBlocks(uses, stages, steps, accs, /*kept=*/0,
                       [&](Value step) { return getGemm2Scales(step); });
    else
      for (Value acc : mainLoop(uses, stages, steps, accs, /*kept=*/0,
                                deferred ? &*deferred : nullptr))
        sums.push_back(valuesOf(acc));
    storePartials(sums);
    if (!schedule.getTaggedPartials() || announcesSums())
      awaitPartials();
    when(reduces, [&] { sumPartials(); });
  };
  if (!deferred || !hasUnit)
    return when(hasUnit, multiplyGemm2);
  either(hasUnit, multiplyGemm2, [&] {
    for (int64_t share = 0; share < kShares; ++share)
      activateShare(share, *deferred);
  });
}

PlannedKernel DecodeKernelBuilder::build(StringRef name) {
  addArguments();
  MLIRContext *context = builder.getContext();
  constexpr int64_t threads = (kCopyWarps + kMathWarps) * 32;
  tile::KernelOp kernel =
      begin(name, schedule.getBlocks(), threads,
            schedule.getWeightStages() * schedule.getWeightBytes() +
                schedule.getTokenStages() * getTokenStageBytes(problem, tokens),
            /*cooperative=*/true);
  Workspace w = getWorkspace(problem, schedule, tiling);
  PlanParts parts{tokens, WorkspaceAttr::get(context, w.end, w.zeroed, {})};
  parts.dependent = schedule.getDependent();
  PlanAttr plan = getPlan(kernel, parts);

  auto makeRing = [&](int64_t stages, int64_t bytes, int64_t offset,
                      int64_t consumers) -> Value {
    return RingCreateOp::create(
        builder, loc, RingType::get(context, stages, bytes), offset, consumers);
  };
  int64_t weightBytes = schedule.getWeightBytes();
  // A left operand has 64 rows, even if the last stage has fewer tokens.
  // Weights follow it in shared memory then.
  int64_t weightsAt =
      tiling.swapAB ? schedule.getTokenStages() * tokens * 128 : int64_t(0);
  int64_t tokensAt =
      tiling.swapAB ? int64_t(0) : schedule.getWeightStages() * weightBytes;
  weightRing = makeRing(schedule.getWeightStages(), weightBytes, weightsAt, 2);
  tokenRing =
      makeRing(schedule.getTokenStages(), getTokenStageBytes(problem, tokens),
               tokensAt, tokenConsumers());
  // Nothing is ever copied into it.
  if (tiling.delaysGemm2Only(schedule))
    gemm2OnlyRing =
        RingCreateOp::create(builder, loc, RingType::get(context, 1, 1024),
                             /*offset=*/0, /*consumers=*/1);
  epochBuffer = makeScratch(builder.getI32Type(), 1);
  makeNormScratch();
  makeScaleScratch();
  if (schedule.getDeferredEpilogue() && problem.hasGemm1())
    staging = makeScratch(element, tokens * tiling.hiddenPerTile);
  BarrierOp::create(builder, loc, builder.getI64IntegerAttr(0), IntegerAttr());
  if (schedule.getDependent() && !launchesDependentLate())
    GridDependencyOp::create(builder, loc, Dependency::Launch);
  block = placeBlock(id(IdKind::Block));
  // Units of GEMM2: an output tile and a K-slice.
  int64_t units = tiling.getUnits();
  Value unit =
      tiling.firstUnit > 0 ? sub(block, constant(tiling.firstUnit)) : block;
  // Wraps around for blocks before the first one.
  hasUnit =
      units == schedule.getBlocks() ? Value() : less(unit, constant(units));
  tile2 = rem(unit, tiling.tiles2);
  slice = div(unit, tiling.tiles2);
  placeReducers();

  SpecializeOp roles = makeRoles();
  builder.createBlock(&roles.getRoles()[0]);
  {
    Value thread = id(IdKind::Thread);
    Block *role = builder.getInsertionBlock();
    when(equal(thread, 0), [&] { streamWeights(); });
    builder.setInsertionPointToEnd(role);
    when(equal(thread, 32), [&] { streamTokens(); });
    if (schedule.getDeferredEpilogue()) {
      builder.setInsertionPointToEnd(role);
      Value announces = equal(id(IdKind::Warp), 2);
      if (tiling.tilesPerPart != schedule.getBlocks())
        announces = both(announces, less(block, constant(tiling.tilesPerPart)));
      when(announces, [&] { announceTiles(); });
    }
  }
  builder.createBlock(&roles.getRoles()[1]);
  multiply();
  builder.setInsertionPointAfter(roles);
  tile::ReturnOp::create(builder, loc);
  return {kernel, plan};
}

PlannedKernel fuse::buildDecodeKernel(const MlpProblem &problem,
                                      ScheduleAttr schedule,
                                      gpu::GPUModuleOp module, StringRef name) {
  OpBuilder builder(problem.op->getContext());
  builder.setInsertionPointToEnd(module.getBody());
  return DecodeKernelBuilder(problem, schedule, builder).build(name);
}
