//===- Gemm.cpp - Decode kernels: products and activation -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Accumulators of 64 rows each over `stages` stages of weights. Each stage has
/// `stepsPerStage` k-steps of all rows of a CTA. One wgmma group stays in
/// flight; stages that it does not read are released. The caller releases the
/// last `kept` token stages. `meanwhile` is activated during the first k-steps.
/// With swap-AB, a warpgroup has 64 tokens and all rows.
SmallVector<Value> DecodeKernelBuilder::mainLoop(Uses &uses, Value stages,
                                                 int64_t stepsPerStage,
                                                 int64_t accs, int64_t kept,
                                                 const Deferred *meanwhile,
                                                 bool swapAB) {
  MLIRContext *context = builder.getContext();
  int64_t columns = 128 / elementBytes;
  int64_t width = swapAB ? tiling.gemm1TileM : tokens;
  Type lhs = SharedType::get(context, 64, columns, element, 128);
  Type rhs = SharedType::get(context, width, columns, element, 128);
  Type acc = AccType::get(context, 64, width, f32);
  Value leader = equal(rem(thread, 128), 0);
  Value end = add(uses.token, mul(stages, stepsPerStage));
  auto release = [&](Value condition, Value ring, Value use) {
    when(condition, [&] { RingReleaseOp::create(builder, loc, ring, use); });
  };
  SmallVector<Type> accTypes(accs, acc);
  auto multiply = [&](Values &sums, Value weightStage, int64_t step,
                      Value tokenUse) {
    Value tokenStage = waitFor(tokenRing, tokenUse);
    // What is left of a warpgroup's lies next to each other.
    Value offset = mul(group, accs * 64 * 128);
    Value left = swapAB ? tokenStage : weightStage;
    Value right = swapAB ? weightStage : tokenStage;
    Values rows;
    for (int64_t index = 0; index < accs; ++index)
      rows.push_back(
          ViewOp::create(builder, loc, lhs, left,
                         add(offset, (step * 2 * accs + index) * 64 * 128)));
    Value all = ViewOp::create(builder, loc, rhs, right, constant(0));
    auto fenced = AccFenceOp::create(builder, loc, accTypes, sums);
    for (int64_t index = 0; index < accs; ++index)
      sums[index] = MmaOp::create(builder, loc, acc, rows[index], all,
                                  fenced.getResult(index));
    MmaCommitOp::create(builder, loc);
  };
  Values carried(accs, AccZeroOp::create(builder, loc, acc));
  int64_t overlapSteps = meanwhile ? std::min(kShares, meanwhile->steps) : 0;
  for (int64_t step = 0; step < overlapSteps; ++step) {
    Value weightUse = add(uses.weight, step), tokenUse = add(uses.token, step);
    multiply(carried, waitFor(weightRing, weightUse), 0, tokenUse);
    for (int64_t share = step * kShares / overlapSteps;
         share < (step + 1) * kShares / overlapSteps; ++share)
      activateShare(share, *meanwhile);
    MmaWaitOp::create(builder, loc, 1);
    if (step == 0)
      continue;
    release(leader, weightRing, sub(weightUse, constant(1)));
    release(leader, tokenRing, sub(tokenUse, constant(1)));
  }
  carried.append(
      {add(uses.weight, overlapSteps), add(uses.token, overlapSteps)});
  Values results =
      loop(constant(overlapSteps), stages, 1, carried,
           [&](Value index, ValueRange carried) -> SmallVector<Value> {
             Values sums = carried.take_front(accs);
             Value weightUse = carried[accs], tokenUse = carried[accs + 1];
             Value weightStage = waitFor(weightRing, weightUse);
             for (int64_t step = 0; step < stepsPerStage; ++step) {
               Value use = add(tokenUse, step);
               multiply(sums, weightStage, step, use);
               MmaWaitOp::create(builder, loc, 1);
               Value before = sub(use, constant(1));
               Value done = step == 0 && overlapSteps == 0
                                ? both(less(constant(0), index), leader)
                                : leader;
               if (step == 0)
                 release(done, weightRing, sub(weightUse, constant(1)));
               if (kept > 1)
                 done = both(done, less(add(before, kept), end));
               release(done, tokenRing, before);
             }
             sums.append({add(weightUse, 1), add(tokenUse, stepsPerStage)});
             return sums;
           });
  auto done = AccWaitOp::create(builder, loc, accTypes,
                                ValueRange(results).take_front(accs));
  uses = {results[accs], results[accs + 1]};
  release(leader, weightRing, sub(uses.weight, constant(1)));
  if (kept == 0)
    release(leader, tokenRing, sub(uses.token, constant(1)));
  return llvm::to_vector_of<Value>(done.getResults());
}

