//===- DecodeProducts.cpp - Decode kernels: products and activation -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"
#include "fuse/Support/Inject.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Accumulators of 64 rows each over `stages` stages of weights, each with
/// `stepsPerStage` k-steps of all rows of a block. One group of products stays
/// in flight; what it does not read is released. The last `kept` token stages
/// are left for the caller to release.
SmallVector<Value> DecodeKernelBuilder::mainLoop(Uses &uses, Value stages,
                                                 int64_t stepsPerStage,
                                                 int64_t accs, int64_t kept) {
  MLIRContext *context = b.getContext();
  int64_t columns = 128 / elementBytes;
  Type lhs = SharedType::get(context, 64, columns, element, 128);
  Type rhs = SharedType::get(context, tokens, columns, element, 128);
  Value leader = equal(rem(thread, 128), 0);
  Value end = add(uses.token, mul(stages, stepsPerStage));
  auto release = [&](Value condition, Value ring, Value use) {
    when(condition, [&] { RingReleaseOp::create(b, loc, ring, use); });
  };
  SmallVector<Type> accTypes(accs, acc);
  Values carried(accs, AccZeroOp::create(b, loc, acc));
  carried.append({uses.weight, uses.token});
  Values results = loop(
      c(0), stages, 1, carried,
      [&](Value index, ValueRange carried) -> SmallVector<Value> {
        Values sums = carried.take_front(accs);
        Value weightUse = carried[accs], tokenUse = carried[accs + 1];
        Value weightStage = waitFor(weightRing, weightUse);
        // A warpgroup's rows of a k-step lie next to each other.
        Value offset = mul(group, accs * 64 * 128);
        for (int64_t step = 0; step < stepsPerStage; ++step) {
          Value use = add(tokenUse, step);
          Value tokenStage = waitFor(tokenRing, use);
          Values rows;
          for (int64_t index = 0; index < accs; ++index)
            rows.push_back(ViewOp::create(
                b, loc, lhs, weightStage,
                add(offset, (step * 2 * accs + index) * 64 * 128)));
          Value tokenRows = ViewOp::create(b, loc, rhs, tokenStage, c(0));
          auto fenced = AccFenceOp::create(b, loc, accTypes, sums);
          for (int64_t index = 0; index < accs; ++index)
            sums[index] = MmaOp::create(b, loc, acc, rows[index], tokenRows,
                                        fenced.getResult(index));
          MmaCommitOp::create(b, loc);
          MmaWaitOp::create(b, loc, 1);
          Value before = sub(use, c(1));
          Value done = step == 0 ? both(less(c(0), index), leader) : leader;
          if (step == 0)
            release(done, weightRing, sub(weightUse, c(1)));
          if (kept > 1)
            done = both(done, less(add(before, kept), end));
          release(done, tokenRing, before);
        }
        sums.append({add(weightUse, 1), add(tokenUse, stepsPerStage)});
        return sums;
      });
  auto done =
      AccWaitOp::create(b, loc, accTypes, ValueRange(results).take_front(accs));
  uses = {results[accs], results[accs + 1]};
  release(leader, weightRing, sub(uses.weight, c(1)));
  if (kept == 0)
    release(leader, tokenRing, sub(uses.token, c(1)));
  return llvm::to_vector_of<Value>(done.getResults());
}

