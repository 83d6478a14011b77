//===- BlockScales.cpp - Decode kernels: scales of blocks of products -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights with a scale for each block of 128x128, and tokens with a measured
// scale for each group of 128 columns. A k-step is such a group. Its products
// are summed into zeros, and a thread adds them to its f32 sums, times both
// scales. The scales of tokens arrive with the tokens. Those of the weights of
// a block are loaded once into shared memory, since loads wait for the weights
// in flight. A tile of GEMM1 has whole groups of hidden units.
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Tokens up to which all accumulators of a thread have a second register for
/// the products of a k-step. Above it, parts of 64 rows and `kPartTokens`
/// tokens share registers.
static constexpr int64_t kFreshTokens = 64, kPartTokens = 64;

//===----------------------------------------------------------------------===//
// Scales of weights
//===----------------------------------------------------------------------===//

void DecodeKernelBuilder::makeScaleScratch() {
  if (problem.quant && problem.hasGemm1())
    largestScratch = makeScratch(f32, kMathWarps * tokens);
  if (problem.hasTokenScales())
    tokenScales = makeScratch(f32, tokens);
  if (!problem.hasBlockScales())
    return;
  if (problem.hasGemm1()) {
    int64_t rounds = tiling.countRounds(schedule.getBlocks());
    scratch1 = makeScratch(f32, 2 * rounds * tiling.steps1);
  }
  scratch2 = makeScratch(f32, tiling.stepsPerSlice * tiling.rows / kScaleBlock);
}

/// Loads the scales of all weights of the block.
void DecodeKernelBuilder::loadWeightScales() {
  // Copies `count` scales, a thread at a time.
  auto loadEach = [&](int64_t count, Value buffer, Value target,
                      function_ref<std::pair<Value, Value>(Value)> getPlaces) {
    for (int64_t begin = 0; begin < count; begin += kMathThreads) {
      Value number = add(thread, begin), exists;
      if (begin + kMathThreads > count)
        exists = less(number, constant(count));
      when(exists, [&] {
        auto [from, to] = getPlaces(number);
        store(load(f32, buffer, from), target, to);
      });
    }
  };
  int64_t steps = tiling.steps1, parts = tiling.rows / kScaleBlock;
  for (int64_t part = 0; part < 2 && problem.hasGemm1(); ++part) {
    Value buffer = problem.isGated() && part == 0 ? gateScales : upScales;
    loadEach(tiling.countRounds(schedule.getBlocks()) * steps, buffer, scratch1,
             [&](Value number) -> std::pair<Value, Value> {
               Value tile =
                   add(block, mul(div(number, steps), schedule.getBlocks()));
               // A gated tile has one block of gate and one of up.
               Value rows = problem.isGated() ? tile : add(mul(tile, 2), part);
               rows = min(rows, constant(problem.hidden / kScaleBlock - 1));
               return {add(mul(rows, steps), rem(number, steps)),
                       add(mul(number, 2), part)};
             });
  }
  for (size_t index = 0; index < problem.outputs.size(); ++index) {
    int64_t from = tiling.firstTiles[index], to = tiling.firstTiles[index + 1];
    Value inside = hasUnit;
    if (from != 0)
      inside = both(inside, less(constant(from - 1), tile2));
    if (to != tiling.tiles2)
      inside = both(inside, less(tile2, constant(to)));
    int64_t blocks = llvm::divideCeil(problem.outputs[index].rows, kScaleBlock);
    when(inside, [&] {
      for (int64_t part = 0; part < parts; ++part)
        loadEach(tiling.stepsPerSlice, outputScales[index], scratch2,
                 [&](Value number) -> std::pair<Value, Value> {
                   Value rows =
                       add(mul(sub(tile2, constant(from)), parts), part);
                   rows = min(rows, constant(blocks - 1));
                   Value step = add(mul(slice, tiling.stepsPerSlice), number);
                   step = min(step, constant(tiling.steps2 - 1));
                   return {add(mul(rows, tiling.steps2), step),
                           add(mul(number, parts), part)};
                 });
    });
  }
  barrier();
}

DecodeKernelBuilder::RowScales DecodeKernelBuilder::getGemm1Scales(Value round,
                                                                   Value step) {
  Value at = mul(add(mul(round, tiling.steps1), step), 2);
  if (problem.isGated()) {
    Values pair = unpack(load(VectorType::get(2, f32), scratch1, at));
    return {pair[0], pair[1]};
  }
  Value scale = load(f32, scratch1, add(at, group));
  return {scale, scale};
}