/// The first hidden unit of a thread in a tile.
Value DecodeKernelBuilder::localUnit(bool half) {
  if (problem.isGated())
    return add(add(mul(div(row8, 2), 16), mul(rem(row8, 2), 2)),
               add(mul(warp, 4), mul(group, half ? 1 : 64)));
  return add(mul(group, half ? 2 : 128), add(mul(warp, 32), mul(row8, 4)));
}

Value DecodeKernelBuilder::firstUnit(Value tileIndex) {
  if (!tiling.hasSingle())
    return mul(tileIndex, tiling.hiddenPerTile);
  // In every other tile, the run comes after the single quarter.
  Value quarter = add(mul(tileIndex, 3), rem(tileIndex, 2));
  return mul(quarter, tiling.getRun() / 2);
}

/// Activation and gate of one tile of GEMM1. Packing puts the
/// rows of a thread next to each other: gate and up of two hidden units, or
/// four hidden units; of half a tile, one or two.
void DecodeKernelBuilder::storeHidden(Value tileIndex, ValueRange accs,
                                      Uses uses) {
  bool half = accs.size() == 1;
  int64_t units = (problem.isGated() ? 2 : 4) / (half ? 2 : 1);
  Value local = localUnit(half);
  Value unit = add(firstUnit(tileIndex), local);
  Value inside, safe = unit;
  if (problem.hidden % tiling.hiddenPerTile != 0) {
    inside = less(unit, constant(wholeSteps(problem.hidden)));
    safe = select(less(unit, constant(problem.hidden)), unit, constant(0));
  }
  Values biasGate = loadBias(gateBias, safe, units),
         biasUp = loadBias(upBias, safe, units);

  // A tile that leaves through shared memory takes the place of the last
  // tokens, which both warpgroups have read by then.
  Value smemTile, byte;
  if (schedule.getSmemEpilogue()) {
    barrier();
    byte = mul(local, elementBytes);
    smemTile = stagedAt(uses, tiling.getHiddenStages() == 1 ? constant(0)
                                                            : div(byte, 128));
    byte = rem(byte, 128);
  }

  if (smemTile && half && canDefer(problem)) {
    activateTokens(roundTile(tileIndex, accs[0]), 0, tokens / 8, smemTile);
    return finishHidden(tileIndex, uses);
  }
  SmallVector<Values> sums;
  for (Value acc : accs)
    sums.push_back(valuesOf(acc));
  // Tokens that are eight apart lie at a constant distance.
  Values places;
  for (int64_t parity : {0, 1}) {
    Value token = add(mul(rem(lane, 4), 2), parity);
    places.push_back(
        smemTile
            ? div(placeOf(byte, token, tiling.getHiddenBytes()), elementBytes)
            : packedIndex(token, unit));
  }
  int64_t distance =
      8 * (smemTile ? tiling.getHiddenBytes() : 128) / elementBytes;
  for (int64_t column = 0; column < tokens / 4; ++column) {
    int64_t group = column / 2, parity = column % 2;
    // Of each accumulator the thread's row in the lower and the upper half.
    Values low, high, all;
    for (const Values &own : sums) {
      low.push_back(own[4 * group + parity]);
      high.push_back(own[4 * group + 2 + parity]);
      all.append({low.back(), high.back()});
    }
    Value at = add(places[parity], group * distance);
    auto storeColumn = [&](Value buffer) {
      Rounded values = problem.isGated()
                           ? roundHidden(low, high, biasGate, biasUp)
                           : roundHidden({}, all, {}, biasUp);
      store(activateHidden(values), buffer, at);
    };
    // Rows past the last token belong to the workspace too. Storing them spares
    // a branch for each column, which would keep the columns from overlapping.
    if (smemTile)
      storeColumn(smemTile);
    else
      when(inside, [&] { storeColumn(hidden); });
  }
  if (smemTile)
    return finishHidden(tileIndex, uses);
  padHidden(tileIndex);
  // Every warp arrives for itself.
  FenceAsyncOp::create(builder, loc, /*shared=*/false);
  WarpSyncOp::create(builder, loc);
  when(leads, [&] {
    SemaphoreArriveOp::create(builder, loc, hiddenSemaphore(tileIndex));
  });
}

