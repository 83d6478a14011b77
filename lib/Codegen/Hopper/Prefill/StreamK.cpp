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
// its beginning, which are therefore ready early. If such groups would leave
// many CTAs idle, a group is one CTA or one cluster. K-intervals then run over
// the tiles of all tokens and weights.
//
//===----------------------------------------------------------------------===//

#include "PrefillKernelBuilder.h"

#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// The values of an assignment that a role may need.
Value PrefillKernelBuilder::Assignment::*const
    PrefillKernelBuilder::kAssignmentMembers[] = {
        &Assignment::groupsWithoutExtra,
        &Assignment::ctaGroups,
        &Assignment::steps,
        &Assignment::extraSteps,
        &Assignment::members,
        &Assignment::ctaGroup,
        &Assignment::member,
        &Assignment::begin,
        &Assignment::end,
        &Assignment::fragments};

/// Assigns k-steps to CTA groups of `members` CTAs. Returns the number of
/// k-steps of the first CTA group, including the time to add partial sums.
Value PrefillKernelBuilder::assignToGroups(Value members, Value tokenTiles) {
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
  // The last CTAs are those without an extra GEMM1 tile, if there are any.
  Value over = rem(mul(tokenTiles, tiling.tiles1), blocks);
  Value without = min(divide(sub(constant(blocks), over), members), ctaGroups);
  // Either all CTA groups have k-intervals, longer ones without an extra tile,
  // or only CTA groups without an extra tile have one.
  Value some = select(equal(without, 0), ctaGroups, without);
  Value least = add(mul(without, more), mul(ctaGroups, kLeastAssigned));
  Value everybody = less(least, add(all, 1));
  assignment.groupsWithoutExtra = without;
  assignment.extraSteps = select(everybody, constant(more), constant(0));
  assignment.ctaGroups =
      select(everybody, ctaGroups, min(some, div(all, kLeastAssigned)));
  assignment.steps =
      add(multiply(sub(ctaGroups, without), assignment.extraSteps), all);
  assignment.members = members;
  // If all CTA groups have equally many GEMM1 tiles, k-intervals may be whole
  // tiles.
  Value rest =
      arith::RemUIOp::create(builder, loc, tiles, assignment.ctaGroups);
  Value same =
      arith::OrIOp::create(builder, loc, equal(without, 0),
                           less(assignment.ctaGroups, add(without, 1)));
  Value whole = both(equal(rest, 0), same);
  Value sums = select(whole, constant(0), constant(kSumSteps));
  return add(divide(assignment.steps, assignment.ctaGroups), sums);
}

/// Computes the assignment once, before the barrier at which roles begin.
void PrefillKernelBuilder::assignKSteps() {
  int64_t blocks = schedule.getBlocks();
  // Without tokens, no CTA has work.
  Value tokenTiles = countTokenTiles();
  Value none = equal(tokenTiles, 0);
  tokenTiles = select(none, constant(schedule.getCluster()), tokenTiles);
  Value small = assignToGroups(constant(schedule.getCluster()), tokenTiles);
  Assignment ofSmall = assignment;
  Value large = assignToGroups(tokenTiles, tokenTiles);
  // With few token tiles, CTA groups share more than what single blocks save.
  Value least = sub(large, div(large, kScatterGain));
  if (product().getTokenTiles(schedule.getTokens()) >= kLeastScattered)
    least = select(less(tokenTiles, constant(kLeastScattered)), least, large);
  Value isSmall = less(small, least);
  for (auto member :
       {&Assignment::groupsWithoutExtra, &Assignment::ctaGroups,
        &Assignment::steps, &Assignment::extraSteps, &Assignment::members})
    assignment.*member = select(isSmall, ofSmall.*member, assignment.*member);

  Value index = sub(constant(blocks - 1), id(IdKind::Block));
  assignment.ctaGroup =
      arith::DivUIOp::create(builder, loc, index, assignment.members);
  assignment.member =
      arith::RemUIOp::create(builder, loc, index, assignment.members);
  assignment.begin = getBegin(assignment.ctaGroup);
  assignment.end = getBegin(add(assignment.ctaGroup, 1));
  Value has = both(less(assignment.ctaGroup, assignment.ctaGroups),
                   less(assignment.begin, assignment.end));
  Value fragments =
      add(sub(div(sub(assignment.end, constant(1)), product().steps),
              div(assignment.begin, product().steps)),
          1);
  assignment.fragments =
      select(none, constant(0), select(has, fragments, constant(0)));

  assignmentBuffer =
      makeScratch(builder.getI32Type(), std::size(kAssignmentMembers));
  when(equal(id(IdKind::Thread), 0), [&] {
    for (auto [index, member] : llvm::enumerate(kAssignmentMembers))
      store(assignment.*member, assignmentBuffer,
            constant(static_cast<int64_t>(index)));
  });
}

