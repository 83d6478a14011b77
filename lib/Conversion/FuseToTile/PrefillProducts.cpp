//===- PrefillProducts.cpp - Prefill kernels: products and epilogues ------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packed row p of a tile, `wl(1) m(1) warp(2) half(1) lr(3)`, is a column of
// the product. A thread holds columns `lr = 2 (lane mod 4) + {0, 1}` of every
// eight, which packing has made neighbours: 16 hidden units of a gated MLP
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
                [&] { RingReleaseOp::create(b, loc, ring, use); });
  when(both(condition, less(index, c(s.getCluster()))),
       [&] { RingReleaseOp::create(b, loc, ring, use, index); });
}

/// First k-steps of a tile that shadow the epilogue of the tile before.
static constexpr int64_t kQuarters = 4;

/// The sums of 64 tokens by the rows of a tile that a thread has. One group of
/// products stays in flight; what it does not read is released.
PrefillKernelBuilder::Values
PrefillKernelBuilder::mainLoop(Value &use, Value steps,
                               function_ref<void(int64_t)> meanwhile) {
  MLIRContext *context = b.getContext();
  int64_t columns = 128 / elementBytes;
  Type lhs = SharedType::get(context, 64, columns, element, 128);
  Type rhs = SharedType::get(context, product.rows, columns, element, 128);
  Type acc = AccType::get(context, 64, product.rows, f32);
  auto multiply = [&](Value sums, Value use) -> Value {
    Value stage = RingWaitOp::create(b, loc, stageType(), ring, use);
    Value tokens = ViewOp::create(b, loc, lhs, stage, mul(group, 64 * 128));
    Value weights = ViewOp::create(b, loc, rhs, stage, c(kTokenTile * 128));
    auto fenced = AccFenceOp::create(b, loc, acc, sums);
    sums = MmaOp::create(b, loc, acc, tokens, weights, fenced.getResult(0));
    MmaCommitOp::create(b, loc);
    return sums;
  };
  Value sums = AccZeroOp::create(b, loc, acc);
  int64_t shadows = 0;
  if (meanwhile) {
    shadows = std::min(kQuarters, product.steps);
    for (int64_t step = 0; step < shadows; ++step) {
      sums = multiply(sums, add(use, step));
      for (int64_t index = step * kQuarters / shadows;
           index < (step + 1) * kQuarters / shadows; ++index)
        meanwhile(index);
      MmaWaitOp::create(b, loc, 1);
      if (step > 0)
        release(Value(), add(use, step - 1));
    }
  }
  Values results =
      loop(c(shadows), steps, 1, ValueRange{sums, add(use, shadows)},
           [&](Value step, ValueRange carried) -> Values {
             Value next = multiply(carried[0], carried[1]);
             MmaWaitOp::create(b, loc, 1);
             release(shadows > 0 ? Value() : less(c(0), step),
                     sub(carried[1], c(1)));
             return {next, add(carried[1], 1)};
           });
  use = results[1];
  auto done = AccWaitOp::create(b, loc, acc, results[0]);
  release(Value(), sub(use, c(1)));
  return llvm::to_vector_of<Value>(
      AccValuesOp::create(b, loc, SmallVector<Type>(product.rows / 2, f32),
                          done.getResult(0))
          .getResults());
}

void PrefillKernelBuilder::multiply() {
  thread = sub(id(IdKind::Thread), c(team.first * 32));
  warpIndex = sub(id(IdKind::Warp), c(team.first));
  group = div(warpIndex, 4);
  warp = rem(warpIndex, 4);
  lane = id(IdKind::Lane);
  depend();
  if (isFirst())
    multiplyFirst();
  else
    multiplyLast();
}

