//===- Epilogues.cpp - What follows the products of mma kernels -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MmaFrame.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

//===----------------------------------------------------------------------===//
// Hidden units
//===----------------------------------------------------------------------===//

void HiddenEpilogue::store(MmaUnit unit, ValueRange accs) {
  int64_t together = consumer.hasRuns() ? 2 : 1;
  for (size_t index = 0; index < accs.size(); index += together) {
    Value number = k.constant(index);
    Value quarter = consumer.getQuarter(unit.tile, number);
    k.when(consumer.hasQuarter(unit.tile, number),
           [&] { storeUnits(unit, accs.slice(index, together), quarter); });
  }
}

void HiddenEpilogue::storeUnits(MmaUnit unit, ValueRange accs, Value quarter) {
  const MlpProblem &problem = k.problem;
  bool gated = problem.isGated();
  int64_t bytes = problem.getElementBytes(), rows = gated ? 1 : 2;
  int64_t together = accs.size() * rows;
  int64_t steps = k.tiling.gemm2.steps, columns = steps * kRowBytes / bytes;
  // Packing gives a thread gate and up of one hidden unit, or two neighboring
  // units. The quarters of a run have every other one of these.
  int64_t run = 2 * kQuarterRows / (gated ? 2 : 1);
  Value warp = k.rem(k.warp, 4), row8 = k.div(k.lane, 4);
  Value local =
      gated ? k.add(k.add(k.mul(k.div(row8, 2), 16), k.mul(k.rem(row8, 2), 2)),
                    k.mul(warp, 4))
            : k.add(k.mul(warp, 32), k.mul(row8, 4));
  Value first = k.add(k.mul(k.div(quarter, 2), run), local);
  if (accs.size() == 1)
    first = k.add(first, k.mul(k.rem(quarter, 2), rows));
  Value inside, safe = first;
  if (k.tiling.gemm1.quarters / 2 * run != problem.hidden) {
    // Units up to the last k-step are stored: weights of zero make them zero or
    // at least finite, and GEMM2 multiplies them by zero.
    inside = k.less(first, k.constant(columns));
    safe = k.select(k.less(first, k.constant(problem.hidden)), first,
                    k.constant(0));
  }
  MmaFrame::Values biasGate = k.loadBias(k.gateBias, safe, together),
                   biasUp = k.loadBias(k.upBias, safe, together);
  SmallVector<MmaFrame::Values> sums;
  for (Value acc : accs)
    sums.push_back(consumer.valuesOf(acc));
  MmaFrame::Values places;
  Value tokenBase = k.mul(unit.tokenTile, k.tokens);
  for (int64_t parity : {0, 1})
    places.push_back(k.packedIndex(
        k.add(tokenBase, consumer.getToken(k.constant(0), k.constant(parity))),
        first, steps));
  // Tokens that are eight apart are at a constant distance.
  int64_t distance = 8 * kRowBytes / bytes;
  // The bias of an accumulator, of both tokens.
  auto repeat = [&](ArrayRef<Value> bias, size_t index) {
    MmaFrame::Values repeated;
    if (!bias.empty())
      for (Value value : bias.slice(index * rows, rows))
        repeated.append(2, value);
    return repeated;
  };
  k.when(inside, [&] {
    for (int64_t group = 0; group < consumer.countGroups(); ++group) {
      MmaFrame::Values units;
      for (size_t index = 0; index < accs.size(); ++index) {
        ArrayRef<Value> of = ArrayRef(sums[index]).slice(4 * group, 4);
        MmaFrame::Values up = repeat(biasUp, index);
        units.append(k.activateAll(
            gated ? k.roundHidden(of.take_front(2), of.drop_front(2),
                                  repeat(biasGate, index), up)
                  : k.roundHidden({}, of, {}, up)));
      }
      for (int64_t parity : {0, 1}) {
        MmaFrame::Values ofToken;
        for (int64_t index = 0; index < together; ++index)
          ofToken.push_back(units[2 * index + parity]);
        k.store(k.quantize(ofToken, k.hiddenScale), k.hidden,
                k.add(places[parity], group * distance));
      }
    }
  });
}

void HiddenEpilogue::announce(MmaUnit unit) {
  const MmaProduct &product = k.tiling.gemm1;
  k.syncBlock();
  Value quarter = k.add(k.mul(unit.tile, product.perTile), k.thread);
  Value exists = k.less(k.thread, k.constant(product.perTile));
  if (product.tiles * product.perTile != product.quarters)
    exists = k.both(exists, k.less(quarter, k.constant(product.quarters)));
  k.when(exists, [&] {
    SemaphoreArriveOp::create(
        k.builder, k.loc,
        k.semaphore(k.add(k.div(quarter, k.tiling.quartersPerSlice), 1)));
  });
}