/// A tile leaves the stages that it took the place of.
void DecodeKernelBuilder::finishHidden(Value tileIndex, Uses uses) {
  int64_t stages = tiling.getHiddenStages();
  barrier();
  for (int64_t index = 0; index < tiling.getRunStages(); ++index)
    copyHidden(tileIndex, stagedAt(uses, constant(index)),
               index * 128 / elementBytes);
  if (tiling.hasSingle())
    copySingle(tileIndex, uses);
  FenceAsyncOp::create(builder, loc, /*shared=*/false);
  barrier();
  when(equal(thread, 0), [&] {
    SemaphoreArriveOp::create(builder, loc, hiddenSemaphore(tileIndex));
    // For all consumers.
    for (int64_t index = 0; index < stages; ++index)
      for (int64_t consumer = 0; consumer < tokenConsumers(); ++consumer)
        RingReleaseOp::create(builder, loc, tokenRing,
                              sub(uses.token, constant(stages - index)));
  });
}

/// The `index`-th of the last token stages, as a place for hidden units.
Value DecodeKernelBuilder::stagedAt(Uses uses, Value index) {
  Value first = sub(uses.token, constant(tiling.getHiddenStages()));
  return StageBufferOp::create(
      builder, loc,
      BufferType::get(builder.getContext(), element, Memory::Shared),
      waitFor(tokenRing, add(first, index)));
}

/// The semaphore of the K-slice that a tile belongs to.
Value DecodeKernelBuilder::hiddenSemaphore(Value tileIndex) {
  if (tiling.parts == 1)
    return semaphore(add(div(tileIndex, tiling.tilesPerSlice), 1));
  Value part = div(tileIndex, tiling.tilesPerPart);
  Value slice = div(rem(tileIndex, tiling.tilesPerPart), tiling.tilesPerSlice);
  return semaphore(add(add(mul(part, tiling.slices), slice), 1));
}

/// Copies hidden units from shared memory, 16 bytes of a token at a time: a
/// tensor copy would wait for the weights, which the same engine copies.
void DecodeKernelBuilder::copyHidden(Value tileIndex, Value smemTile,
                                     int64_t firstUnit) {
  int64_t rowBytes = tiling.getHiddenBytes(), perRow = rowBytes / 16;
  int64_t units = 16 / elementBytes, pieces = tokens * perRow;
  Type vector = VectorType::get(units, element);
  for (int64_t begin = 0; begin < pieces; begin += kMathThreads) {
    Value piece = add(thread, begin), exists;
    if (begin + kMathThreads > pieces)
      exists = less(piece, constant(pieces));
    Value token = div(piece, perRow), chunk = rem(piece, perRow);
    Value unit =
        add(add(this->firstUnit(tileIndex), firstUnit), mul(chunk, units));
    if (tiling.tiles1 * tiling.hiddenPerTile != problem.hidden)
      exists = both(exists, less(unit, constant(wholeSteps(problem.hidden))));
    when(exists, [&] {
      Value at = placeOf(mul(chunk, 16), token, rowBytes);
      store(load(vector, smemTile, div(at, elementBytes)), hidden,
            packedIndex(token, unit));
    });
  }
  padHidden(tileIndex);
}

/// Stores zeros where the last k-step extends past the last tile, which may be
/// half of a tile. Uninitialized memory could hold NaN, and NaN times the zero
/// weights is NaN.
void DecodeKernelBuilder::padHidden(Value tileIndex) {
  int64_t from = tiling.tiles1 * tiling.hiddenPerTile;
  int64_t units = 16 / elementBytes, perRow = (wholeSteps(from) - from) / units;
  int64_t pieces = tiling.hasSingle() ? 0 : tokens * perRow;
  Value last;
  if (pieces > 0)
    last = equal(tileIndex, tiling.tiles1 - 1);
  for (int64_t begin = 0; begin < pieces; begin += kMathThreads) {
    Value piece = add(thread, begin), exists = last;
    if (begin + kMathThreads > pieces)
      exists = both(exists, less(piece, constant(pieces)));
    when(exists, [&] {
      Value unit = add(mul(rem(piece, perRow), units), from);
      Value zeros = quantize(Values(units, constantF32(0)), hiddenScale);
      store(zeros, hidden, packedIndex(div(piece, perRow), unit));
    });
  }
}

/// Index of a token's element in the workspace. K-steps are consecutive, with
/// 128 bytes per token and the swizzle of a stage. A plain bulk copy of a
/// k-step is therefore a valid operand.
Value DecodeKernelBuilder::packedIndex(Value token, Value column) {
  Value byte = mul(column, elementBytes);
  Value line = add(mul(div(byte, 128), tokens), token);
  Value chunk = arith::XOrIOp::create(builder, loc, div(rem(byte, 128), 16),
                                      rem(token, 8));
  Value at = add(mul(line, 128), mul(chunk, 16));
  if (problem.hasBlockScales())
    at = add(at, mul(div(byte, 128),
                     getTokenStageBytes(problem, tokens) - tokens * 128));
  at = add(at, rem(byte, 16));
  return div(at, elementBytes);
}