/// What is rounded to bf16 anyway waits in half as many registers until the
/// next tile is under way.
void PrefillKernelBuilder::multiplyFirst() {
  bool waits = p.roundsAt("up") && (!p.isGated() || p.roundsAt("gate"));
  if (!waits) {
    visitUnits(c(0), [&](Value index, ValueRange carried) -> Values {
      Unit unit = locate(index);
      Value use = carried[0], token = firstToken(unit);
      Values sums = mainLoop(use, c(product.steps), {});
      Value column = mul(unit.tile, tiling.hiddenPerTile);
      for (int64_t index = 0; index < kQuarters; ++index)
        storeQuarter(getQuarter(index), token, column,
                     roundQuarter(getQuarter(index), column, sums));
      return {use};
    });
    return;
  }
  // Carried: uses, token and first hidden unit of the tile that waits, and its
  // quarters. Before the first tile, the token is none that exists.
  Values first = {c(0), count, c(0)};
  Value zero = arith::ConstantOp::create(
      b, loc, b.getZeroAttr(VectorType::get(2, bf16)));
  first.append(product.rows / 4, zero);
  auto getWaiting = [&](int64_t index, ValueRange carried) {
    size_t size = product.rows / 4 / kQuarters;
    return Rounded::fromPairs(carried.slice(3 + index * size, size),
                              p.isGated());
  };
  Values last = visitUnits(first, [&](Value index, ValueRange carried) {
    Unit unit = locate(index);
    Value use = carried[0];
    Values sums = mainLoop(use, c(product.steps), [&](int64_t index) {
      storeQuarter(getQuarter(index), carried[1], carried[2],
                   getWaiting(index, carried));
    });
    Value column = mul(unit.tile, tiling.hiddenPerTile);
    Values next = {use, firstToken(unit), column};
    for (int64_t index = 0; index < kQuarters; ++index)
      llvm::append_range(
          next, roundQuarter(getQuarter(index), column, sums).getPairs());
    return next;
  });
  for (int64_t index = 0; index < kQuarters; ++index)
    storeQuarter(getQuarter(index), last[1], last[2], getWaiting(index, last));
}

void PrefillKernelBuilder::multiplyLast() {
  visitUnits(c(0), [&](Value index, ValueRange carried) -> Values {
    Unit unit = locate(index);
    Value use = carried[0];
    Values sums = mainLoop(use, getSteps(unit), {});
    if (product.ranges == 1) {
      storeTile(unit, sums);
      return {use};
    }
    Value first = mul(unit.index, product.ranges);
    storePartials(add(first, unit.range), sums);
    WarpSyncOp::create(b, loc);
    when(equal(lane, 0), [&] {
      Value word = WordOp::create(
          b, loc, WordType::get(b.getContext()), words,
          add(mul(unit.index, team.last - team.first), warpIndex));
      WordMeetOp::create(b, loc, word, product.ranges);
    });
    WarpSyncOp::create(b, loc);
    sumPartials(unit, first);
    return {use};
  });
}

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

Value PrefillKernelBuilder::firstToken(const Unit &unit) {
  return add(add(mul(unit.tokenTile, kTokenTile), mul(group, 64)),
             add(mul(warp, 16), div(lane, 4)));
}

/// Block w of 32 packed rows is wl = w / 4 and warp = w mod 4.
PrefillKernelBuilder::Values
PrefillKernelBuilder::getBlock(ArrayRef<Value> sums, int64_t half,
                               int64_t block) {
  Values values;
  int64_t wl = block / 4, w = block % 4;
  for (int64_t lr : {0, 1})
    for (int64_t m : {0, 1})
      for (int64_t row : {0, 1})
        values.push_back(
            sums[4 * (wl * 16 + m * 8 + w * 2 + row) + 2 * half + lr]);
  return values;
}

/// The first hidden unit of a thread in a block of a quarter: all four blocks
/// of a gated MLP are neighbours.
Value PrefillKernelBuilder::firstUnitOf(Quarter quarter, Value column,
                                        int64_t block) {
  Value quad = rem(lane, 4);
  if (p.isGated())
    return add(add(column, quarter.wl * 64), mul(quad, 16));
  return add(add(column, quarter.wl * 128 + block * 32), mul(quad, 8));
}

Rounded PrefillKernelBuilder::roundQuarter(Quarter quarter, Value column,
                                           ArrayRef<Value> sums) {
  // Hidden units past the end read some bias that exists.
  auto loadInside = [&](Value buffer, Value first, int64_t size) {
    if (p.hidden % tiling.hiddenPerTile != 0)
      first = select(less(first, c(p.hidden)), first, c(0));
    return loadBias(buffer, first, size);
  };
  Values gate, up, biasGate, biasUp;
  for (int64_t block = 0; block < 4; ++block)
    for (auto [index, value] :
         llvm::enumerate(getBlock(sums, quarter.half, quarter.wl * 4 + block)))
      // Neighbours in a block are gate and up.
      (p.isGated() && index % 2 == 0 ? gate : up).push_back(value);
  for (int64_t block = 0; block < (p.isGated() ? 1 : 4); ++block) {
    Value first = firstUnitOf(quarter, column, block);
    int64_t size = p.isGated() ? 16 : 8;
    biasGate.append(loadInside(gateBias, first, size));
    biasUp.append(loadInside(upBias, first, size));
  }
  return roundHidden(gate, up, biasGate, biasUp);
}

