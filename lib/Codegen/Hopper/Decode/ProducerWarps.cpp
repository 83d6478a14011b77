//===- ProducerWarps.cpp - Decode kernels: warps that copy ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Number of polls of a full pipeline that last about as long as one stage
/// load for all blocks (H200).
static constexpr int64_t kPollsPerStage = 32;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Where a stage of GEMM1 comes from. The order in memory is
/// [step][tile]: blocks read neighboring stages at the same time.
void DecodeKernelBuilder::visitGemm1(Value use, PieceVisitor visit) {
  if (tiling.hasSingle())
    return visitTile192(use, visit);
  Value tile = block, step = use;
  if (tiling.tiles1 > schedule.getBlocks() || schedule.getDeferredEpilogue()) {
    tile = add(block, mul(div(use, tiling.steps1), tileStride()));
    step = rem(use, tiling.steps1);
  }
  if (tiling.swapAB)
    return visitGroups(tile, step, visit);
  int64_t bytes = schedule.getWeightBytes();
  int64_t tilesPerStep = kWeightStage / bytes * tiling.packedTiles1;
  visit({weights1, scale(add(mul(step, tilesPerStep), tile), bytes), 0, bytes});
}

/// Where a stage of GEMM2 comes from: its rows of a k-step, or 128
/// rows of two.
void DecodeKernelBuilder::visitGemm2(Value stage, PieceVisitor visit) {
  int64_t pieces = tiling.getStepsPerStage(), bytes = tiling.rows * 128;
  int64_t unitsPerStep = kWeightStage / bytes * tiling.packedTiles2;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    Value step = add(mul(stage, pieces), piece);
    if (tiling.parts == 1) {
      step = add(mul(slice, tiling.stepsPerSlice), step);
    } else {
      // The second part begins in the middle of the hidden layer.
      int64_t own = tiling.stepsPerSlice / 2;
      Value second = constant(tiling.steps2 / 2 - own);
      step = add(add(mul(slice, own), step),
                 select(less(step, constant(own)), constant(0), second));
    }
    visit({weights2, scale(add(mul(step, unitsPerStep), tile2), bytes),
           piece * bytes, bytes});
  }
}

void DecodeKernelBuilder::visitPieces(Value use, PieceVisitor visit) {
  if (!problem.hasGemm1())
    return visitGemm2(use, visit);
  either(
      less(use, uses1), [&] { visitGemm1(use, visit); },
      [&] { visitGemm2(sub(use, uses1), visit); });
}

/// While use `use` waits for a free stage, fetches what comes after it into
/// L2, a stage at a time. Returns the first use that has not been fetched.
Value DecodeKernelBuilder::fetchAhead(Value use, Value fetched) {
  fetched = arith::MaxUIOp::create(builder, loc, fetched, use);
  Value l2PrefetchStages = constant(schedule.getL2PrefetchStages());
  // With many tokens the tensor cores take longer than the weights. They first
  // wait for the norm, whose loads prefetches must not delay.
  if (tokens > kMaxWholeTokens)
    l2PrefetchStages = select(less(constant(schedule.getWeightStages()), use),
                              l2PrefetchStages, constant(0));
  Value end = min(add(use, l2PrefetchStages), allUses);
  Type i32 = builder.getI32Type();
  auto loop = scf::WhileOp::create(
      builder, loc, TypeRange{i32, i32}, ValueRange{fetched, constant(0)},
      [&](OpBuilder &, Location, ValueRange values) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToEnd(values[0].getParentBlock());
        Value free = RingPollOp::create(builder, loc, builder.getI1Type(),
                                        weightRing, use);
        Value full = arith::XOrIOp::create(
            builder, loc, free,
            arith::ConstantIntOp::create(builder, loc, builder.getI1Type(), 1));
        scf::ConditionOp::create(builder, loc, both(full, less(values[0], end)),
                                 values);
      },
      [&](OpBuilder &, Location, ValueRange values) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToEnd(values[0].getParentBlock());
        // At the first poll and at every kPollsPerStage-th one: the loads in
        // flight must not exceed the bandwidth.
        Value due = equal(values[1], 0);
        when(due, [&] {
          visitPieces(values[0], [&](Piece piece) {
            IntegerAttr bytes;
            if (!piece.length)
              bytes = builder.getI64IntegerAttr(piece.bytes);
            PrefetchOp::create(builder, loc, piece.buffer, piece.offset, bytes,
                               piece.length);
          });
        });
        Value wait = select(due, constant(kPollsPerStage), values[1]);
        scf::YieldOp::create(
            builder, loc,
            ValueRange{select(due, add(values[0], 1), values[0]),
                       sub(wait, constant(1))});
      });
  return loop.getResult(0);
}

