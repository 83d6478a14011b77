//===- Mainloop.cpp - Prefill kernels: products and epilogues -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packed row p of a tile, `wl(1) m(1) warp(2) half(1) lr(3)`, is a column of
// the product. A thread holds columns `lr = 2 (lane mod 4) + {0, 1}` of every
// eight, which packing has made neighbors: 16 hidden units of a gated MLP
// with gate in half 0 and up in half 1, or 8 rows of other weights. So nothing
// has to pass through shared memory.
//
//===----------------------------------------------------------------------===//

#include "PrefillKernelBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// One warpgroup is done with a use, here and in the other block of a cluster.
void PrefillKernelBuilder::release(Value condition, Value use) {
  Value index = rem(thread, 128);
  if (!rank)
    return when(both(condition, equal(index, 0)),
                [&] { RingReleaseOp::create(builder, loc, ring, use); });
  // The last warp releases, because the first one runs later than the others.
  index = sub(index, constant(128 - 32));
  when(both(condition, less(index, constant(schedule.getCluster()))),
       [&] { RingReleaseOp::create(builder, loc, ring, use, index); });
}

/// The k-step during which a quarter, or last the announcement, is done.
int64_t PrefillKernelBuilder::getOverlapStep(int64_t action) const {
  int64_t overlapSteps = product().overlapSteps;
  int64_t distance = std::max<int64_t>(1, overlapSteps / kQuarters);
  return std::min(distance * (action + 1), overlapSteps) - 1;
}

/// Number of k-steps at the end of a tile in which the first warpgroup has the
/// tensor cores alone. It then stores, exchanges or rounds its sums while the
/// second warpgroup multiplies. The stages of these k-steps have arrived by
/// then. With one more, the first warpgroup would wait for a stage that the
/// second has not released. For GEMM1, rounding takes long enough only with
/// scales.
int64_t PrefillKernelBuilder::getLead() const {
  return phase == &gemm2 || problem.isF8() ? schedule.getStages() - 1 : 0;
}

/// The sums of 64 tokens by the rows of a tile that a thread has. One group of
/// products stays in flight; what it does not read is released.
PrefillKernelBuilder::Values
PrefillKernelBuilder::mainLoop(Value &use, Value steps,
                               function_ref<void(int64_t)> meanwhile) {
  MLIRContext *context = builder.getContext();
  int64_t columns = 128 / elementBytes;
  Type lhs = SharedType::get(context, 64, columns, element, 128);
  Type rhs = SharedType::get(context, product().rows, columns, element, 128);
  Type acc = AccType::get(context, 64, product().rows, f32);
  auto multiply = [&](Value sums, Value use) -> Value {
    Value stage = RingWaitOp::create(builder, loc, stageType(), ring, use);
    Value tokens =
        ViewOp::create(builder, loc, lhs, stage, mul(group, 64 * 128));
    Value weights =
        ViewOp::create(builder, loc, rhs, stage, constant(kTokenTile * 128));
    auto fenced = AccFenceOp::create(builder, loc, acc, sums);
    sums =
        MmaOp::create(builder, loc, acc, tokens, weights, fenced.getResult(0));
    MmaCommitOp::create(builder, loc);
    return sums;
  };
  Value sums = AccZeroOp::create(builder, loc, acc);
  int64_t overlapSteps = 0;
  if (meanwhile) {
    overlapSteps = product().overlapSteps;
    // With the stages of as many steps known at once, their addresses would
    // take registers that the sums need.
    Value at = placeOf(Place::Use);
    if (overlapSteps > kQuarters)
      keep({{Place::Use, use}});
    for (int64_t step = 0; step < overlapSteps; ++step) {
      if (step > 0 && step % kQuarters == 0)
        use = load(builder.getI32Type(), places, at);
      sums = multiply(sums, add(use, step));
      for (int64_t action = 0; action <= kQuarters; ++action)
        if (getOverlapStep(action) == step)
          meanwhile(action);
      MmaWaitOp::create(builder, loc, 1);
      if (step > 0)
        release(Value(), add(use, step - 1));
    }
  }
  if (!steps)
    steps = load(builder.getI32Type(), places, placeOf(Place::SliceSteps));
  // Both see the same number of steps, so that none waits for nothing.
  int64_t lead = getLead();
  IntegerAttr barrier = builder.getI64IntegerAttr(kMathBarrier);
  IntegerAttr threads = builder.getI64IntegerAttr(ctaGroup.getThreads());
  Values results =
      loop(constant(overlapSteps), steps, 1,
           ValueRange{sums, add(use, overlapSteps)},
           [&](Value step, ValueRange carried) -> Values {
             if (lead > 0)
               when(both(equal(group, 1), equal(sub(steps, step), lead)),
                    [&] { BarrierOp::create(builder, loc, barrier, threads); });
             Value next = multiply(carried[0], carried[1]);
             MmaWaitOp::create(builder, loc, 1);
             release(overlapSteps > 0 ? Value() : less(constant(0), step),
                     sub(carried[1], constant(1)));
             return {next, add(carried[1], 1)};
           });
  // The addresses of several k-steps at once would take registers that the
  // sums need.
  results.front().getDefiningOp()->setAttr(kRolledAttrName,
                                           builder.getUnitAttr());
  use = results[1];
  if (lead > 0)
    when(both(equal(group, 0), less(constant(overlapSteps + lead - 1), steps)),
         [&] { BarrierArriveOp::create(builder, loc, barrier, threads); });
  auto done = AccWaitOp::create(builder, loc, acc, results[0]);
  release(Value(), sub(use, constant(1)));
  return llvm::to_vector_of<Value>(
      AccValuesOp::create(builder, loc,
                          SmallVector<Type>(product().rows / 2, f32),
                          done.getResult(0))
          .getResults());
}

