//===- Gemm1Tile192.cpp - Decode kernels: tiles of 192 rows ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tiles of 192 rows, three quarters of a packed tile of 256 rows, one per CTA.
// With 128 rows some CTAs would have two tiles and others one; with 256 rows
// there would be too few tiles. Two of the three quarters form a pair. Each
// warpgroup computes one quarter of the pair, and half of the tokens of the
// single quarter. Both have equal work: 96 accumulators per thread with 128
// tokens.
//
// A stage of weights is 16 KB and holds one k-step of the pair. The single
// quarters of two k-steps share another stage, so the pipeline keeps its form
// for GEMM2. The order is pair, both single quarters, next pair.
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Bytes of a k-step of a quarter.
static constexpr int64_t kQuarter = 64 * 128;

/// Where a stage of GEMM1 comes from.
void DecodeKernelBuilder::visitTile192(Value use, PieceVisitor visit) {
  int64_t quarters = 4 * tiling.packedTiles1;
  Value odd = rem(block, 2), first = mul(block, 3);
  // The last tile may have quarters past the last packed one. Others are loaded
  // in their place, and their results are not stored.
  Value single =
      min(add(first, select(equal(odd, 0), constant(2), constant(0))),
          constant(quarters - 1));
  Value pair = min(add(first, odd), constant(quarters - 2));
  Value two = mul(div(use, 3), 2), place = rem(use, 3);
  auto visitQuarter = [&](Value step, Value quarter, int64_t at,
                          int64_t bytes) {
    visit({weights1, scale(add(mul(step, quarters), quarter), kQuarter), at,
           bytes});
  };
  either(
      equal(place, 1),
      [&] {
        visitQuarter(two, single, 0, kQuarter);
        // Of an odd number of k-steps the last one is there twice.
        visitQuarter(min(add(two, 1), constant(tiling.steps1 - 1)), single,
                     kQuarter, kQuarter);
      },
      [&] { visitQuarter(add(two, div(place, 2)), pair, 0, 2 * kQuarter); });
}

/// Sums of the pair and of the single quarter. One group of products stays in
/// flight; the last `kept` token stages are left for the caller to release.
SmallVector<Value> DecodeKernelBuilder::multiplyTile192(Uses &uses,
                                                        int64_t kept) {
  MLIRContext *context = builder.getContext();
  int64_t columns = 128 / elementBytes, half = tokens / 2;
  Type lhs = SharedType::get(context, 64, columns, element, 128);
  Type all = SharedType::get(context, tokens, columns, element, 128);
  Type some = SharedType::get(context, half, columns, element, 128);
  SmallVector<Type> accTypes = {acc, AccType::get(context, 64, half, f32)};
  Value leader = equal(rem(thread, 128), 0);
  Value end = add(uses.token, constant(tiling.steps1));
  auto release = [&](Value condition, Value ring, Value use) {
    when(condition, [&] { RingReleaseOp::create(builder, loc, ring, use); });
  };
  // Step `step` of two, of which the pair and the single quarter have landed.
  auto multiply = [&](Values &sums, Value pair, Value single, int64_t step,
                      Value tokenUse) {
    Value tokenStage = waitFor(tokenRing, tokenUse);
    Value own = ViewOp::create(builder, loc, lhs, pair, mul(group, kQuarter));
    Value shared =
        ViewOp::create(builder, loc, lhs, single, constant(step * kQuarter));
    Value allTokens =
        ViewOp::create(builder, loc, all, tokenStage, constant(0));
    Value ownTokens =
        ViewOp::create(builder, loc, some, tokenStage, mul(group, half * 128));
    auto fenced = AccFenceOp::create(builder, loc, accTypes, sums);
    sums[0] = MmaOp::create(builder, loc, accTypes[0], own, allTokens,
                            fenced.getResult(0));
    sums[1] = MmaOp::create(builder, loc, accTypes[1], shared, ownTokens,
                            fenced.getResult(1));
    MmaCommitOp::create(builder, loc);
    MmaWaitOp::create(builder, loc, 1);
  };
  // What the step before has read.
  auto releaseToken = [&](Value condition, Value use) {
    if (kept > 1)
      condition = both(condition, less(add(use, kept), end));
    release(condition, tokenRing, use);
  };
  auto releaseTwo = [&](Value condition, Value weightUse) {
    release(condition, weightRing, sub(weightUse, constant(2)));
    release(condition, weightRing, sub(weightUse, constant(1)));
  };
  Values carried = {AccZeroOp::create(builder, loc, accTypes[0]),
                    AccZeroOp::create(builder, loc, accTypes[1]), uses.weight,
                    uses.token};
  Values results =
      loop(constant(0), constant(tiling.steps1 / 2), 1, carried,
           [&](Value index, ValueRange carried) -> SmallVector<Value> {
             Values sums = carried.take_front(2);
             Value weightUse = carried[2], tokenUse = carried[3];
             Value pair = waitFor(weightRing, weightUse);
             Value single = waitFor(weightRing, add(weightUse, 1));
             multiply(sums, pair, single, 0, tokenUse);
             Value done = both(less(constant(0), index), leader);
             releaseTwo(done, weightUse);
             releaseToken(done, sub(tokenUse, constant(1)));
             Value next = waitFor(weightRing, add(weightUse, 2));
             multiply(sums, next, single, 1, add(tokenUse, 1));
             release(leader, weightRing, weightUse);
             releaseToken(leader, tokenUse);
             sums.append({add(weightUse, 3), add(tokenUse, 2)});
             return sums;
           });
  Values sums = {results[0], results[1]};
  uses = {results[2], results[3]};
  if (tiling.steps1 % 2 != 0) {
    Value pair = waitFor(weightRing, uses.weight);
    Value single = waitFor(weightRing, add(uses.weight, 1));
    multiply(sums, pair, single, 0, uses.token);
    if (tiling.steps1 > 1) {
      releaseTwo(leader, uses.weight);
      releaseToken(leader, sub(uses.token, constant(1)));
    }
    uses = {add(uses.weight, 2), add(uses.token, 1)};
  }
  auto done = AccWaitOp::create(builder, loc, accTypes, sums);
  releaseTwo(leader, uses.weight);
  return llvm::to_vector_of<Value>(done.getResults());
}

