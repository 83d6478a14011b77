//===- StreamK.cpp - Prefill kernels: stream-K GEMM2 ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CTAs have whole tiles of GEMM1, and some have one more than others. Stream-K
// balances this in GEMM2. A CTA group has one CTA per token tile, and its CTAs
// read the same weights at the same time. The k-steps of all weight tiles form
// one sequence, which is cut into one K-interval per CTA group. A K-interval
// covers the end of a tile, whole tiles and the beginning of another tile, or
// only the middle of a tile. A CTA computes the beginning of a tile first, and
// the end of another tile last. The CTA with the end of a tile adds the sums of
// its beginning, which are therefore early. If such groups would leave many
// CTAs idle, a group is one CTA or one cluster. K-intervals then run over the
// tiles of all tokens and weights.
//
//===----------------------------------------------------------------------===//

#include "PrefillKernelBuilder.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// What a role may have to know of a deal.
Value PrefillKernelBuilder::Deal::*const PrefillKernelBuilder::kDealt[] = {
    &Deal::early,   &Deal::ctaGroups, &Deal::steps,  &Deal::more,
    &Deal::members, &Deal::ctaGroup,  &Deal::member, &Deal::begin,
    &Deal::end,     &Deal::pieces};

/// Assigns k-steps to CTA groups of `size` blocks. Returns how many the
/// first CTA group has, with those that adding up sums of others would take.
Value PrefillKernelBuilder::dealAmong(Value members, Value tokenTiles) {
  auto divide = [&](Value lhs, Value rhs) -> Value {
    return arith::DivUIOp::create(builder, loc, lhs, rhs);
  };
  auto multiply = [&](Value lhs, Value rhs) -> Value {
    return arith::MulIOp::create(builder, loc, lhs, rhs);
  };
  int64_t blocks = schedule.getBlocks(), more = tiling.steps1;
  Value ctaGroups = divide(constant(blocks), members);
  Value tiles = mul(divide(tokenTiles, members), product().tiles);
  Value all = mul(tiles, product().steps);
  // The last blocks are those with a tile less of GEMM1, if there
  // are any.
  Value over = rem(mul(tokenTiles, tiling.tiles1), blocks);
  Value early = min(divide(sub(constant(blocks), over), members), ctaGroups);
  // Either all CTA groups have k-intervals, early ones longer ones, or only
  // early ones.
  Value some = select(equal(early, 0), ctaGroups, early);
  Value least = add(mul(early, more), mul(ctaGroups, kLeastDealt));
  Value everybody = less(least, add(all, 1));
  dealt.early = early;
  dealt.more = select(everybody, constant(more), constant(0));
  dealt.ctaGroups =
      select(everybody, ctaGroups, min(some, div(all, kLeastDealt)));
  dealt.steps = add(multiply(sub(ctaGroups, early), dealt.more), all);
  dealt.members = members;
  // Where no CTA group is earlier than others, k-intervals may be whole tiles.
  Value rest = arith::RemUIOp::create(builder, loc, tiles, dealt.ctaGroups);
  Value same = arith::OrIOp::create(builder, loc, equal(early, 0),
                                    less(dealt.ctaGroups, add(early, 1)));
  Value whole = both(equal(rest, 0), same);
  Value sums = select(whole, constant(0), constant(kSumSteps));
  return add(divide(dealt.steps, dealt.ctaGroups), sums);
}