void PrefillKernelBuilder::multiply() {
  thread = sub(id(IdKind::Thread), constant(ctaGroup.first * 32));
  warpIndex = sub(id(IdKind::Warp), constant(ctaGroup.first));
  group = div(warpIndex, 4);
  warp = rem(warpIndex, 4);
  lane = id(IdKind::Lane);
  depend();
  Value use = constant(0);
  Waiting waiting;
  if (hasGemm1()) {
    enter(gemm1);
    if (keepsSlice())
      keepSlice();
    phase = &gemm1;
    waiting = multiplyGemm1(use);
  }
  if (!hasGemm2())
    return;
  enter(gemm2);
  multiplyGemm2(use, waiting);
}

/// Sums that are rounded to bf16 anyway wait in half as many registers until
/// the next tile has started.
bool PrefillKernelBuilder::activatesLater() const {
  return problem.roundsAt(RoundingPoint::Up) &&
         (!problem.isGated() || problem.roundsAt(RoundingPoint::Gate));
}

/// A quarter of the hidden units of a tile that waits, or their announcement.
void PrefillKernelBuilder::finishWaiting(int64_t action,
                                         const Waiting &waiting) {
  if (action == kQuarters)
    return announce(waiting.ordinal);
  size_t size = waiting.pairs.size() / kQuarters;
  auto pairs = ArrayRef(waiting.pairs).slice(action * size, size);
  storeQuarter(getQuarter(action), waiting.token, waiting.column,
               Rounded::fromPairs(pairs, problem.isGated()));
}

/// Marks the hidden units of the tile numbered `ordinal` as stored by this
/// warp. Another warp without work signals other CTAs, because the signal waits
/// for all stores.
void PrefillKernelBuilder::announce(Value ordinal) {
  if (!isJoint())
    return;
  Value exists = less(ordinal, constant(std::numeric_limits<int32_t>::max()));
  when(exists, [&] {
    RingWaitOp::create(builder, loc, publishStageType(), publishRing, ordinal);
    FenceAsyncOp::create(builder, loc, /*shared=*/false);
    WarpSyncOp::create(builder, loc);
    when(equal(lane, 0),
         [&] { RingReleaseOp::create(builder, loc, publishRing, ordinal); });
  });
}

Value PrefillKernelBuilder::placeOf(Place place) {
  return add(mul(warpIndex, countPlaces()), static_cast<int64_t>(place));
}