/// Activation and gate of one tile of the first product. Packing puts the
/// rows of a thread next to each other: gate and up of two hidden units, or
/// four hidden units; of half a tile, one or two.
void DecodeKernelBuilder::storeHidden(Value tileIndex, ValueRange accs,
                                      Uses uses) {
  bool half = accs.size() == 1;
  int64_t units = (p.isGated() ? 2 : 4) / (half ? 2 : 1);
  Value local;
  if (p.isGated())
    local = add(add(mul(div(row8, 2), 16), mul(rem(row8, 2), 2)),
                add(mul(warp, 4), mul(group, half ? 1 : 64)));
  else
    local = add(mul(group, half ? 2 : 128), add(mul(warp, 32), mul(row8, 4)));
  Value unit = add(mul(tileIndex, tiling.hiddenPerTile), local);
  Value inside, safe = unit;
  if (p.hidden % tiling.hiddenPerTile != 0) {
    inside = less(unit, c(p.hidden));
    safe = select(inside, unit, c(0));
  }
  Values biasGate = loadBias(gateBias, safe, units),
         biasUp = loadBias(upBias, safe, units);

  // A tile that leaves through shared memory takes the place of the last
  // tokens, which both warpgroups have read by then.
  Value staged, chunk, rest;
  int64_t stages = tiling.getHiddenStages();
  auto stageAt = [&](Value index) {
    return waitFor(tokenRing, add(sub(uses.token, c(stages)), index));
  };
  if (s.getStaged()) {
    barrier();
    Value byte = mul(local, elementBytes);
    Value stage = stageAt(stages == 1 ? c(0) : div(byte, 128));
    auto type = BufferType::get(b.getContext(), element, Memory::Shared);
    staged = StageBufferOp::create(b, loc, type, stage);
    chunk = div(rem(byte, 128), 16);
    rest = rem(byte, 16);
  }

  auto epilogue = EpilogueOp::create(b, loc, accs);
  Block *body = b.createBlock(&epilogue.getBody());
  body->addArguments({b.getI32Type(), b.getI32Type()},
                     SmallVector<Location>(2, loc));
  // Of each accumulator the thread's row in the lower and in the upper half.
  Values low, high, all;
  for (size_t index = 0; index < accs.size(); ++index) {
    low.push_back(body->addArgument(f32, loc));
    high.push_back(body->addArgument(f32, loc));
    all.append({low.back(), high.back()});
  }
  Value token = body->getArgument(0);
  auto compute = [&] {
    return activateHidden(p.isGated() ? roundHidden(low, high, biasGate, biasUp)
                                      : roundHidden({}, all, {}, biasUp));
  };
  // Rows past the last token belong to the workspace too. Storing them spares
  // a branch for each column, which would keep the columns from overlapping.
  if (staged) {
    Value at = add(add(mul(token, tiling.getHiddenBytes()),
                       mul(placeOf(chunk, token), 16)),
                   rest);
    store(compute(), staged, div(at, elementBytes));
  } else {
    when(inside,
         [&] { store(compute(), hidden, add(mul(token, p.hidden), unit)); });
  }
  b.setInsertionPointAfter(epilogue);

  Value mine = word(add(div(tileIndex, tiling.tilesPerRange), 1));
  if (!staged) {
    // Every warp arrives for itself.
    if (!isInjected("tile-fence"))
      FenceAsyncOp::create(b, loc, /*shared=*/false);
    WarpSyncOp::create(b, loc);
    when(leads, [&] { WordArriveOp::create(b, loc, mine); });
    return;
  }
  barrier();
  for (int64_t index = 0; index < stages; ++index)
    copyHidden(tileIndex, stageAt(c(index)), index * 128 / elementBytes);
  FenceAsyncOp::create(b, loc, /*shared=*/false);
  barrier();
  when(equal(thread, 0), [&] {
    if (part == Part::Both)
      WordArriveOp::create(b, loc, mine);
    // For both warpgroups.
    for (int64_t index = 0; index < stages; ++index)
      for (int64_t consumer = 0; consumer < 2; ++consumer)
        RingReleaseOp::create(b, loc, tokenRing,
                              sub(uses.token, c(stages - index)));
  });
}

/// Copies hidden units from shared memory, 16 bytes of a token at a time: a
/// tensor copy would wait behind the weights, which the same engine copies.
void DecodeKernelBuilder::copyHidden(Value tileIndex, Value stage,
                                     int64_t firstUnit) {
  int64_t rowBytes = tiling.getHiddenBytes(), perRow = rowBytes / 16;
  int64_t units = 16 / elementBytes, pieces = tokens * perRow;
  Type vector = VectorType::get(units, element);
  Value staged = StageBufferOp::create(
      b, loc, BufferType::get(b.getContext(), element, Memory::Shared), stage);
  for (int64_t begin = 0; begin < pieces; begin += kMathThreads) {
    Value piece = add(thread, begin), exists;
    if (begin + kMathThreads > pieces)
      exists = less(piece, c(pieces));
    Value token = div(piece, perRow), chunk = rem(piece, perRow);
    Value unit = add(add(mul(tileIndex, tiling.hiddenPerTile), firstUnit),
                     mul(chunk, units));
    if (p.hidden % tiling.hiddenPerTile != 0)
      exists = both(exists, less(unit, c(p.hidden)));
    when(exists, [&] {
      Value at = add(mul(token, rowBytes), mul(placeOf(chunk, token), 16));
      store(load(vector, staged, div(at, elementBytes)), hidden,
            add(mul(token, p.hidden), unit));
    });
  }
}

/// Where a 16-byte piece of a token's hidden units is in shared memory: moved
/// like a swizzle would, so that tokens do not lie in the same banks.
Value DecodeKernelBuilder::placeOf(Value chunk, Value token) {
  int64_t perRow = tiling.getHiddenBytes() / 16;
  return arith::XOrIOp::create(b, loc, chunk, rem(token, perRow));
}

void DecodeKernelBuilder::multiplyFirst(Uses &uses) {
  int64_t kept = s.getStaged() ? tiling.getHiddenStages() : 0;
  Values next =
      loop(block, c(tiling.tiles1), s.getBlocks(), {uses.weight, uses.token},
           [&](Value tile, ValueRange carried) -> SmallVector<Value> {
             Uses uses{carried[0], carried[1]};
             Values accs = mainLoop(uses, c(tiling.steps1), /*stepsPerStage=*/1,
                                    tiling.firstRows / 128, kept);
             storeHidden(tile, accs, uses);
             return {uses.weight, uses.token};
           });
  uses = {next[0], next[1]};
}