/// Computes the deal once, in front of the barrier behind which roles begin.
void PrefillKernelBuilder::deal() {
  int64_t blocks = schedule.getBlocks();
  // Without tokens, no CTA has work.
  Value tokenTiles = countTokenTiles();
  Value none = equal(tokenTiles, 0);
  tokenTiles = select(none, constant(schedule.getCluster()), tokenTiles);
  Value small = dealAmong(constant(schedule.getCluster()), tokenTiles);
  Deal ofSmall = dealt;
  Value large = dealAmong(tokenTiles, tokenTiles);
  // With few token tiles, CTA groups share more than what single blocks save.
  Value least = sub(large, div(large, kScatterGain));
  if (product().getTokenTiles(schedule.getTokens()) >= kLeastScattered)
    least = select(less(tokenTiles, constant(kLeastScattered)), least, large);
  Value isSmall = less(small, least);
  for (auto member : {&Deal::early, &Deal::ctaGroups, &Deal::steps, &Deal::more,
                      &Deal::members})
    dealt.*member = select(isSmall, ofSmall.*member, dealt.*member);

  Value index = sub(constant(blocks - 1), id(IdKind::Block));
  dealt.ctaGroup = arith::DivUIOp::create(builder, loc, index, dealt.members);
  dealt.member = arith::RemUIOp::create(builder, loc, index, dealt.members);
  dealt.begin = getBegin(dealt.ctaGroup);
  dealt.end = getBegin(add(dealt.ctaGroup, 1));
  Value has =
      both(less(dealt.ctaGroup, dealt.ctaGroups), less(dealt.begin, dealt.end));
  Value pieces = add(sub(div(sub(dealt.end, constant(1)), product().steps),
                         div(dealt.begin, product().steps)),
                     1);
  dealt.pieces = select(none, constant(0), select(has, pieces, constant(0)));

  dealtBuffer = makeScratch(builder.getI32Type(), std::size(kDealt));
  when(equal(id(IdKind::Thread), 0), [&] {
    for (auto [index, member] : llvm::enumerate(kDealt))
      store(dealt.*member, dealtBuffer, constant(static_cast<int64_t>(index)));
  });
}

/// Values of the deal would take registers that sums need.
void PrefillKernelBuilder::recallDeal() {
  for (auto [index, member] : llvm::enumerate(kDealt))
    dealt.*member = load(builder.getI32Type(), dealtBuffer,
                         constant(static_cast<int64_t>(index)));
}

/// The first of all k-steps that a CTA group has. Pieces of tiles of less than
/// kLeastStretch k-steps go to the neighbor.
Value PrefillKernelBuilder::getBegin(Value ctaGroup) {
  Value share = arith::MulIOp::create(
      builder, loc, min(ctaGroup, dealt.ctaGroups), dealt.steps);
  Value at = arith::DivUIOp::create(builder, loc, share, dealt.ctaGroups);
  Value late = select(less(dealt.early, ctaGroup), sub(ctaGroup, dealt.early),
                      constant(0));
  at = sub(at, arith::MulIOp::create(builder, loc, late, dealt.more));
  int64_t steps = product().steps;
  Value inTile = rem(at, steps);
  Value start = sub(at, inTile);
  at = select(less(inTile, constant(kLeastInterval)), start, at);
  return select(less(constant(steps - kLeastInterval), inTile),
                add(start, steps), at);
}

/// The k-step of a piece's tile, which begins at `start`, that comes first, if
/// the piece has it.
Value PrefillKernelBuilder::getTurn(const Unit &piece, Value start) {
  int64_t steps = product().steps, length = steps / product().passes;
  // The beginning of a pass needs what GEMM1 has written first.
  if (product().passes > 1)
    return mul(div(add(piece.from, length - 1), length), length);
  // All CTA groups go through the k-steps together, so that what one of them
  // has brought into L2 serves the others. Early ones have begun before.
  Value intervalEnd = add(start, steps);
  Value done = select(less(intervalEnd, dealt.end), sub(dealt.end, intervalEnd),
                      constant(0));
  Value isLate = both(less(constant(0), dealt.early),
                      less(dealt.early, add(dealt.ctaGroup, 1)));
  Value turn = rem(add(done, select(isLate, dealt.more, constant(0))), steps);
  return select(less(turn, piece.from), piece.from, turn);
}