/// Keeps values of a warp in shared memory. Every lane stores them, which it
/// may not do before the others have read what was there.
void PrefillKernelBuilder::keep(
    std::initializer_list<std::pair<Place, Value>> values) {
  WarpSyncOp::create(builder, loc);
  for (auto [place, value] : values)
    store(value, places, placeOf(place));
  WarpSyncOp::create(builder, loc);
}

/// Keeps the position of a unit in shared memory. Computing it needs divisions,
/// for which the main loop has time, but no registers are free for the result.
void PrefillKernelBuilder::keepPlace(const Unit &unit) {
  keep({{Place::TokenTile, unit.tokenTile}, {Place::Tile, unit.tile}});
}

/// A unit of which no token exists.
PrefillKernelBuilder::Unit PrefillKernelBuilder::getNone() {
  Unit none;
  none.tokenTile = countTokenTiles();
  none.tile = constant(0);
  return none;
}

PrefillKernelBuilder::Unit PrefillKernelBuilder::recallPlace() {
  Unit unit;
  unit.tokenTile =
      load(builder.getI32Type(), places, placeOf(Place::TokenTile));
  unit.tile = load(builder.getI32Type(), places, placeOf(Place::Tile));
  return unit;
}

/// The position of the CTA's K-slice with uneven split-K needs more registers
/// than remain beside a waiting tile. It is therefore computed before the first
/// tile.
void PrefillKernelBuilder::keepSlice() {
  enter(gemm2);
  Unit unit = locate(phase->firstUnit);
  keep({{Place::Slice, unit.slice},
        {Place::SliceTokenTile, unit.tokenTile},
        {Place::SliceTile, unit.tile},
        {Place::SliceSteps, getSteps(unit)},
        {Place::Flushes, select(mustFlush(), constant(1), constant(0))}});
}

PrefillKernelBuilder::Unit PrefillKernelBuilder::reloadSlice() {
  auto recall = [&](Place place) -> Value {
    return load(builder.getI32Type(), places, placeOf(place));
  };
  Unit unit;
  unit.slice = recall(Place::Slice);
  unit.tokenTile = recall(Place::SliceTokenTile);
  unit.tile = recall(Place::SliceTile);
  Value tokenTiles = countTokenTiles(schedule.getCluster());
  unit.index = add(arith::MulIOp::create(builder, loc, unit.tile, tokenTiles),
                   unit.tokenTile);
  return unit;
}

PrefillKernelBuilder::Waiting PrefillKernelBuilder::multiplyGemm1(Value &use) {
  if (!activatesLater()) {
    auto visit = [&](Value index, ValueRange carried) -> Values {
      Value use = carried[0];
      Values sums = mainLoop(use, constant(product().steps), {});
      // The products leave few registers for it before.
      Unit unit = locate(index);
      Value column = mul(unit.tile, tiling.hiddenPerTile);
      for (int64_t index = 0; index < kQuarters; ++index)
        storeQuarter(getQuarter(index), firstToken(unit), column,
                     roundQuarter(getQuarter(index), column, sums));
      announce(carried[1]);
      return {use, add(carried[1], 1)};
    };
    use = visitUnits(phase->firstUnit, {use, constant(0)}, visit)[0];
    return {};
  }
  // Carried: uses and the quarters of the tile that waits. Before the first
  // one, no token of it exists.
  Values carried = {use};
  Value zero = arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(VectorType::get(2, narrowType)));
  carried.append(product().rows / 4, zero);
  keepPlace(getNone());
  auto getWaiting = [&](ValueRange carried) -> Waiting {
    Unit unit = recallPlace();
    Value ordinal = sub(div(carried[0], product().steps), constant(1));
    return {ordinal, firstToken(unit), mul(unit.tile, tiling.hiddenPerTile),
            llvm::to_vector_of<Value>(carried.drop_front())};
  };
  auto visit = [&](Value index, ValueRange carried) -> Values {
    Value use = carried[0];
    Values sums = mainLoop(use, constant(product().steps), [&](int64_t action) {
      finishWaiting(action, getWaiting(carried));
      if (action == kQuarters)
        keepPlace(locate(index));
    });
    Value column = mul(recallPlace().tile, tiling.hiddenPerTile);
    Values next = {use};
    for (int64_t index = 0; index < kQuarters; ++index)
      llvm::append_range(
          next, roundQuarter(getQuarter(index), column, sums).getPairs());
    return next;
  };
  carried = visitUnits(phase->firstUnit, carried, visit);
  use = carried[0];
  Waiting waiting = getWaiting(carried);
  auto flush = [&] {
    for (int64_t action = 0; action <= kQuarters; ++action)
      finishWaiting(action, waiting);
  };
  if (part != Part::Both) {
    flush();
    return {};
  }
  Value now;
  if (keepsSlice())
    now = equal(load(builder.getI32Type(), places, placeOf(Place::Flushes)), 1);
  else
    now = mustFlush();
  when(now, flush);
  waiting.ordinal = select(now, constant(-1), waiting.ordinal);
  waiting.token = select(now, count, waiting.token);
  return waiting;
}