/// Live values of the assignment would take registers that the sums need.
void PrefillKernelBuilder::reloadAssignment() {
  for (auto [index, member] : llvm::enumerate(kAssignmentMembers))
    assignment.*member = load(builder.getI32Type(), assignmentBuffer,
                              constant(static_cast<int64_t>(index)));
}

/// The first of all k-steps that a CTA group has. Fragments of tiles of less
/// than kLeastInterval k-steps go to the neighbor.
Value PrefillKernelBuilder::getBegin(Value ctaGroup) {
  Value share = arith::MulIOp::create(
      builder, loc, min(ctaGroup, assignment.ctaGroups), assignment.steps);
  Value at = arith::DivUIOp::create(builder, loc, share, assignment.ctaGroups);
  Value withExtra =
      select(less(assignment.groupsWithoutExtra, ctaGroup),
             sub(ctaGroup, assignment.groupsWithoutExtra), constant(0));
  at = sub(at, arith::MulIOp::create(builder, loc, withExtra,
                                     assignment.extraSteps));
  int64_t steps = product().steps;
  Value inTile = rem(at, steps);
  Value start = sub(at, inTile);
  at = select(less(inTile, constant(kLeastInterval)), start, at);
  return select(less(constant(steps - kLeastInterval), inTile),
                add(start, steps), at);
}

/// The k-step with which a fragment of the tile that begins at `start` should
/// begin.
Value PrefillKernelBuilder::getStartStep(const Unit &fragment, Value start) {
  int64_t steps = product().steps, length = steps / product().passes;
  // The beginning of a pass needs what GEMM1 has written first.
  if (product().passes > 1)
    return mul(div(add(fragment.from, length - 1), length), length);
  // All CTA groups go through the k-steps together, so that weights that one of
  // them has loaded into L2 serve the others. CTA groups without an extra tile
  // have begun before.
  Value intervalEnd = add(start, steps);
  Value done = select(less(intervalEnd, assignment.end),
                      sub(assignment.end, intervalEnd), constant(0));
  Value hasExtra =
      both(less(constant(0), assignment.groupsWithoutExtra),
           less(assignment.groupsWithoutExtra, add(assignment.ctaGroup, 1)));
  Value startStep = rem(
      add(done, select(hasExtra, assignment.extraSteps, constant(0))), steps);
  return select(less(startStep, fragment.from), fragment.from, startStep);
}

/// The tiles of a k-interval, the last one first.
PrefillKernelBuilder::Unit PrefillKernelBuilder::locateFragment(Value index) {
  int64_t steps = product().steps;
  Unit result;
  result.index = sub(div(sub(assignment.end, constant(1)), steps), index);
  Value perTile = arith::DivUIOp::create(builder, loc, phase->tokenTiles,
                                         assignment.members);
  Value place = arith::RemUIOp::create(builder, loc, result.index, perTile);
  result.tile = arith::DivUIOp::create(builder, loc, result.index, perTile);
  result.tokenTile =
      add(arith::MulIOp::create(builder, loc, place, assignment.members),
          assignment.member);
  // CTA groups at one weight tile have distinct slots.
  result.leads =
      both(equal(assignment.member, 0), less(place, assignment.fragments));
  Value start = mul(result.index, steps);
  result.from = select(less(start, assignment.begin),
                       sub(assignment.begin, start), constant(0));
  result.to = min(sub(assignment.end, start), constant(steps));
  result.steps = sub(result.to, result.from);
  Value startStep = getStartStep(result, start);
  result.startStep = select(less(startStep, result.to), startStep, result.from);
  return result;
}