/// A k-interval's tiles in turn, the last one first.
PrefillKernelBuilder::Unit PrefillKernelBuilder::locatePiece(Value index) {
  int64_t steps = product().steps;
  Unit result;
  result.index = sub(div(sub(dealt.end, constant(1)), steps), index);
  Value perTile =
      arith::DivUIOp::create(builder, loc, phase->tokenTiles, dealt.members);
  Value place = arith::RemUIOp::create(builder, loc, result.index, perTile);
  result.tile = arith::DivUIOp::create(builder, loc, result.index, perTile);
  result.tokenTile = add(
      arith::MulIOp::create(builder, loc, place, dealt.members), dealt.member);
  // CTA groups at one weight tile have distinct slots.
  result.leads = both(equal(dealt.member, 0), less(place, dealt.pieces));
  Value start = mul(result.index, steps);
  result.from =
      select(less(start, dealt.begin), sub(dealt.begin, start), constant(0));
  result.to = min(sub(dealt.end, start), constant(steps));
  result.steps = sub(result.to, result.from);
  Value turn = getTurn(result, start);
  result.turn = select(less(turn, result.to), turn, result.from);
  return result;
}

/// Places of a tile are passes over its k-steps, each of which takes k-steps in
/// equal distances.
Value PrefillKernelBuilder::getPieceStep(const Unit &unit, Value index) {
  Value at = add(unit.turn, index);
  at = select(less(at, unit.to), at, sub(at, unit.steps));
  if (product().passes == 1)
    return at;
  int64_t length = product().steps / product().passes;
  return add(mul(rem(at, length), product().passes), div(at, length));
}

/// Where a block keeps sums that another one adds up.
Value PrefillKernelBuilder::getSlot(Value ctaGroup) {
  return add(arith::MulIOp::create(builder, loc, ctaGroup, dealt.members),
             dealt.member);
}

/// The block with the end of a tile adds up the sums of the others, in the
/// order of their k-steps, and finishes it.
void PrefillKernelBuilder::finishPiece(Value index, ArrayRef<Value> sums) {
  // Again, and for here only.
  llvm::SaveAndRestore<Deal> outside(dealt);
  recallDeal();
  Unit unit = locatePiece(index);
  auto finish = [&] {
    Value start = mul(unit.index, product().steps);
    // The CTA groups before that begin inside of the tile, and one more.
    auto search =
        scf::WhileOp::create(builder, loc, TypeRange{builder.getI32Type()},
                             ValueRange{dealt.ctaGroup});
    Block *before =
        builder.createBlock(&search.getBefore(), {}, builder.getI32Type(), loc);
    Value ctaGroup = before->getArgument(0);
    scf::ConditionOp::create(builder, loc, less(start, getBegin(ctaGroup)),
                             ctaGroup);
    Block *after =
        builder.createBlock(&search.getAfter(), {}, builder.getI32Type(), loc);
    scf::YieldOp::create(builder, loc,
                         ValueRange{sub(after->getArgument(0), constant(1))});
    builder.setInsertionPointAfter(search);
    Values total =
        loop(search.getResult(0), dealt.ctaGroup, 1, sums,
             [&](Value other, ValueRange carried) -> Values {
               Value slot = getSlot(other);
               SemaphoreWaitOp::create(builder, loc, getSlotSemaphore(slot),
                                       constant(0), constant(1));
               return addPartials(slot, llvm::to_vector_of<Value>(carried));
             });
    storeTile(unit, total);
  };
  auto leave = [&] {
    Value slot = getSlot(dealt.ctaGroup);
    storePartials(unit, slot, sums, /*keepsOwn=*/false);
    WarpSyncOp::create(builder, loc);
    when(equal(lane, 0), [&] {
      SemaphoreArriveOp::create(builder, loc, getSlotSemaphore(slot));
    });
  };
  either(equal(unit.to, product().steps), finish, leave);
}