/// Whether a block's last GEMM1 tile cannot wait for its first GEMM2 unit:
/// because there is none, or because blocks could wait for each other. The
/// k-steps that overlap an epilogue must only need hidden units of tiles that
/// are not the last tile of any block. The last tiles are the last `blocks`
/// units of all.
Value PrefillKernelBuilder::mustFlush() {
  enter(gemm2);
  // With even split-K, the K-slice that needs the most tiles.
  Unit unit;
  if (product().isStreamK || product().isUnevenSplitK)
    unit = locate(phase->firstUnit);
  else if (product().slices > 1)
    unit.slice = constant(product().slices - 1);
  Value needed = countNeeded<IndexBuilder>(
      *this, tiling, product().overlapSteps,
      [&](Value index) { return getStep(unit, index); });
  Value hasNone = less(sub(phase->units, constant(1)), phase->firstUnit);
  hasNone = arith::OrIOp::create(builder, loc, hasNone, equal(phase->units, 0));
  phase = &gemm1;
  // Token tiles of the last group, which clusters have whole ones of.
  Value width = phase->tokenTiles;
  if (product().getTokenTiles(schedule.getTokens()) / schedule.getCluster() >
      schedule.getGroup())
    width = add(rem(sub(width, constant(1)), schedule.getGroup()), 1);
  width = mul(width, schedule.getCluster());
  Value later = arith::MulIOp::create(builder, loc, width,
                                      sub(constant(tiling.tiles1), needed));
  Value waits = less(later, constant(schedule.getBlocks()));
  return arith::OrIOp::create(builder, loc, hasNone, waits);
}

void PrefillKernelBuilder::multiplyGemm2(Value use, const Waiting &waiting) {
  auto multiplyUnit = [&](Value index, Value use,
                          function_ref<void(int64_t)> meanwhile) -> Value {
    Unit slice;
    if (product().isStreamK || (product().isUnevenSplitK && !keepsSlice()))
      slice = locate(index);
    else if (product().slices > 1)
      slice.slice = rem(index, product().slices);
    Values sums =
        mainLoop(use, keepsSlice() ? Value() : getSteps(slice), meanwhile);
    if (product().isStreamK)
      finishFragment(index, sums);
    else
      finishGemm2(keepsSlice() ? reloadSlice() : locate(index), sums);
    return use;
  };
  function_ref<void(int64_t)> none, meanwhile = none;
  auto finish = [&](int64_t action) { finishWaiting(action, waiting); };
  if (waiting.ordinal)
    meanwhile = finish;
  // With split-K, there are at most as many K-slices as CTAs.
  Value from = phase->firstUnit;
  if (waiting.ordinal || product().slices > 1)
    when(less(from, phase->units), [&] { multiplyUnit(from, use, meanwhile); });
  if (product().slices > 1)
    return;
  if (waiting.ordinal) {
    use = add(use, product().isStreamK ? getSteps(locate(from))
                                       : constant(product().steps));
    from = add(from, getStride());
  }
  if (storesLater())
    return visitFragments(from, use);
  visitUnits(from, use, [&](Value index, ValueRange carried) -> Values {
    return {multiplyUnit(index, carried[0], none)};
  });
}