/// Offset of a byte of a token's hidden units in shared memory. Pieces of 16
/// bytes are permuted like a swizzle. A warp stores one value of four even or
/// four odd tokens and of four pieces at a time. The permutation puts the
/// values of two tokens into different banks.
Value DecodeKernelBuilder::placeOf(Value byte, Value token, int64_t rowBytes) {
  auto flip = [&](Value x, Value y) -> Value {
    return arith::XOrIOp::create(builder, loc, x, y);
  };
  Value at = mul(token, rowBytes), pair = rem(div(token, 2), 4);
  if (rowBytes == 64) {
    // Two tokens share a line; those of every other pair change places. What is
    // added is the same for all tokens that are 8 apart.
    Value odd = rem(token, 2);
    Value moved = sub(flip(odd, rem(pair, 2)), odd);
    return add(add(at, mul(moved, 64)), byte);
  }
  // Pieces that are neighbors move by two from one pair to the next.
  bool apart = tiling.gemm1TileM != 256 && elementBytes == 2;
  Value moved = flip(div(byte, 16), apart ? pair : rem(token, rowBytes / 16));
  return add(at, add(mul(moved, 16), rem(byte, 16)));
}

//===----------------------------------------------------------------------===//
// Deferred activations
//===----------------------------------------------------------------------===//

/// Gate and up of a tile, or the two units that a thread has of a dense one,
/// in pairs of neighboring tokens.
Rounded DecodeKernelBuilder::roundTile(Value tileIndex, Value acc) {
  Values sums = valuesOf(acc);
  return roundUnits(sums, add(firstUnit(tileIndex), localUnit(/*half=*/true)));
}

/// The same of the sums of a thread whose first hidden unit is `unit`.
Rounded DecodeKernelBuilder::roundUnits(ArrayRef<Value> sums, Value unit) {
  Values low, high;
  for (size_t index = 0; index < sums.size(); index += 4) {
    low.append({sums[index], sums[index + 1]});
    high.append({sums[index + 2], sums[index + 3]});
  }
  if (tiling.tiles1 * tiling.hiddenPerTile != problem.hidden)
    unit = select(less(unit, constant(problem.hidden)), unit, constant(0));
  auto repeat = [&](ArrayRef<Value> biases) {
    Values repeated;
    for (Value bias : biases)
      repeated.append(low.size(), bias);
    return repeated;
  };
  Values biasGate = repeat(loadBias(gateBias, unit, 1));
  Values biasUp = repeat(loadBias(upBias, unit, problem.isGated() ? 1 : 2));
  if (problem.isGated())
    return roundHidden(low, high, biasGate, biasUp);
  low.append(high);
  return roundHidden({}, low, {}, biasUp);
}

/// Activates what a thread has of groups of eight tokens of half a tile.
void DecodeKernelBuilder::activateTokens(const Rounded &values,
                                         int64_t firstGroup, int64_t lastGroup,
                                         Value smemTile) {
  Value byte = mul(localUnit(/*half=*/true), elementBytes);
  if (tiling.getHiddenStages() > 1)
    byte = rem(byte, 128);
  activateAt(values, firstGroup, lastGroup, smemTile,
             {byte, Value(), tiling.getHiddenBytes()});
}

void DecodeKernelBuilder::activateAt(const Rounded &values, int64_t firstGroup,
                                     int64_t lastGroup, Value smemTile,
                                     Place place) {
  int64_t rows = problem.isGated() ? 1 : 2;
  int64_t groups = values.getSize() / (2 * rows);
  // Tokens that are eight apart lie at a constant distance.
  Values places;
  for (int64_t parity : {0, 1}) {
    Value token = add(mul(rem(lane, 4), 2), parity);
    if (place.token)
      token = add(place.token, token);
    places.push_back(
        div(placeOf(place.byte, token, place.rowBytes), elementBytes));
  }
  int64_t distance = 8 * place.rowBytes / elementBytes;
  for (int64_t group = firstGroup; group < lastGroup; ++group) {
    SmallVector<Values> units;
    for (int64_t row = 0; row < rows; ++row)
      units.push_back(activateAll(values.slice(2 * (row * groups + group), 2)));
    for (int64_t parity : {0, 1}) {
      Values ofToken;
      for (const Values &unit : units)
        ofToken.push_back(unit[parity]);
      store(quantize(ofToken, hiddenScale), smemTile,
            add(places[parity], group * distance));
    }
  }
}