/// Whether the outputs of a whole tile wait until the next fragment has
/// started. They need half of the registers of the sums. Bounds checks and
/// addends of the outputs would need more registers. Kernels without clusters
/// would spill, because they serve a range of token counts.
bool PrefillKernelBuilder::storesLater() const {
  return product().isStreamK && schedule.getCluster() > 1 && places &&
         problem.outputs.size() == 1 &&
         problem.outputs[0].rows % product().rows == 0 && !problem.addStream &&
         !outputResidual;
}

/// Where the outputs of a piece go when it is a whole tile.
void PrefillKernelBuilder::keepPiece(Value index) {
  // Again, and for here only.
  llvm::SaveAndRestore<Deal> outside(dealt);
  recallDeal();
  Unit unit = locatePiece(index);
  Value isWhole = equal(unit.steps, product().steps);
  unit.tokenTile = select(isWhole, unit.tokenTile, getNone().tokenTile);
  keepPlace(unit);
}

/// A quarter of the outputs of a tile that waits, of those that one row has.
void PrefillKernelBuilder::storeWaiting(int64_t quarter, ValueRange pairs) {
  Unit unit = recallPlace();
  int64_t half = quarter / 2, count = numBlocks() / 2;
  Value row = add(firstToken(unit), 8 * half);
  Value column = add(mul(unit.tile, product().rows), mul(rem(lane, 4), 8));
  when(less(row, this->count), [&] {
    for (int64_t index = 0; index < count; ++index) {
      int64_t block = quarter % 2 * count + index;
      Values values;
      for (Value pair : pairs.slice(4 * (half * numBlocks() + block), 4))
        llvm::append_range(values, unpack(pair));
      Value at =
          add(mul(row, problem.outputs[0].rows), add(column, block * 32));
      store(pack(bf16, values), outputs[0], at);
    }
  });
}

/// The outputs of a tile as pairs of bf16, by rows.
PrefillKernelBuilder::Values
PrefillKernelBuilder::roundOutputs(const Unit &unit, ArrayRef<Value> sums) {
  Values pairs;
  Value column = add(mul(unit.tile, product().rows), mul(rem(lane, 4), 8));
  for (int64_t half : {0, 1}) {
    for (int64_t block = 0; block < numBlocks(); ++block) {
      Values bias = loadBias(biases[0], add(column, block * 32), 8);
      Values values = finish(getBlock(sums, half, block), alphas[0], bias);
      for (int64_t at = 0; at < 8; at += 2)
        pairs.push_back(pack(bf16, ValueRange(values).slice(at, 2)));
    }
  }
  return pairs;
}

/// All pieces of a k-interval but the first. Outputs of whole tiles wait; other
/// sums go to another block at once, or are what nothing else comes behind.
void PrefillKernelBuilder::visitPieces(Value from, Value use) {
  Value zero = arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(VectorType::get(2, bf16)));
  Values none(product().rows / 4, zero);
  SmallVector<Type> types(none.size(), zero.getType());
  auto visit = [&](Value index, ValueRange carried) -> Values {
    Value use = carried[0];
    Values sums = mainLoop(use, getSteps(locate(index)), [&](int64_t action) {
      if (action == kQuarters)
        return keepPiece(index);
      storeWaiting(action, carried.drop_front());
    });
    // Either sums or pairs are alive.
    Unit unit = recallPlace();
    Value waits = less(unit.tokenTile, getNone().tokenTile);
    auto branch =
        scf::IfOp::create(builder, loc, types, waits, /*addElseBlock=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, roundOutputs(unit, sums));
    builder.setInsertionPointToStart(branch.elseBlock());
    finishPiece(index, sums);
    scf::YieldOp::create(builder, loc, none);
    Values next = {use};
    llvm::append_range(next, branch.getResults());
    return next;
  };
  keepPlace(getNone());
  Values carried = {use};
  carried.append(none);
  carried = visitUnits(from, carried, visit);
  for (int64_t quarter = 0; quarter < kQuarters; ++quarter)
    storeWaiting(quarter, ValueRange(carried).drop_front());
}