/// The sums of a unit of GEMM2, or of its K-slice, are complete.
void PrefillKernelBuilder::finishGemm2(const Unit &unit, ArrayRef<Value> sums) {
  if (product().slices == 1)
    return storeTile(unit, sums);
  Value first = mul(unit.index, product().slices);
  SmallVector<Values> own = getShare(unit, sums);
  storePartials(unit, add(first, unit.slice), sums, !own.empty());
  if (places)
    keep({{Place::Slice, unit.slice}});
  else
    WarpSyncOp::create(builder, loc);
  when(equal(lane, 0), [&] {
    Value semaphore = SemaphoreOp::create(
        builder, loc, SemaphoreType::get(builder.getContext()), semaphores,
        add(mul(unit.index, ctaGroup.last - ctaGroup.first), warpIndex));
    SemaphoreMeetOp::create(builder, loc, semaphore, product().slices);
  });
  WarpSyncOp::create(builder, loc);
  // The partial sums of other K-slices need all registers.
  Unit same = unit;
  if (places)
    same.slice = load(builder.getI32Type(), places, placeOf(Place::Slice));
  sumPartials(same, first, own);
}

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

Value PrefillKernelBuilder::firstToken(const Unit &unit) {
  return add(add(mul(unit.tokenTile, kTokenTile), mul(group, 64)),
             add(mul(warp, 16), div(lane, 4)));
}

/// Block w of 32 packed rows is wl = w / 4 and warp = w mod 4.
SmallVector<int64_t> PrefillKernelBuilder::getPlaces(int64_t half,
                                                     int64_t block) {
  int64_t first = block / 4 * 16 + block % 4 * 2;
  return ProductBuilder::getPlaces(half, first, first + 8);
}

PrefillKernelBuilder::Values
PrefillKernelBuilder::getBlock(ArrayRef<Value> sums, int64_t half,
                               int64_t block) {
  return llvm::map_to_vector(getPlaces(half, block),
                             [&](int64_t place) { return sums[place]; });
}

/// The first hidden unit of a thread in a block of a quarter: all four blocks
/// of a gated MLP are neighbors.
Value PrefillKernelBuilder::firstUnitOf(Quarter quarter, Value column,
                                        int64_t block) {
  Value quad = rem(lane, 4);
  if (problem.isGated())
    return add(add(column, quarter.wl * 64), mul(quad, 16));
  return add(add(column, quarter.wl * 128 + block * 32), mul(quad, 8));
}

Rounded PrefillKernelBuilder::roundQuarter(Quarter quarter, Value column,
                                           ArrayRef<Value> sums) {
  // Hidden units past the end read some bias that exists.
  auto loadInside = [&](Value buffer, Value first, int64_t size) {
    if (problem.hidden % tiling.hiddenPerTile != 0)
      first = select(less(first, constant(problem.hidden)), first, constant(0));
    return loadBias(buffer, first, size);
  };
  Values gate, up, biasGate, biasUp;
  for (int64_t block = 0; block < 4; ++block)
    for (auto [index, value] :
         llvm::enumerate(getBlock(sums, quarter.half, quarter.wl * 4 + block)))
      // Neighbors in a block are gate and up.
      (problem.isGated() && index % 2 == 0 ? gate : up).push_back(value);
  for (int64_t block = 0; block < (problem.isGated() ? 1 : 4); ++block) {
    Value first = firstUnitOf(quarter, column, block);
    int64_t size = problem.isGated() ? 16 : 8;
    biasGate.append(loadInside(gateBias, first, size));
    biasUp.append(loadInside(upBias, first, size));
  }
  return roundHidden(gate, up, biasGate, biasUp);
}

void PrefillKernelBuilder::storeQuarter(Quarter quarter, Value token,
                                        Value column, const Rounded &values) {
  // What one access stores, of units that are neighbors.
  int64_t size = problem.isGated() ? 16 / elementBytes : 8;
  int64_t count = values.getSize() / size;
  Values vectors;
  for (int64_t index = 0; index < count; ++index)
    vectors.push_back(activateHidden(values.slice(index * size, size)));
  Value row = add(token, 8 * quarter.half);
  Value exists = less(row, this->count);
  Value at = mul(row, problem.hidden);
  auto storeVector = [&](int64_t index, Value first) {
    when(problem.hidden % tiling.hiddenPerTile != 0
             ? less(first, constant(problem.hidden))
             : Value(),
         [&] { store(vectors[index], hidden, add(at, first)); });
  };
  when(exists, [&] {
    for (int64_t index = 0; index < count; ++index) {
      if (problem.isGated())
        storeVector(index, add(firstUnitOf(quarter, column, 0), index * size));
      else
        storeVector(index, firstUnitOf(quarter, column, index));
    }
  });
}