/// The order of a tile's k-steps consists of passes, each of which visits
/// k-steps at equal distances.
Value PrefillKernelBuilder::getFragmentStep(const Unit &unit, Value index) {
  Value at = add(unit.startStep, index);
  at = select(less(at, unit.to), at, sub(at, unit.steps));
  if (product().passes == 1)
    return at;
  int64_t length = product().steps / product().passes;
  return add(mul(rem(at, length), product().passes), div(at, length));
}

/// The slot of the partial sums that another CTA adds.
Value PrefillKernelBuilder::getSlot(Value ctaGroup) {
  return add(arith::MulIOp::create(builder, loc, ctaGroup, assignment.members),
             assignment.member);
}

/// The CTA with the end of a tile adds the partial sums of the others, in the
/// order of their k-steps, and finishes the tile.
void PrefillKernelBuilder::finishFragment(Value index, ArrayRef<Value> sums) {
  // Recompute the assignment locally: keeping it live costs registers.
  llvm::SaveAndRestore<Assignment> outside(assignment);
  reloadAssignment();
  Unit unit = locateFragment(index);
  auto finish = [&] {
    Value start = mul(unit.index, product().steps);
    // The preceding CTA groups that begin inside the tile, and one more.
    auto search =
        scf::WhileOp::create(builder, loc, TypeRange{builder.getI32Type()},
                             ValueRange{assignment.ctaGroup});
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
        loop(search.getResult(0), assignment.ctaGroup, 1, sums,
             [&](Value other, ValueRange carried) -> Values {
               Value slot = getSlot(other);
               SemaphoreWaitOp::create(builder, loc, getSlotSemaphore(slot),
                                       constant(0), constant(1));
               return addPartials(slot, llvm::to_vector_of<Value>(carried));
             });
    storeTile(unit, total);
  };
  auto leave = [&] {
    Value slot = getSlot(assignment.ctaGroup);
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
/// would spill, because they serve a range of token counts. Partial results in
/// f32 are as many registers as the sums.
bool PrefillKernelBuilder::storesLater() const {
  return product().isStreamK && schedule.getCluster() > 1 && places &&
         problem.outputs.size() == 1 &&
         problem.outputs[0].rows % product().rows == 0 && !problem.addStream &&
         !outputResidual && !problem.isPartial(0);
}

/// Keeps the position of a fragment's outputs if it is a whole tile.
void PrefillKernelBuilder::keepFragment(Value index) {
  // Recompute the assignment locally: keeping it live costs registers.
  llvm::SaveAndRestore<Assignment> outside(assignment);
  reloadAssignment();
  Unit unit = locateFragment(index);
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
      store(pack(narrowType, values), outputs[0], at);
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
        pairs.push_back(pack(narrowType, ValueRange(values).slice(at, 2)));
    }
  }
  return pairs;
}

/// All fragments of a k-interval but the first. Outputs of whole tiles wait.
/// Other sums go to another CTA at once, or belong to the last fragment.
void PrefillKernelBuilder::visitFragments(Value from, Value use) {
  Value zero = arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(VectorType::get(2, narrowType)));
  Values none(product().rows / 4, zero);
  SmallVector<Type> types(none.size(), zero.getType());
  auto visit = [&](Value index, ValueRange carried) -> Values {
    Value use = carried[0];
    Values sums = mainLoop(use, getSteps(locate(index)), [&](int64_t action) {
      if (action == kQuarters)
        return keepFragment(index);
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
    finishFragment(index, sums);
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