/// Activates some of the tokens of a deferred tile. The last share completes
/// the tile, and another warp arrives for it.
void DecodeKernelBuilder::activateShare(int64_t share, const Deferred &tile) {
  int64_t groups = tokens / 8;
  // The tile before has left the staging buffer.
  if (share == 0)
    barrier();
  activateTokens(tile.values, share * groups / kShares,
                 (share + 1) * groups / kShares, staging);
  if (share + 1 != kShares)
    return;
  barrier();
  when(tile.exists, [&] {
    copyHidden(tile.tileIndex, staging, /*firstUnit=*/0);
    BarrierArriveOp::create(builder, loc, kTileBarrier + tile.part,
                            kMathThreads + 32);
  });
}

/// The two tiles of the block, of which the second waits then.
DecodeKernelBuilder::Deferred
DecodeKernelBuilder::multiplyDeferred(Uses &uses) {
  Value zero = arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(VectorType::get(2, narrowType)));
  Values none = {uses.weight, uses.token};
  none.append(tokens / 4, zero);
  // Not a loop really: a block has a pair of tiles or none.
  Values last =
      loop(block, constant(tiling.tilesPerPart), schedule.getBlocks(), none,
           [&](Value tile, ValueRange carried) -> SmallVector<Value> {
             Uses uses{carried[0], carried[1]};
             Values accs =
                 mainLoop(uses, constant(tiling.steps1), /*stepsPerStage=*/1,
                          /*accs=*/1, /*kept=*/0, nullptr);
             Deferred first{tile, Value(), 0, tiling.steps1,
                            roundTile(tile, accs[0])};
             accs = mainLoop(uses, constant(tiling.steps1), 1, 1, 0, &first);
             Values next = {uses.weight, uses.token};
             llvm::append_range(
                 next,
                 roundTile(add(tile, tiling.tilesPerPart), accs[0]).getPairs());
             return next;
           });
  uses = {last[0], last[1]};
  Value exists;
  if (tiling.tilesPerPart != schedule.getBlocks())
    exists = less(block, constant(tiling.tilesPerPart));
  return {
      add(block, tiling.tilesPerPart), exists, 1, tiling.stepsPerSlice / 2,
      Rounded::fromPairs(ValueRange(last).drop_front(2), problem.isGated())};
}

void DecodeKernelBuilder::multiplyGemm1(Uses &uses) {
  Value hasTile;
  if (problem.hasTokenScales()) {
    hasTile = less(block, constant(tiling.tiles1));
    when(hasTile,
         [&] { loadTokenScales(inputScales, constant(0), uses.token); });
  }
  int64_t kept = schedule.getSmemEpilogue() ? tiling.getHiddenStages() : 0;
  Values next = loop(
      block, constant(tiling.tiles1), schedule.getBlocks(),
      {uses.weight, uses.token},
      [&](Value tile, ValueRange carried) -> SmallVector<Value> {
        Uses uses{carried[0], carried[1]};
        if (tiling.hasSingle()) {
          storeTile192(tile, multiplyTile192(uses, kept), uses);
          return {uses.weight, uses.token};
        }
        int64_t count = tiling.swapAB ? 1 : tiling.gemm1TileM / 128;
        if (problem.hasBlockScales()) {
          Value round = div(sub(tile, block), schedule.getBlocks());
          SmallVector<Values> sums = sumBlocks(
              uses, constant(tiling.steps1), /*stepsPerStage=*/1, count, kept,
              [&](Value step) { return getGemm1Scales(round, step); });
          storeHiddenGroups(tile, sums, uses);
          return {uses.weight, uses.token};
        }
        ChannelScales scales;
        if (problem.hasTokenScales())
          scales = loadHiddenChannelScales(tile);
        Values accs =
            mainLoop(uses, constant(tiling.steps1), /*stepsPerStage=*/1, count,
                     kept, nullptr, tiling.swapAB);
        if (problem.hasTokenScales()) {
          SmallVector<Values> sums;
          for (Value acc : accs)
            sums.push_back(valuesOf(acc));
          storeActivated(tile, sums, scales);
        } else if (tiling.swapAB)
          storeGroups(tile, accs[0]);
        else
          storeHidden(tile, accs, uses);
        return {uses.weight, uses.token};
      });
  uses = {next[0], next[1]};
  if (problem.hasTokenScales())
    when(hasTile, [&] { quantizeActivated(); });
}