void PrefillKernelBuilder::visitOutputs(
    const Unit &unit, function_ref<void(size_t, Value)> body) {
  for (size_t index = 0; index < problem.outputs.size(); ++index) {
    int64_t from = tiling.firstTiles[index], to = tiling.firstTiles[index + 1];
    Value inside;
    if (from != 0)
      inside = less(constant(from - 1), unit.tile);
    if (to != tiling.tiles2)
      inside = both(inside, less(unit.tile, constant(to)));
    when(inside, [&] {
      body(index, add(mul(sub(unit.tile, constant(from)), product().rows),
                      mul(rem(lane, 4), 8)));
    });
  }
}

Value PrefillKernelBuilder::isColumn(size_t index, Value column) {
  // Tiles are those of packed rows, of which the last half may be padding.
  int64_t tiles = tiling.firstTiles[index + 1] - tiling.firstTiles[index];
  int64_t width = problem.outputs[index].rows;
  return width != tiles * product().rows ? less(column, constant(width))
                                         : Value();
}

void PrefillKernelBuilder::storeTile(const Unit &unit, ArrayRef<Value> sums) {
  Value token = firstToken(unit);
  visitOutputs(unit, [&](size_t index, Value column) {
    // One branch for a row, so that the loads of what is added overlap.
    for (int64_t half : {0, 1}) {
      Value row = add(token, 8 * half);
      when(less(row, count), [&] {
        for (int64_t block = 0; block < numBlocks(); ++block) {
          Value at = add(column, block * 32);
          when(isColumn(index, at), [&] {
            storeOutputs(index, row, at, getBlock(sums, half, block));
          });
        }
      });
    }
  });
}

//===----------------------------------------------------------------------===//
// Sums over K-slices
//===----------------------------------------------------------------------===//

/// The blocks of a K-slice's share, the same number for all: some of the last
/// may not exist.
int64_t PrefillKernelBuilder::getShareSize() const {
  return llvm::divideCeil(2 * numBlocks(), product().slices);
}

/// Partial sums of its own share that a K-slice keeps in registers. Registers
/// cannot be indexed, so the code checks the share of every K-slice. With more
/// than a few K-slices, this costs more than storing and loading the own share.
/// The registers also cost more if the outputs have an addend.
SmallVector<PrefillKernelBuilder::Values>
PrefillKernelBuilder::getShare(const Unit &unit, ArrayRef<Value> sums) {
  constexpr int64_t kFewSlices = 4;
  SmallVector<Values> share;
  bool addsMore = problem.addStream || outputResidual ||
                  llvm::any_of(biases, [](Value bias) { return bool(bias); });
  if (product().slices > kFewSlices || addsMore)
    return share;
  for (int64_t index = 0; index < getShareSize(); ++index) {
    Values own;
    for (int64_t slice = 0; slice < product().slices; ++slice) {
      int64_t block =
          std::min(slice * getShareSize() + index, 2 * numBlocks() - 1);
      Values values = getBlock(sums, block / numBlocks(), block % numBlocks());
      if (own.empty()) {
        own = values;
        continue;
      }
      Value isOwn = equal(unit.slice, slice);
      own = zip(values, own,
                [&](Value x, Value y) { return select(isOwn, x, y); });
    }
    share.push_back(own);
  }
  return share;
}

/// In fragment order: chunk c of a unit is four values of every thread.
void PrefillKernelBuilder::storePartials(const Unit &unit, Value index,
                                         ArrayRef<Value> sums, bool keepsOwn) {
  Value first = mul(index, numChunks());
  for (int64_t block = 0; block < 2 * numBlocks(); ++block) {
    Value isOthers;
    if (keepsOwn)
      isOthers =
          arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                unit.slice, constant(block / getShareSize()));
    when(isOthers, [&] {
      Values values = getBlock(sums, block / numBlocks(), block % numBlocks());
      for (int64_t half : {0, 1}) {
        Value chunk = add(first, 2 * block + half);
        Value at = add(mul(chunk, ctaGroup.getThreads()), thread);
        store(pack(f32, ValueRange(values).slice(4 * half, 4)), partials,
              mul(at, 4));
      }
    });
  }
}