/// Stages of this block's tiles of GEMM1.
Value DecodeKernelBuilder::countGemm1Stages() {
  int64_t blocks = schedule.getBlocks();
  if (schedule.getDeferredEpilogue())
    return select(less(block, constant(tiling.tilesPerPart)),
                  constant(2 * tiling.steps1), constant(0));
  if (tiling.tiles1 == blocks)
    return constant(tiling.getGemm1Stages());
  Value tiles = div(sub(constant(tiling.tiles1 + blocks - 1), block), blocks);
  return mul(tiles, tiling.getGemm1Stages());
}

/// Stages of this block's unit of GEMM2.
Value DecodeKernelBuilder::countGemm2Stages() {
  Value stages = div(getSliceSteps(), tiling.getStepsPerStage());
  return hasUnit ? select(hasUnit, stages, constant(0)) : stages;
}

/// What a stage gets, where the products do not fill all of it.
Value DecodeKernelBuilder::countBytes(Value use) {
  int64_t first = schedule.getGemm1Bytes();
  int64_t last = tiling.getStepsPerStage() * tiling.rows * 128;
  if (!tiling.swapAB || first == last)
    return Value();
  return select(less(use, uses1), constant(first), constant(last));
}

/// Whether a CTA is a straggler: it has requested fewer stages of weights than
/// the average of all CTAs. A CTA counts a stage on a semaphore before it
/// requests the stage. It compares with the count that it read one stage
/// earlier, so that no request waits for the read. No launch resets the
/// semaphores, because each launch reduces the same amount. If launches overlap
/// or a semaphore restarts, a CTA may get a wrong limit for a while. The result
/// stays the same.
DecodeKernelBuilder::Progress
DecodeKernelBuilder::countStage(Value use, Progress progress) {
  int64_t blocks = tiling.gemm1Blocks, units = tiling.getUnits();
  auto isBelowAverage = [&](int64_t members, int64_t all) {
    auto launch = arith::ConstantIntOp::create(builder, loc, all, 64);
    Value seen = arith::TruncIOp::create(
        builder, loc, builder.getI32Type(),
        arith::RemUIOp::create(builder, loc, progress.seen, launch));
    // By more than half a stage.
    return less(add(progress.expected, members / 2), seen);
  };
  int64_t all1 = tiling.tiles1 * tiling.getGemm1Stages();
  int64_t all2 = tiling.tiles2 * tiling.steps2 / tiling.getStepsPerStage();
  Value isStraggler = isBelowAverage(units, all2);
  Value index = constant(stageSemaphore() + 1), expected;
  if (problem.hasGemm1()) {
    // The count read before the first stage of GEMM2 is that of GEMM1.
    isStraggler =
        select(less(uses1, use), isStraggler, isBelowAverage(blocks, all1));
    Value isFirst = less(use, uses1);
    index = select(isFirst, constant(stageSemaphore()), index);
    expected = select(isFirst, mul(add(use, 1), blocks),
                      mul(add(sub(use, uses1), 1), units));
  } else {
    expected = mul(add(use, 1), units);
  }
  Value seen = SemaphoreCountOp::create(builder, loc, builder.getI64Type(),
                                        semaphore(index));
  return {isStraggler, seen, expected};
}