DecodeKernelBuilder::RowScales DecodeKernelBuilder::getGemm2Scales(Value step) {
  Value at = tiling.rows == 256 ? add(mul(step, 2), group) : step;
  Value scale = load(f32, scratch2, at);
  return {scale, scale};
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Adds the products of a k-step to the sums of a thread, times both scales.
/// The accumulators begin at `firstToken`.
void DecodeKernelBuilder::promote(MutableArrayRef<Values> sums,
                                  ArrayRef<Value> accs, int64_t firstToken,
                                  Value tokenStage, RowScales scales) {
  Value buffer = StageBufferOp::create(
      builder, loc, BufferType::get(builder.getContext(), f32, Memory::Shared),
      tokenStage);
  Value first = add(mul(rem(lane, 4), 2), tokens * 32 + firstToken);
  SmallVector<Values> products;
  for (Value acc : accs)
    products.push_back(valuesOf(acc));
  auto groups = static_cast<int64_t>(products.front().size() / 4);
  for (int64_t group = 0; group < groups; ++group) {
    Values ofTokens =
        unpack(load(VectorType::get(2, f32), buffer, add(first, 8 * group)));
    for (auto [parity, ofToken] : llvm::enumerate(ofTokens)) {
      Value low = fmul(ofToken, scales.low);
      Values factors = {
          low, scales.high == scales.low ? low : fmul(ofToken, scales.high)};
      for (auto [own, product] : llvm::zip_equal(sums, products))
        for (auto [half, factor] : llvm::enumerate(factors)) {
          size_t at = 4 * group + 2 * half + parity;
          Value &sum = own[firstToken / 2 + at];
          sum = math::FmaOp::create(builder, loc, factor, product[at], sum);
        }
    }
  }
}

SmallVector<DecodeKernelBuilder::Values>
DecodeKernelBuilder::sumBlocks(Uses &uses, Value stages, int64_t stepsPerStage,
                               int64_t accs, int64_t kept,
                               function_ref<RowScales(Value)> getScales) {
  MLIRContext *context = builder.getContext();
  Type lhs = SharedType::get(context, 64, 128, element, 128);
  Value leader = equal(rem(thread, 128), 0);
  Value end = add(uses.token, mul(stages, stepsPerStage));
  // Accumulators that get products at a time, and their tokens.
  bool isWhole = tokens <= kFreshTokens;
  int64_t together = isWhole ? accs : 1;
  int64_t most = isWhole ? tokens : kPartTokens;
  auto multiply = [&](MutableArrayRef<Values> sums, Value weightStage,
                      int64_t step, Value tokenStage, RowScales scales) {
    Value offset = mul(group, accs * 64 * 128);
    for (int64_t firstToken = 0; firstToken < tokens; firstToken += most) {
      int64_t width = std::min(tokens - firstToken, most);
      Type rhs = SharedType::get(context, width, 128, element, 128);
      Type acc = AccType::get(context, 64, width, f32);
      Value right = ViewOp::create(builder, loc, rhs, tokenStage,
                                   constant(firstToken * 128));
      for (int64_t first = 0; first < accs; first += together) {
        SmallVector<Type> types(together, acc);
        Values fresh(together, AccZeroOp::create(builder, loc, acc));
        auto fenced = AccFenceOp::create(builder, loc, types, fresh);
        for (int64_t index = 0; index < together; ++index) {
          int64_t at = (step * 2 * accs + first + index) * 64 * 128;
          Value left =
              ViewOp::create(builder, loc, lhs, weightStage, add(offset, at));
          fresh[index] = MmaOp::create(builder, loc, acc, left, right,
                                       fenced.getResult(index));
        }
        MmaCommitOp::create(builder, loc);
        auto done = AccWaitOp::create(builder, loc, types, fresh);
        promote(sums.slice(first, together),
                llvm::to_vector_of<Value>(done.getResults()), firstToken,
                tokenStage, scales);
      }
    }
  };
  auto getSums = [&](ValueRange carried) {
    SmallVector<Values> sums;
    for (int64_t index = 0; index < accs; ++index)
      sums.push_back(llvm::to_vector_of<Value>(
          carried.slice(index * tokens / 2, tokens / 2)));
    return sums;
  };
  Values carried(accs * tokens / 2, constantF32(0));
  carried.append({uses.weight, uses.token});
  Values results = loop(
      constant(0), stages, 1, carried,
      [&](Value index, ValueRange carried) -> SmallVector<Value> {
        SmallVector<Values> sums = getSums(carried);
        Value weightUse = carried.drop_back().back(), tokenUse = carried.back();
        Value weightStage = waitFor(weightRing, weightUse);
        for (int64_t step = 0; step < stepsPerStage; ++step) {
          Value use = add(tokenUse, step);
          RowScales scales = getScales(add(mul(index, stepsPerStage), step));
          multiply(sums, weightStage, step, waitFor(tokenRing, use), scales);
          // All lanes have read their scales.
          WarpSyncOp::create(builder, loc);
          Value done = leads;
          if (kept > 0)
            done = both(done, less(add(use, kept), end));
          when(done,
               [&] { RingReleaseOp::create(builder, loc, tokenRing, use); });
        }
        when(leader, [&] {
          RingReleaseOp::create(builder, loc, weightRing, weightUse);
        });
        Values next;
        for (const Values &own : sums)
          next.append(own);
        next.append({add(weightUse, 1), add(tokenUse, stepsPerStage)});
        return next;
      });
  uses = {results[results.size() - 2], results.back()};
  return getSums(results);
}

//===----------------------------------------------------------------------===//
// Hidden units
//===----------------------------------------------------------------------===//

/// Activation and gate of a tile of GEMM1, and the scale of its groups of
/// hidden units. A thread has units of which lanes with the same four tokens
/// and all warps have the others.
void DecodeKernelBuilder::storeHiddenGroups(Value tileIndex,
                                            ArrayRef<Values> sums, Uses uses) {
  bool gated = problem.isGated();
  int64_t units = unitsOfThread(), columns = tokens / 4;
  Value local = localUnit(/*half=*/false);
  Value unit = add(firstUnit(tileIndex), local);
  Value inside, safe = unit;
  if (problem.hidden % tiling.hiddenPerTile != 0) {
    inside = less(unit, constant(problem.hidden));
    safe = select(inside, unit, constant(0));
  }
  Values biasGate = loadBias(gateBias, safe, units),
         biasUp = loadBias(upBias, safe, units);
  // Units are kept in the type that they were rounded to: threads would spill.
  Values hiddenUnits;
  Value leadsTokens = less(lane, constant(4));
  for (int64_t column = 0; column < columns; ++column) {
    int64_t group = column / 2, parity = column % 2;
    Values low, high, all;
    for (const Values &own : sums) {
      low.push_back(own[4 * group + parity]);
      high.push_back(own[4 * group + 2 + parity]);
      all.append({low.back(), high.back()});
    }
    Values values = activateAll(gated ? roundHidden(low, high, biasGate, biasUp)
                                      : roundHidden({}, all, {}, biasUp));
    hiddenUnits.push_back(pack(roundsHidden() ? narrowType : f32, values));
    Value largest = findLargestOfLanes(findLargest(values), 4 + 8 + 16);
    when(leadsTokens, [&] {
      store(largest, largestScratch,
            add(mul(getToken(column), kMathWarps), warpIndex));
    });
  }
  // Both warpgroups have also read the last tokens, whose place a tile takes
  // that leaves through shared memory.
  barrier();
  Value smemTile, byte;
  if (schedule.getSmemEpilogue()) {
    byte = mul(local, elementBytes);
    smemTile = stagedAt(uses, tiling.getHiddenStages() == 1 ? constant(0)
                                                            : div(byte, 128));
    byte = rem(byte, 128);
  }
  Value step = div(unit, kScaleBlock);
  Value storesScale =
      both(both(equal(gated ? warpIndex : warp, 0), leadsTokens), inside);
  for (int64_t column = 0; column < columns; ++column) {
    Value token = getToken(column);
    // A dense tile has a group for each warpgroup.
    Value first = mul(token, kMathWarps);
    if (!gated)
      first = add(first, mul(group, 4));
    Values ofWarps;
    for (int64_t warp = 0; warp < (gated ? kMathWarps : 4); warp += 4)
      ofWarps.append(unpack(
          load(VectorType::get(4, f32), largestScratch, add(first, warp))));
    Value scale = measureScale(findLargest(ofWarps));
    when(storesScale,
         [&] { store(scale, hiddenScales, scaleIndex(token, step)); });
    Value packed =
        pack(element, divideByScale(unpack(hiddenUnits[column]), scale));
    if (smemTile)
      store(packed, smemTile, placeOf(byte, token, tiling.getHiddenBytes()));
    else
      when(inside, [&] { store(packed, hidden, packedIndex(token, unit)); });
  }
  if (smemTile)
    return finishHidden(tileIndex, uses);
  FenceAsyncOp::create(builder, loc, /*shared=*/false);
  // The next tile reuses the largest magnitudes.
  barrier();
  when(leads, [&] {
    SemaphoreArriveOp::create(builder, loc, hiddenSemaphore(tileIndex));
  });
}