/// Adds what another block has stored as unit `index`.
PrefillKernelBuilder::Values
PrefillKernelBuilder::addPartials(Value index, ArrayRef<Value> sums) {
  // Loads of a group are in flight while the group before is added.
  constexpr int64_t kGroup = 4;
  Values total = llvm::to_vector(sums);
  Value first = mul(index, numChunks());
  Type vector = VectorType::get(4, f32);
  int64_t groups = 2 * numBlocks() / kGroup;
  SmallVector<Values> loaded;
  for (int64_t group = 0; group <= groups; ++group) {
    SmallVector<Values> before = std::move(loaded);
    loaded.clear();
    for (int64_t at = 0; at < kGroup && group < groups; ++at) {
      Values halves;
      for (int64_t half : {0, 1}) {
        Value chunk = add(first, 2 * (group * kGroup + at) + half);
        halves.push_back(
            load(vector, partials,
                 mul(add(mul(chunk, ctaGroup.getThreads()), thread), 4),
                 /*early=*/true));
      }
      loaded.push_back(halves);
    }
    for (auto [at, halves] : llvm::enumerate(before)) {
      int64_t block = (group - 1) * kGroup + static_cast<int64_t>(at);
      Values values = unpack(halves[0]);
      values.append(unpack(halves[1]));
      for (auto [place, value] : llvm::zip_equal(
               getPlaces(block / numBlocks(), block % numBlocks()), values))
        total[place] = fadd(total[place], value);
    }
  }
  return total;
}

/// Each K-slice reduces its share of the 64-row blocks. The order of the sum is
/// fixed: the own partial sums first, then those of the next K-slices,
/// cyclically. The result therefore does not depend on which CTA finishes
/// first.
void PrefillKernelBuilder::sumPartials(const Unit &unit, Value first,
                                       ArrayRef<Values> own) {
  int64_t blocks = 2 * numBlocks(), slices = product().slices;
  Type vector = VectorType::get(4, f32);
  Value token = firstToken(unit);
  struct Part {
    Value block, exists;
    SmallVector<Values> loaded;
  };
  SmallVector<Part> parts;
  for (int64_t index = 0; index < getShareSize(); ++index) {
    Part part;
    part.block = add(mul(unit.slice, getShareSize()), index);
    if (getShareSize() * slices != blocks) {
      part.exists = less(part.block, constant(blocks));
      part.block = min(part.block, constant(blocks - 1));
    }
    for (int64_t after = own.empty() ? 0 : 1; after < slices; ++after) {
      Values loaded;
      Value slice = rem(add(unit.slice, after), slices);
      Value chunk =
          add(mul(add(first, slice), numChunks()), mul(part.block, 2));
      for (int64_t at : {0, 1})
        loaded.push_back(load(
            vector, partials,
            mul(add(mul(add(chunk, at), ctaGroup.getThreads()), thread), 4),
            /*early=*/true));
      part.loaded.push_back(loaded);
    }
    parts.push_back(part);
  }
  visitOutputs(unit, [&](size_t index, Value column) {
    for (size_t number = 0; number < parts.size(); ++number) {
      const Part &part = parts[number];
      Value row = add(token, mul(div(part.block, numBlocks()), 8));
      Value at = add(column, mul(rem(part.block, numBlocks()), 32));
      Value inside = both(part.exists, less(row, count));
      if (Value exists = isColumn(index, at))
        inside = both(inside, exists);
      when(inside, [&] {
        Values sums;
        if (!own.empty())
          sums = own[number];
        for (const Values &loaded : part.loaded) {
          Values values = unpack(loaded[0]);
          values.append(unpack(loaded[1]));
          sums = sums.empty() ? values : addEach(sums, values);
        }
        storeOutputs(index, row, at, sums);
      });
    }
  });
}
