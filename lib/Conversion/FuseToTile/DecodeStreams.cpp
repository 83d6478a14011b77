//===- DecodeStreams.cpp - Decode kernels: warps that copy ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"
#include "fuse/Support/Inject.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Looks at a full ring that take about as long as device memory needs for a
/// stage of every block.
static constexpr int64_t kLooksPerStage = 32;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Where a stage of the first product comes from. The order in memory is
/// [step][tile]: blocks read neighbouring stages at the same time.
void DecodeKernelBuilder::visitFirst(Value use, PieceVisitor visit) {
  Value tile = block, step = use;
  if (tiling.tiles1 > s.getBlocks()) {
    tile = add(block, mul(div(use, tiling.steps1), s.getBlocks()));
    step = rem(use, tiling.steps1);
  }
  if (isInjected("tile-order"))
    std::swap(step, tile);
  int64_t bytes = s.getWeightBytes();
  int64_t tilesPerStep = kWeightStage / bytes * tiling.packedTiles1;
  visit(weights1, scale(add(mul(step, tilesPerStep), tile), bytes), 0, bytes);
}

/// Where a stage of the last product comes from: its rows of a k-step, or 128
/// rows of two.
void DecodeKernelBuilder::visitLast(Value stage, PieceVisitor visit) {
  int64_t pieces = tiling.getStepsPerStage(), bytes = tiling.rows * 128;
  int64_t unitsPerStep = kWeightStage / bytes * tiling.packedTiles2;
  Value first = mul(range, tiling.stepsPerRange);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    Value step = add(first, add(mul(stage, pieces), piece));
    visit(weights2, scale(add(mul(step, unitsPerStep), tile2), bytes),
          piece * bytes, bytes);
  }
}

void DecodeKernelBuilder::visitPieces(Value use, PieceVisitor visit) {
  if (!doesFirst())
    return visitLast(use, visit);
  if (!doesLast())
    return visitFirst(use, visit);
  either(
      less(use, uses1), [&] { visitFirst(use, visit); },
      [&] { visitLast(sub(use, uses1), visit); });
}

/// While use `use` waits for a free stage, fetches what comes after it into
/// L2, a stage at a time. Returns the first use that has not been fetched.
Value DecodeKernelBuilder::fetchAhead(Value use, Value fetched) {
  fetched = arith::MaxUIOp::create(b, loc, fetched, use);
  Value end = min(add(use, s.getAhead()), allUses);
  Type i32 = b.getI32Type();
  auto loop = scf::WhileOp::create(
      b, loc, TypeRange{i32, i32}, ValueRange{fetched, c(0)},
      [&](OpBuilder &, Location, ValueRange values) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(values[0].getParentBlock());
        Value free = RingPollOp::create(b, loc, b.getI1Type(), weightRing, use);
        Value full = arith::XOrIOp::create(
            b, loc, free,
            arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1));
        scf::ConditionOp::create(b, loc, both(full, less(values[0], end)),
                                 values);
      },
      [&](OpBuilder &, Location, ValueRange values) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(values[0].getParentBlock());
        // At the first look and then at every so many: no more may be on its
        // way than memory brings meanwhile.
        Value due = equal(values[1], 0);
        when(due, [&] {
          visitPieces(values[0],
                      [&](Value buffer, Value offset, int64_t, int64_t bytes) {
                        PrefetchOp::create(b, loc, buffer, offset, bytes);
                      });
        });
        Value wait = select(due, c(kLooksPerStage), values[1]);
        scf::YieldOp::create(
            b, loc,
            ValueRange{select(due, add(values[0], 1), values[0]),
                       sub(wait, c(1))});
      });
  return loop.getResult(0);
}

/// Stages of this block's tiles of the first product.
Value DecodeKernelBuilder::countFirst() {
  int64_t blocks = s.getBlocks();
  if (tiling.tiles1 == blocks)
    return c(tiling.steps1);
  Value tiles = div(sub(c(tiling.tiles1 + blocks - 1), block), blocks);
  return mul(tiles, tiling.steps1);
}

/// Stages of this block's unit of the last product.
Value DecodeKernelBuilder::countLast() {
  Value stages = div(rangeSteps(), tiling.getStepsPerStage());
  return hasUnit ? select(hasUnit, stages, c(0)) : stages;
}

void DecodeKernelBuilder::streamWeights() {
  uses1 = doesFirst() ? countFirst() : c(0);
  allUses = doesLast() ? add(uses1, countLast()) : uses1;
  loop(c(0), allUses, 1, c(0),
       [&](Value use, ValueRange carried) -> SmallVector<Value> {
         // A use waits until an older one has landed: deeper queues add no
         // bandwidth, only latency for x, the hidden layer and the words.
         if (int64_t limit = s.getInFlight())
           when(less(c(limit - 1), use),
                [&] { waitFor(weightRing, sub(use, c(limit))); });
         Value fetched = carried[0];
         if (s.getAhead() > 0)
           fetched = fetchAhead(use, fetched);
         Value stage = acquire(weightRing, use);
         visitPieces(
             use, [&](Value buffer, Value offset, int64_t at, int64_t bytes) {
               IntegerAttr first, length;
               if (bytes != s.getWeightBytes()) {
                 first = b.getI64IntegerAttr(at);
                 length = b.getI64IntegerAttr(bytes);
               }
               CopyOp::create(b, loc, buffer, offset, stage, first, length,
                              s.getHint());
             });
         return {fetched};
       });
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

void DecodeKernelBuilder::streamTokens() {
  depend();
  Value epoch = EpochOp::create(b, loc, b.getI32Type(), words, s.getBlocks());
  // The math warps read it after their first wait on a token stage, whose
  // arming below orders this store.
  store(epoch, epochBuffer, c(0));
  int64_t columns = 128 / elementBytes;
  auto fetch = [&](Value use, Value map, Value step) {
    Value stage = acquire(tokenRing, use);
    CopyTensorOp::create(b, loc, map, mul(step, columns), c(0), stage,
                         CachePolicy::Normal);
  };
  if (doesNorm())
    WordWaitOp::create(b, loc, word(c(0)), epoch, c(normBlocks()));
  FenceAsyncOp::create(b, loc, /*shared=*/false);
  Value use = c(0);
  if (doesFirst())
    use = loop(block, c(tiling.tiles1), s.getBlocks(), use,
               [&](Value, ValueRange outer) {
                 return loop(
                     c(0), c(tiling.steps1), 1, outer,
                     [&](Value step, ValueRange inner) -> SmallVector<Value> {
                       fetch(inner[0], inputMap, step);
                       return {add(inner[0], 1)};
                     });
               })[0];
  if (!doesLast())
    return;
  when(hasUnit, [&] {
    if (doesFirst()) {
      Value tiles =
          min(c(tiling.tilesPerRange),
              sub(c(tiling.tiles1), mul(range, tiling.tilesPerRange)));
      WordWaitOp::create(b, loc, word(add(range, 1)), epoch,
                         mul(tiles, arrivalsPerTile()));
      FenceAsyncOp::create(b, loc, /*shared=*/false);
    }
    Value first = mul(range, tiling.stepsPerRange);
    loop(c(0), rangeSteps(), 1, {},
         [&](Value step, ValueRange) -> SmallVector<Value> {
           fetch(add(use, step), p.hasFirst() ? hiddenMap : inputMap,
                 add(first, step));
           return {};
         });
  });
}