void DecodeKernelBuilder::streamWeights() {
  uses1 = problem.hasGemm1() ? countGemm1Stages() : constant(0);
  allUses = add(uses1, countGemm2Stages());
  // Not a release, which would wait for the weights in flight.
  auto signalGemm2Only = [&] {
    SemaphoreArriveOp::create(builder, loc,
                              semaphore(constant(gemm2OnlySemaphore())),
                              /*relaxed=*/true);
  };
  if (gemm2OnlyRing)
    when(isGemm2Only(), [&] { acquire(gemm2OnlyRing, constant(1)); });
  Values carriedFirst = {constant(0)};
  if (schedule.getStragglerInFlight())
    carriedFirst.append(
        {arith::ConstantIntOp::create(builder, loc, /*value=*/0, /*width=*/64),
         constant(0)});
  loop(constant(0), allUses, 1, carriedFirst,
       [&](Value use, ValueRange carried) -> SmallVector<Value> {
         Progress progress;
         if (schedule.getStragglerInFlight())
           progress = countStage(use, {Value(), carried[1], carried[2]});
         // Limit the loads in flight: more loads only add latency to activation
         // loads and semaphore polls.
         auto limitTo = [&](Value condition, int64_t limit) {
           when(both(condition, less(constant(limit - 1), use)),
                [&] { waitFor(weightRing, sub(use, constant(limit))); });
         };
         if (int64_t limit = schedule.getMaxInFlight()) {
           // CTAs with an extra tile have twice the limit, so that they finish
           // it when the others finish their GEMM2 units.
           Value most;
           if (problem.hasGemm1() && tiling.longBlocks > 0) {
             Value isLong = both(less(block, constant(tiling.longBlocks)),
                                 less(use, uses1));
             most = select(
                 isLong,
                 constant(std::min(2 * limit, schedule.getWeightStages())),
                 constant(limit));
           } else if (schedule.getStragglerInFlight()) {
             most = select(progress.isStraggler,
                           constant(schedule.getStragglerInFlight()),
                           constant(limit));
           }
           if (most) {
             when(less(sub(most, constant(1)), use),
                  [&] { waitFor(weightRing, sub(use, most)); });
           } else {
             limitTo(Value(), limit);
           }
           // A release of the tile's hidden units waits for these loads only.
           int64_t fewer = schedule.getPublishInFlight()
                               ? schedule.getPublishInFlight()
                               : limit - 1;
           if (schedule.getPublishThrottleStages() > 0 && problem.hasGemm1())
             limitTo(less(sub(sub(use, uses1), constant(limit)),
                          constant(schedule.getPublishThrottleStages())),
                     fewer);
         }
         Value fetched = carried[0];
         if (schedule.getL2PrefetchStages() > 0)
           fetched = fetchAhead(use, fetched);
         Value begins;
         if (gemm2OnlyRing || launchesDependentLate())
           begins = equal(sub(use, uses1), 0);
         if (gemm2OnlyRing)
           when(both(less(block, constant(tiling.gemm1Blocks)), begins),
                signalGemm2Only);
         if (launchesDependentLate())
           when(begins, [&] {
             GridDependencyOp::create(builder, loc, Dependency::Launch);
           });
         Value stage = acquire(weightRing, use, countBytes(use));
         visitPieces(use, [&](Piece piece) {
           IntegerAttr first, length;
           Values values;
           if (piece.length) {
             values = {piece.begin, piece.length};
           } else if (piece.bytes != schedule.getWeightBytes()) {
             first = builder.getI64IntegerAttr(piece.at);
             length = builder.getI64IntegerAttr(piece.bytes);
           }
           CopyOp::create(builder, loc, piece.buffer, piece.offset, stage,
                          values, first, length, IntegerAttr(),
                          schedule.getHint());
         });
         if (!schedule.getStragglerInFlight())
           return {fetched};
         return {fetched, progress.seen, progress.expected};
       });
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

/// Prefetches the lines of the partial sums that the CTA will poll into L2.
/// Otherwise the first polls would read the lines of the previous launch from
/// HBM.
void DecodeKernelBuilder::fetchPartials() {
  int64_t columns = tokens / 4, slices = tiling.slices,
          reducers = tiling.reducers;
  int64_t elements = kMathThreads * width2();
  int64_t bytes = elements * schedule.getPartials().getIntOrFloatBitWidth() / 8;
  for (int64_t round = 0; round * reducers < columns; ++round) {
    Value column = add(reducer, round * reducers), exists;
    if ((round + 1) * reducers > columns)
      exists = less(column, constant(columns));
    when(exists, [&] {
      loop(constant(0), constant(slices), 1, {},
           [&](Value part, ValueRange) -> SmallVector<Value> {
             Value unit = add(mul(tile2, slices), part);
             unit = add(mul(unit, columns), column);
             PrefetchOp::create(builder, loc, partials, scale(unit, elements),
                                bytes);
             return {};
           });
    });
  }
}

/// Tiles of a part that the block's K-slice waits for.
Value DecodeKernelBuilder::countTiles() {
  if (!tiling.swapAB)
    return min(
        constant(tiling.tilesPerSlice),
        sub(constant(tiling.tilesPerPart), mul(slice, tiling.tilesPerSlice)));
  int64_t own = tiling.getSliceGroups(), tile = tiling.groupsPerTile;
  Value begin = mul(slice, own);
  Value end = min(add(begin, own), constant(tiling.groups));
  return sub(div(add(end, tile - 1), tile), div(begin, tile));
}

void DecodeKernelBuilder::streamTokens() {
  depend();
  Value epoch = EpochOp::create(builder, loc, builder.getI32Type(), semaphores,
                                schedule.getBlocks());
  // The math warps read it after their first wait on a token stage, whose
  // arming below orders this store.
  store(epoch, epochBuffer, constant(0));
  if (schedule.getTaggedPartials() && !announcesSums())
    when(both(hasUnit, reduces), [&] { fetchPartials(); });
  int64_t elements = getTokenStageBytes(problem, tokens) / elementBytes;
  auto fetch = [&](Value use, Value buffer, Value step) {
    Value stage = acquire(tokenRing, use);
    CopyOp::create(builder, loc, buffer, scale(step, elements), stage,
                   IntegerAttr(), IntegerAttr(), CachePolicy::Normal);
  };
  SemaphoreWaitOp::create(builder, loc, semaphore(constant(0)), epoch,
                          constant(normBlocks()));
  FenceAsyncOp::create(builder, loc, /*shared=*/false);
  Value use = constant(0);
  if (problem.hasGemm1())
    use = loop(firstTile(), constant(tiling.tiles1), tileStride(), use,
               [&](Value, ValueRange outer) {
                 return loop(
                     constant(0), constant(tiling.steps1), 1, outer,
                     [&](Value step, ValueRange inner) -> SmallVector<Value> {
                       fetch(inner[0], input, step);
                       return {add(inner[0], 1)};
                     });
               })[0];
  if (gemm2OnlyRing)
    when(isGemm2Only(), [&] {
      SemaphoreWaitOp::create(builder, loc,
                              semaphore(constant(gemm2OnlySemaphore())), epoch,
                              constant(tiling.gemm1Blocks));
      RingReleaseOp::create(builder, loc, gemm2OnlyRing, constant(0));
    });
  when(hasUnit, [&] {
    int64_t own = tiling.stepsPerSlice / tiling.parts;
    for (int64_t part = 0; part < tiling.parts; ++part) {
      if (problem.hasGemm1()) {
        Value tiles = countTiles();
        SemaphoreWaitOp::create(builder, loc,
                                semaphore(add(slice, 1 + part * tiling.slices)),
                                epoch, mul(tiles, arrivalsPerTile()));
        FenceAsyncOp::create(builder, loc, /*shared=*/false);
      }
      Value first = add(mul(slice, own), part * (tiling.steps2 / 2));
      loop(constant(0), tiling.parts == 1 ? getSliceSteps() : constant(own), 1,
           {}, [&](Value step, ValueRange) -> SmallVector<Value> {
             fetch(add(add(use, part * own), step),
                   problem.hasGemm1() ? hidden : input, add(first, step));
             return {};
           });
    }
  });
}

//===----------------------------------------------------------------------===//
// Arrivals
//===----------------------------------------------------------------------===//

/// Arrives for deferred tiles: a release takes as long as several k-steps, for
/// which the math warps have better use.
void DecodeKernelBuilder::announceTiles() {
  depend();
  for (int64_t part = 0; part < tiling.parts; ++part) {
    BarrierOp::create(builder, loc,
                      builder.getI64IntegerAttr(kTileBarrier + part),
                      builder.getI64IntegerAttr(kMathThreads + 32));
    when(equal(id(IdKind::Lane), 0), [&] {
      FenceAsyncOp::create(builder, loc, /*shared=*/false);
      SemaphoreArriveOp::create(
          builder, loc,
          hiddenSemaphore(add(block, part * tiling.tilesPerPart)));
    });
  }
}