/// The first hidden unit of the single quarter of a tile, which has every other
/// one, or every other two of a dense MLP.
Value DecodeKernelBuilder::singleUnit(Value tileIndex) {
  Value odd = rem(tileIndex, 2);
  // After the run, or in the previous run.
  Value before = mul(sub(mul(tileIndex, 3), odd), tiling.getRun() / 2);
  return select(equal(odd, 0), add(firstUnit(tileIndex), tiling.getRun()),
                add(before, problem.isGated() ? 1 : 2));
}

/// The position of the waiting hidden units of the single quarter: after the
/// run.
Value DecodeKernelBuilder::singleStaged(Uses uses) {
  return stagedAt(uses, constant(tiling.getHiddenStages() - 1));
}

/// Activation and gate of a tile, which takes the place of the last tokens.
void DecodeKernelBuilder::storeTile192(Value tileIndex, ValueRange accs,
                                       Uses uses) {
  // Both warpgroups have read them.
  barrier();
  Value byte = mul(localUnit(/*half=*/true), elementBytes);
  Value smemTile =
      stagedAt(uses, tiling.getRunStages() == 1 ? constant(0) : div(byte, 128));
  activateTokens(roundTile(tileIndex, accs[0]), 0, tokens / 8, smemTile);

  // A thread has the same rows of the single quarter as of its own, and of the
  // tokens half. In shared memory its units follow each other.
  Value parity = mul(group, problem.isGated() ? 1 : 2);
  Value local = sub(localUnit(/*half=*/true), parity);
  Value unit = add(singleUnit(tileIndex), local);
  Value at = mul(div(local, 2), elementBytes);
  if (tiling.getRunStages() == tiling.getHiddenStages())
    at = add(at, tokens * tiling.getHiddenBytes());
  activateAt(roundUnits(valuesOf(accs[1]), unit), 0, tokens / 16,
             singleStaged(uses), {at, mul(group, tokens / 2), singleBytes()});
  finishHidden(tileIndex, uses);
}

/// Copies hidden units of the single quarter, one or two of a token at a time:
/// others lie between them.
void DecodeKernelBuilder::copySingle(Value tileIndex, Uses uses) {
  int64_t units = problem.isGated() ? 1 : 2;
  int64_t perRow = singleBytes() / elementBytes / units;
  Type type = units == 1 ? element : VectorType::get(units, element);
  Value smemTile = singleStaged(uses), first = singleUnit(tileIndex);
  for (int64_t begin = 0; begin < tokens * perRow; begin += kMathThreads) {
    Value piece = add(thread, begin);
    Value token = div(piece, perRow), index = rem(piece, perRow);
    Value unit = add(first, mul(index, 2 * units)), exists;
    if (tiling.tiles1 * tiling.hiddenPerTile != problem.hidden)
      exists = less(unit, constant(wholeSteps(problem.hidden)));
    when(exists, [&] {
      Value at =
          placeOf(mul(index, units * elementBytes), token, singleBytes());
      if (tiling.getRunStages() == tiling.getHiddenStages())
        at = add(at, tokens * tiling.getHiddenBytes());
      store(load(type, smemTile, div(at, elementBytes)), hidden,
            packedIndex(token, unit));
    });
  }
}