void HiddenEpilogue::await(Value slice) {
  int64_t perSlice = k.tiling.quartersPerSlice;
  Value arrivals = k.constant(perSlice);
  if (k.tiling.slices * perSlice != k.tiling.gemm1.quarters)
    arrivals = k.min(arrivals, k.sub(k.constant(k.tiling.gemm1.quarters),
                                     k.mul(slice, perSlice)));
  k.await(k.add(slice, 1), arrivals);
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

void OutputReducer::finish(MmaUnit unit, ValueRange accs) {
  if (k.tiling.slices > 1) {
    storePartials(unit, accs);
    awaitPartials(unit);
    return sumPartials(unit);
  }
  for (auto [index, acc] : llvm::enumerate(accs)) {
    MmaFrame::Values sums = consumer.valuesOf(acc);
    for (int64_t group = 0; group < consumer.countGroups(); ++group)
      for (int64_t parity : {0, 1})
        store(unit, k.constant(index),
              consumer.getToken(k.constant(group), k.constant(parity)),
              {sums[4 * group + parity], sums[4 * group + 2 + parity]});
  }
}

/// Index of a vector in the partial sums: those of all threads are neighbors.
Value OutputReducer::getPlace(MmaUnit unit, Value slice, Value vector) {
  Value place = k.add(k.mul(unit.tokenTile, k.tiling.gemm2.tiles), unit.tile);
  place = k.add(k.mul(place, k.tiling.slices), slice);
  place = k.add(k.mul(place, countVectors()), vector);
  return k.mul(k.add(k.mul(place, kMmaThreads), k.thread), 2);
}

void OutputReducer::storePartials(MmaUnit unit, ValueRange accs) {
  Value tokenBase = k.mul(unit.tokenTile, k.tokens);
  Value first = getPlace(unit, unit.slice, k.constant(0));
  for (int64_t group = 0; group < consumer.countGroups(); ++group)
    for (int64_t parity : {0, 1}) {
      Value token = k.add(
          tokenBase, consumer.getToken(k.constant(group), k.constant(parity)));
      k.when(k.less(token, k.count), [&] {
        for (auto [index, acc] : llvm::enumerate(accs)) {
          MmaFrame::Values sums = consumer.valuesOf(acc);
          int64_t vector =
              (index * consumer.countGroups() + group) * 2 + parity;
          Value pair = k.pack(k.f32, ValueRange{sums[4 * group + parity],
                                                sums[4 * group + 2 + parity]});
          k.store(pair, k.partials, k.add(first, vector * kMmaThreads * 2));
        }
      });
    }
}

void OutputReducer::awaitPartials(MmaUnit unit) {
  if (k.isWhole()) {
    Value index = k.add(unit.tile, 1 + k.tiling.slices);
    k.syncBlock();
    k.when(k.equal(k.thread, 0), [&] {
      SemaphoreArriveOp::create(k.builder, k.loc, k.semaphore(index));
    });
    return k.await(index, k.constant(k.tiling.slices));
  }
  // The number of token tiles, and so that of units, is not the same in all
  // launches.
  k.syncBlock();
  k.when(k.equal(k.thread, 0), [&] {
    Value index = k.add(k.mul(unit.tokenTile, k.tiling.gemm2.tiles), unit.tile);
    SemaphoreMeetOp::create(k.builder, k.loc, k.semaphore(index),
                            k.tiling.slices);
  });
  k.syncBlock();
}

/// Adds up every `slices`-th vector in the order of the slices, so that results
/// do not depend on which block ends first.
void OutputReducer::sumPartials(MmaUnit unit) {
  Type pair = VectorType::get(2, k.f32);
  k.loop(unit.slice, k.constant(countVectors()), k.tiling.slices, {},
         [&](Value vector, ValueRange) -> SmallVector<Value> {
           Value rest = k.div(vector, 2);
           Value token = consumer.getToken(k.rem(rest, consumer.countGroups()),
                                           k.rem(vector, 2));
           Value inside =
               k.less(k.add(k.mul(unit.tokenTile, k.tokens), token), k.count);
           k.when(inside, [&] {
             Value first = getPlace(unit, k.constant(0), vector);
             Values parts;
             for (int64_t slice = 0; slice < k.tiling.slices; ++slice)
               parts.push_back(k.load(
                   pair, k.partials,
                   k.add(first, slice * countVectors() * kMmaThreads * 2),
                   /*early=*/true));
             Values sums = k.unpack(parts[0]);
             for (Value part : ArrayRef(parts).drop_front())
               sums = k.addEach(sums, k.unpack(part));
             store(unit, k.div(rest, consumer.countGroups()), token, sums);
           });
           return {};
         });
}

/// Stores two neighboring outputs of a token of the tile.
void OutputReducer::store(MmaUnit unit, Value index, Value token,
                          ArrayRef<Value> sums) {
  Value row = k.add(k.mul(k.rem(k.warp, 4), 32), k.mul(k.div(k.lane, 4), 4));
  Value quarter = consumer.getQuarter(unit.tile, index);
  Value global = k.add(k.mul(unit.tokenTile, k.tokens), token);
  Value exists =
      k.both(consumer.hasQuarter(unit.tile, index), k.less(global, k.count));
  int64_t first = 0;
  for (size_t number = 0; number < k.problem.outputs.size(); ++number) {
    const DecodeOutput &output = k.problem.outputs[number];
    int64_t quarters = llvm::divideCeil(output.rows, 4 * kQuarterRows) * 4;
    int64_t last = first + quarters;
    Value local = k.sub(quarter, k.constant(first));
    Value at = k.add(k.add(k.mul(k.div(local, 2), 2 * kQuarterRows),
                           k.mul(k.rem(local, 2), 2)),
                     row);
    Value inside = exists;
    if (first != 0)
      inside = k.both(inside, k.less(k.constant(first - 1), quarter));
    if (last != k.tiling.gemm2.quarters)
      inside = k.both(inside, k.less(quarter, k.constant(last)));
    if (output.rows != quarters * kQuarterRows)
      inside = k.both(inside, k.less(at, k.constant(output.rows)));
    k.when(inside, [&] { k.storeOutputs(number, global, at, sums); });
    first = last;
  }
}
