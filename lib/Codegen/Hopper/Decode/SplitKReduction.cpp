//===- SplitKReduction.cpp - Decode kernels: sums over K-slices -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Registers of a thread that may hold partial sums at a time, of 255.
static constexpr int64_t kSumRegisters = 128;

void DecodeKernelBuilder::storePartials(ArrayRef<Values> sums) {
  // In fragment order: unit c of a K-slice is the c-th column of every thread.
  int64_t columns = tokens / 4;
  Value unit = mul(add(mul(tile2, tiling.slices), slice), columns);
  Value first = mul(add(mul(unit, kMathThreads), thread), width2());
  Value firstToken = mul(rem(lane, 4), 2);
  Value epoch = schedule.getTaggedPartials()
                    ? load(builder.getI32Type(), epochBuffer, constant(0))
                    : Value();
  for (int64_t column = 0; column < columns; ++column) {
    int64_t group = column / 2, parity = column % 2;
    // A mark tells two launches apart, so that each has to store all of them.
    Value wanted;
    if (!schedule.getTaggedPartials())
      wanted = less(add(firstToken, 8 * group + parity), count);
    when(wanted, [&] {
      Values ofToken;
      for (const Values &own : sums)
        for (int64_t half : {0, 1})
          ofToken.push_back(own[4 * group + 2 * half + parity]);
      Value values = pack(schedule.getPartials(), ofToken);
      if (schedule.getTaggedPartials())
        values = MarkOp::create(builder, loc, values.getType(), values, epoch);
      StoreOp::create(builder, loc, values, partials,
                      add(first, column * kMathThreads * width2()),
                      schedule.getTaggedPartials());
    });
  }
}

void DecodeKernelBuilder::placeReducers() {
  reducer = slice;
  if (tiling.reducers == tiling.slices)
    return;
  Value position = mul(rem(add(slice, tile2), tiling.slices), tiling.reducers);
  reduces = less(rem(position, tiling.slices), constant(tiling.reducers));
  reducer = div(position, tiling.slices);
}

/// Each warp waits only for the same warp of the other K-slices. With tagged
/// partial sums the arrival is only a hint: it avoids polls of stale lines that
/// the previous launch left in HBM.
void DecodeKernelBuilder::awaitPartials() {
  WarpSyncOp::create(builder, loc);
  Value index = add(add(mul(tile2, kMathWarps), warpIndex),
                    1 + tiling.parts * tiling.slices);
  when(leads, [&] {
    Value mine = semaphore(index);
    SemaphoreArriveOp::create(builder, loc, mine,
                              /*relaxed=*/schedule.getTaggedPartials());
    when(reduces, [&] {
      Value epoch = load(builder.getI32Type(), epochBuffer, constant(0));
      SemaphoreWaitOp::create(builder, loc, mine, epoch,
                              constant(tiling.slices),
                              /*relaxed=*/schedule.getTaggedPartials());
    });
  });
  WarpSyncOp::create(builder, loc);
}

/// Sums the K-slices in order, so that the result does not depend on which
/// block finishes first. This block takes every `reducers`-th column.
void DecodeKernelBuilder::sumPartials() {
  int64_t columns = tokens / 4, slices = tiling.slices,
          reducers = tiling.reducers;
  Value first = mul(tile2, slices * columns);
  Type vector = VectorType::get(width2(), schedule.getPartials());
  Value epoch = schedule.getTaggedPartials()
                    ? load(builder.getI32Type(), epochBuffer, constant(0))
                    : Value();
  // Several rounds at a time: with one column at a time, each would wait for
  // L2.
  int64_t rounds = llvm::divideCeil(columns, reducers);
  int64_t together = std::max<int64_t>(
      1, std::min(rounds, kSumRegisters / (slices * width2())));
  for (int64_t begin = 0; begin < rounds; begin += together) {
    int64_t end = std::min(begin + together, rounds);
    Values rows, wanted, indices, conditions;
    for (int64_t round = begin; round < end; ++round) {
      // In the last round there may be no column for this block.
      Value column = add(reducer, round * reducers), exists;
      if ((round + 1) * reducers > columns) {
        exists = less(column, constant(columns));
        column = min(column, constant(columns - 1));
      }
      Value token = add(add(mul(rem(lane, 4), 2), mul(div(column, 2), 8)),
                        rem(column, 2));
      rows.push_back(token);
      wanted.push_back(both(exists, less(token, count)));
      Value unit = add(first, column);
      Value index = mul(add(mul(unit, kMathThreads), thread), width2());
      for (int64_t part = 0; part < slices; ++part) {
        indices.push_back(add(index, part * columns * kMathThreads * width2()));
        conditions.push_back(wanted.back());
      }
    }
    Values parts;
    if (schedule.getTaggedPartials())
      parts = CollectOp::create(builder, loc,
                                SmallVector<Type>(indices.size(), vector),
                                partials, indices, conditions, epoch)
                  .getValues();
    else
      for (Value index : indices)
        parts.push_back(load(vector, partials, index, /*early=*/true));
    for (int64_t round = 0; round < end - begin; ++round)
      finishColumn(rows[round], wanted[round],
                   ArrayRef<Value>(parts).slice(round * slices, slices));
  }
}

/// Adds up the parts of one token's outputs and stores them.
void DecodeKernelBuilder::finishColumn(Value token, Value condition,
                                       ArrayRef<Value> parts) {
  when(condition, [&] {
    Values sums = unpack(parts[0]);
    for (Value part : parts.drop_front())
      sums = addEach(sums, unpack(part));
    // First output of the thread in its unit: packing has put neighbors into
    // one thread, or into the same thread of both warpgroups.
    Value inUnit = add(mul(warp, 32), mul(row8, 4));
    inUnit = tiling.rows == 256 ? add(inUnit, mul(group, 128))
                                : add(inUnit, mul(group, 2));
    for (size_t index = 0; index < problem.outputs.size(); ++index) {
      int64_t width = problem.outputs[index].rows;
      int64_t from = tiling.firstTiles[index],
              to = tiling.firstTiles[index + 1];
      Value row = add(mul(sub(tile2, constant(from)), tiling.rows), inUnit);
      Value inside;
      if (from != 0)
        inside = less(constant(from - 1), tile2);
      if (to != tiling.tiles2)
        inside = both(inside, less(tile2, constant(to)));
      if (width != (to - from) * tiling.rows)
        inside = both(inside, less(row, constant(width)));
      when(inside, [&] {
        Values scaled = sums;
        if (problem.hasTokenScales()) {
          Value ofToken = load(f32, tokenScales, token);
          scaled = zip(sums,
                       loadChannelScales(outputScales[index], row,
                                         static_cast<int64_t>(sums.size())),
                       [&](Value sum, Value scale) {
                         return fmul(sum, fmul(ofToken, scale));
                       });
        }
        storeOutputs(index, token, row, scaled);
      });
    }
  });
}