void PrefillKernelBuilder::storeQuarter(Quarter quarter, Value token,
                                        Value column, const Rounded &values) {
  // What one access stores, of units that are neighbours.
  int64_t size = p.isGated() ? 16 / elementBytes : 8;
  int64_t count = values.getSize() / size;
  Values vectors;
  for (int64_t index = 0; index < count; ++index)
    vectors.push_back(activateHidden(values.slice(index * size, size)));
  Value row = add(token, 8 * quarter.half);
  Value exists = less(row, this->count);
  Value at = mul(row, p.hidden);
  auto storeVector = [&](int64_t index, Value first) {
    when(p.hidden % tiling.hiddenPerTile != 0 ? less(first, c(p.hidden))
                                              : Value(),
         [&] { store(vectors[index], hidden, add(at, first)); });
  };
  when(exists, [&] {
    for (int64_t index = 0; index < count; ++index) {
      if (p.isGated())
        storeVector(index, add(firstUnitOf(quarter, column, 0), index * size));
      else
        storeVector(index, firstUnitOf(quarter, column, index));
    }
  });
}

void PrefillKernelBuilder::visitOutputs(
    const Unit &unit, function_ref<void(size_t, Value)> body) {
  for (size_t index = 0; index < p.outputs.size(); ++index) {
    int64_t from = tiling.firstTiles[index], to = tiling.firstTiles[index + 1];
    Value inside;
    if (from != 0)
      inside = less(c(from - 1), unit.tile);
    if (to != tiling.tiles2)
      inside = both(inside, less(unit.tile, c(to)));
    when(inside, [&] {
      body(index, add(mul(sub(unit.tile, c(from)), product.rows),
                      mul(rem(lane, 4), 8)));
    });
  }
}

void PrefillKernelBuilder::storeTile(const Unit &unit, ArrayRef<Value> sums) {
  Value token = firstToken(unit);
  visitOutputs(unit, [&](size_t index, Value column) {
    int64_t width = p.outputs[index].rows;
    // One branch for a row, so that the loads of what is added overlap.
    for (int64_t half : {0, 1}) {
      Value row = add(token, 8 * half);
      when(less(row, count), [&] {
        for (int64_t block = 0; block < numBlocks(); ++block) {
          Value at = add(column, block * 32);
          Value inside =
              width % product.rows != 0 ? less(at, c(width)) : Value();
          when(inside, [&] {
            storeOutputs(index, row, at, getBlock(sums, half, block));
          });
        }
      });
    }
  });
}

//===----------------------------------------------------------------------===//
// Sums over ranges
//===----------------------------------------------------------------------===//

/// In fragment order: chunk c of a unit is four values of every thread.
void PrefillKernelBuilder::storePartials(Value unit, ArrayRef<Value> sums) {
  Value first = mul(unit, numChunks());
  int64_t chunk = 0;
  for (int64_t half : {0, 1})
    for (int64_t block = 0; block < numBlocks(); ++block) {
      Values values = getBlock(sums, half, block);
      for (int64_t at : {0, 4}) {
        Value index = add(mul(add(first, chunk++), team.getThreads()), thread);
        store(pack(f32, ValueRange(values).slice(at, 4)), partials,
              mul(index, 4));
      }
    }
}

/// Every range sums up its share of the blocks, all in the same order, so that
/// the result does not depend on which one is early.
void PrefillKernelBuilder::sumPartials(const Unit &unit, Value first) {
  int64_t blocks = 2 * numBlocks(), ranges = product.ranges;
  int64_t share = llvm::divideCeil(blocks, ranges);
  Type vector = VectorType::get(4, f32);
  Value token = firstToken(unit);
  struct Part {
    Value block, exists;
    SmallVector<Values> loaded;
  };
  SmallVector<Part> parts;
  for (int64_t index = 0; index < share; ++index) {
    Part part;
    part.block = add(mul(unit.range, share), index);
    if (share * ranges != blocks) {
      part.exists = less(part.block, c(blocks));
      part.block = min(part.block, c(blocks - 1));
    }
    for (int64_t range = 0; range < ranges; ++range) {
      Values loaded;
      Value chunk =
          add(mul(add(first, range), numChunks()), mul(part.block, 2));
      for (int64_t at : {0, 1})
        loaded.push_back(
            load(vector, partials,
                 mul(add(mul(add(chunk, at), team.getThreads()), thread), 4),
                 /*early=*/true));
      part.loaded.push_back(loaded);
    }
    parts.push_back(part);
  }
  visitOutputs(unit, [&](size_t index, Value column) {
    int64_t width = p.outputs[index].rows;
    for (const Part &part : parts) {
      Value row = add(token, mul(div(part.block, numBlocks()), 8));
      Value at = add(column, mul(rem(part.block, numBlocks()), 32));
      Value inside = both(part.exists, less(row, count));
      if (width % product.rows != 0)
        inside = both(inside, less(at, c(width)));
      when(inside, [&] {
        Values sums;
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
