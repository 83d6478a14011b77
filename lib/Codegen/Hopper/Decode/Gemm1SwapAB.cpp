//===- Gemm1SwapAB.cpp - Decode kernels: swap-AB GEMM1 --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Swap-AB: tokens are the left operand of GEMM1. Each warpgroup reads 64 tokens
// and all weight rows of the block; with weights on the left, both warpgroups
// read all tokens. With many tokens, swap-AB reads less shared memory for each
// row. A block may have any number of groups of 32 packed rows, so widths that
// do not give each CTA a whole number of tiles are split evenly.
// Groups follow each other in memory, but for the halves of a run: 16 rows of a
// group are 64 rows after the other 16. A stage has the first halves of all
// groups of a tile and then the second ones, so that registers do not depend on
// where the tile begins. A thread has neighboring hidden units of two tokens,
// which need not pass through shared memory, and each warp arrives for itself.
//
//===----------------------------------------------------------------------===//

#include "DecodeKernelBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Groups of half a packed tile, packed rows of a group in each half of such a
/// run, and their bytes.
static constexpr int64_t kRunGroups = 4, kHalfRows = 16;
static constexpr int64_t kHalfBytes = kHalfRows * 128;

/// The first group of a tile. The last tile ends with the last group, also
/// where it has groups of the tile before then: both store the same there.
Value DecodeKernelBuilder::firstGroup(Value tileIndex) {
  Value first = mul(tileIndex, tiling.groupsPerTile);
  if (tiling.groups % tiling.groupsPerTile == 0)
    return first;
  return min(first, constant(tiling.groups - tiling.groupsPerTile));
}

/// Where a stage of GEMM1 comes from: each half of every run that
/// the tile has groups of.
void DecodeKernelBuilder::visitGroups(Value tileIndex, Value step,
                                      PieceVisitor visit) {
  int64_t count = tiling.groupsPerTile, most = 0;
  for (int64_t tile = 0; tile < tiling.tiles1; ++tile) {
    int64_t first = std::min(tile * count, tiling.groups - count);
    int64_t runs = llvm::divideCeil(first % kRunGroups + count, kRunGroups);
    most = std::max(most, runs);
  }
  Value first = firstGroup(tileIndex), end = add(first, count);
  Value run = div(first, kRunGroups);
  Value rows = mul(step, 256 * tiling.packedTiles1);
  for (int64_t index = 0; index < most; ++index) {
    Value begin = index == 0 ? first : mul(add(run, index), kRunGroups);
    Value next = min(mul(add(run, index + 1), kRunGroups), end);
    when(index == 0 ? Value() : less(begin, end), [&] {
      Value place = mul(rem(begin, kRunGroups), kHalfRows);
      Value row = add(mul(div(begin, kRunGroups), 2 * kRunGroups * kHalfRows),
                      add(rows, place));
      Value at = mul(sub(begin, first), kHalfBytes);
      Value length = mul(sub(next, begin), kHalfBytes);
      for (int64_t half : {0, 1})
        visit({weights1, scale(add(row, half * kRunGroups * kHalfRows), 128), 0,
               0, add(at, half * count * kHalfBytes), length});
    });
  }
}

/// Activation and gate of a tile.
void DecodeKernelBuilder::storeGroups(Value tileIndex, Value acc) {
  Values sums = valuesOf(acc);
  Value first = firstGroup(tileIndex);
  bool pairs = problem.isGated();
  for (int64_t half : {0, 1}) {
    Value token = add(add(mul(group, 64), mul(warp, 16)), add(row8, 8 * half));
    Value exists = tokens % 128 == 0 ? Value() : less(token, constant(tokens));
    when(exists, [&] {
      auto store = [&](bool isOdd) {
        storeGroupsOf(token, half, first, isOdd, sums);
      };
      // Which groups are pairs depends on where the tile begins.
      if (pairs && tiling.groupsPerTile % 2 != 0)
        either(
            equal(rem(first, 2), 1), [&] { store(true); },
            [&] { store(false); });
      else
        store(false);
    });
  }
  arriveAtSlices(tileIndex);
}

/// Hidden units of one token. Of a gated MLP those of an even group and the
/// next one are neighbors, so that they are one access.
void DecodeKernelBuilder::storeGroupsOf(Value token, int64_t half, Value first,
                                        bool isOdd, ArrayRef<Value> sums) {
  int64_t count = tiling.groupsPerTile, quad = problem.isGated() ? 16 : 8;
  for (int64_t index = 0; index < count;) {
    int64_t end = index + 1;
    if (problem.isGated() && (index > 0 || !isOdd) && end < count)
      ++end;
    Value at = add(first, index);
    Value unit = problem.isGated() ? add(mul(div(at, kRunGroups), 64),
                                         mul(rem(at, kRunGroups), 4))
                                   : mul(at, 32);
    unit = add(unit, mul(rem(lane, 4), quad));
    Values gate, up;
    for (int64_t own = index; own < end; ++own)
      for (auto [place, column] :
           llvm::enumerate(getPlaces(half, 2 * own, 2 * (count + own))))
        (problem.isGated() && place % 2 == 0 ? gate : up)
            .push_back(sums[column]);
    Value safe = unit;
    if (tiling.groups * tiling.hiddenPerTile != problem.hidden * count)
      safe = select(less(unit, constant(problem.hidden)), unit, constant(0));
    auto size = static_cast<int64_t>(up.size());
    Rounded values = roundHidden(gate, up, loadBias(gateBias, safe, size),
                                 loadBias(upBias, safe, size));
    store(activateHidden(values), hidden, packedIndex(token, unit));
    index = end;
  }
}

/// The tile has units of one K-slice or of several neighboring ones. A lane
/// arrives for each: a release takes as long as many.
void DecodeKernelBuilder::arriveAtSlices(Value tileIndex) {
  FenceAsyncOp::create(builder, loc, /*shared=*/false);
  WarpSyncOp::create(builder, loc);
  int64_t count = tiling.groupsPerTile, own = tiling.getSliceGroups();
  Value first = mul(tileIndex, count);
  Value end = min(add(first, count), constant(tiling.groups));
  Value slice = add(div(first, own), lane);
  when(less(mul(slice, own), end), [&] {
    SemaphoreArriveOp::create(builder, loc, semaphore(add(slice, 1)));
  });
}
