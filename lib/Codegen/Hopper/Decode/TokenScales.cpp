//===- TokenScales.cpp - Decode kernels: scales of tokens and channels ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights with a scale for each output channel, and tokens with a measured
// scale each. Products are those of static scales. The scale of a token's
// hidden units needs the largest of all of them: blocks store the units of
// their tiles and the largest of each token, wait for all tiles, and then
// quantize what they have stored. The weights of GEMM2 arrive meanwhile.
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Brings the scales of all tokens to shared memory, from element `first` of a
/// buffer. They are there when the token stage of use `use` is.
void DecodeKernelBuilder::loadTokenScales(Value buffer, Value first,
                                          Value use) {
  waitFor(tokenRing, use);
  when(less(thread, constant(tokens)), [&] {
    store(load(f32, buffer, add(first, thread)), tokenScales, thread);
  });
  barrier();
}

DecodeKernelBuilder::Values
DecodeKernelBuilder::loadChannelScales(Value buffer, Value row, int64_t count) {
  return unpack(load(VectorType::get(count, f32), buffer, row));
}

/// The scales of a thread's rows of a tile.
DecodeKernelBuilder::ChannelScales
DecodeKernelBuilder::loadHiddenChannelScales(Value tileIndex) {
  Value unit = add(firstUnit(tileIndex), localUnit(/*half=*/false));
  if (tiling.tiles1 * tiling.hiddenPerTile != problem.hidden)
    unit = select(less(unit, constant(problem.hidden)), unit, constant(0));
  ChannelScales scales;
  if (problem.isGated())
    scales.gate = loadChannelScales(gateScales, unit, unitsOfThread());
  scales.up = loadChannelScales(upScales, unit, unitsOfThread());
  return scales;
}

/// Activation and gate of a tile of GEMM1. A thread stores its units for
/// itself.
void DecodeKernelBuilder::storeActivated(Value tileIndex, ArrayRef<Values> sums,
                                         const ChannelScales &scales) {
  Value unit = add(firstUnit(tileIndex), localUnit(/*half=*/false));
  Value inside, safe = unit;
  if (tiling.tiles1 * tiling.hiddenPerTile != problem.hidden) {
    inside = less(unit, constant(problem.hidden));
    safe = select(inside, unit, constant(0));
  }
  Values biasGate = loadBias(gateBias, safe, unitsOfThread()),
         biasUp = loadBias(upBias, safe, unitsOfThread());
  Type kept = roundsHidden() ? narrowType : f32;
  for (int64_t column = 0; column < tokens / 4; ++column) {
    int64_t group = column / 2, parity = column % 2;
    Value token = getToken(column);
    Value ofToken = load(f32, tokenScales, token);
    Values low, high, all;
    for (const Values &own : sums) {
      low.push_back(own[4 * group + parity]);
      high.push_back(own[4 * group + 2 + parity]);
      all.append({low.back(), high.back()});
    }
    auto scaleEach = [&](ArrayRef<Value> values, ArrayRef<Value> ofRows) {
      return zip(values, ofRows, [&](Value value, Value ofRow) {
        return fmul(value, fmul(ofToken, ofRow));
      });
    };
    Values units = activateAll(
        problem.isGated()
            ? roundHidden(scaleEach(low, scales.gate),
                          scaleEach(high, scales.up), biasGate, biasUp)
            : roundHidden({}, scaleEach(all, scales.up), {}, biasUp));
    // Units past the end count as zeros.
    if (inside)
      units = each(units, [&](Value unit) {
        return select(inside, unit, constantF32(0));
      });
    store(pack(kept, units), activated, activatedIndex(tileIndex, column));
    Value largest = findLargestOfLanes(findLargest(units), 4 + 8 + 16);
    when(less(lane, constant(4)), [&] {
      store(largest, largestScratch, add(mul(token, kMathWarps), warpIndex));
    });
  }
  barrier();
  when(less(thread, constant(tokens)), [&] {
    Value first = mul(thread, kMathWarps);
    Values ofWarps;
    for (int64_t warp = 0; warp < kMathWarps; warp += 4)
      ofWarps.append(unpack(
          load(VectorType::get(4, f32), largestScratch, add(first, warp))));
    store(findLargest(ofWarps), largestUnits,
          add(mul(tileIndex, tokens), thread));
  });
  barrier();
  when(equal(thread, 0), [&] {
    SemaphoreArriveOp::create(builder, loc,
                              semaphore(constant(largestSemaphore())));
  });
}

/// Waits for the largest hidden units of all tiles, and quantizes the tiles of
/// the block.
void DecodeKernelBuilder::quantizeActivated() {
  when(equal(thread, 0), [&] {
    Value epoch = load(builder.getI32Type(), epochBuffer, constant(0));
    SemaphoreWaitOp::create(builder, loc,
                            semaphore(constant(largestSemaphore())), epoch,
                            constant(tiling.tiles1));
  });
  barrier();
  // Several threads read the tiles of a token.
  int64_t parts = std::min(kMathWarps, kMathThreads / tokens);
  Value token = rem(thread, tokens), part = div(thread, tokens);
  when(less(part, constant(parts)), [&] {
    Values ofTiles;
    for (int64_t tile = 0; tile < tiling.tiles1; tile += parts) {
      Value index = min(add(part, tile), constant(tiling.tiles1 - 1));
      ofTiles.push_back(
          load(f32, largestUnits, add(mul(index, tokens), token)));
    }
    store(findLargest(ofTiles), largestScratch,
          add(mul(token, kMathWarps), part));
  });
  barrier();
  auto visitTiles = [&](function_ref<void(Value)> visit) {
    loop(block, constant(tiling.tiles1), schedule.getBlocks(), {},
         [&](Value tile, ValueRange) -> SmallVector<Value> {
           visit(tile);
           return {};
         });
  };
  when(less(thread, constant(tokens)), [&] {
    Values ofParts;
    for (int64_t part = 0; part < parts; ++part)
      ofParts.push_back(
          load(f32, largestScratch, add(mul(thread, kMathWarps), part)));
    Value scale = measureScale(findLargest(ofParts));
    store(scale, tokenScales, thread);
    visitTiles([&](Value tile) {
      store(scale, hiddenScales, add(mul(tile, tokens), thread));
    });
  });
  barrier();
  auto kept =
      VectorType::get(unitsOfThread(), roundsHidden() ? narrowType : f32);
  visitTiles([&](Value tile) {
    Value unit = add(firstUnit(tile), localUnit(/*half=*/false)), inside;
    if (tiling.tiles1 * tiling.hiddenPerTile != wholeSteps(problem.hidden))
      inside = less(unit, constant(wholeSteps(problem.hidden)));
    for (int64_t column = 0; column < tokens / 4; ++column) {
      Value token = getToken(column);
      Values units =
          unpack(load(kept, activated, activatedIndex(tile, column)));
      Value packed =
          pack(element, divideByScale(units, load(f32, tokenScales, token)));
      when(inside, [&] { store(packed, hidden, packedIndex(token, unit)); });
    }
    // Every warp arrives for itself.
    FenceAsyncOp::create(builder, loc, /*shared=*/false);
    WarpSyncOp::create(builder, loc);
    when(leads, [&] {
      SemaphoreArriveOp::create(builder, loc, hiddenSemaphore(tile));
    });
  });
}
