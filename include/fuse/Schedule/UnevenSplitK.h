//===- UnevenSplitK.h - K-slices of unequal length --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
// If both products share a launch, some CTAs may have an extra GEMM1 tile. The
// K-slices of CTAs without an extra tile are longer. These CTAs alone
// compute the first k-steps of GEMM2, about as many as a GEMM1 tile has. All
// CTAs share the other k-steps.
// CTAs with only one tile would wait for the first hidden units, because CTAs
// with an extra tile activate those during their second tile. CTAs without an
// extra tile therefore begin with hidden units that only such CTAs compute,
// which are ready at the same time.
//
// The arithmetic is a template parameter, so that kernels compute the same
// K-slices as the model.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_UNEVENSPLITK_H
#define FUSE_SCHEDULE_UNEVENSPLITK_H

#include "fuse/Schedule/PrefillSchedule.h"

namespace fuse {

/// Number of k-steps that CTAs with one tile wait for hidden units, if others
/// have two. They begin with units of CTAs with one tile (own) or with the
/// first units.
constexpr int64_t kAwaitedOwn = 8, kAwaitedFirst = 12;

/// The interface of IndexBuilder on host integers.
struct HostIndex {
  using Value = int64_t;
  Value constant(Value x) { return x; }
  Value add(Value x, Value y) { return x + y; }
  Value sub(Value x, Value y) { return x - y; }
  Value mul(Value x, Value y) { return x * y; }
  Value div(Value x, Value y) { return x / y; }
  Value rem(Value x, Value y) { return x % y; }
  Value min(Value x, Value y) { return std::min(x, y); }
  Value select(Value condition, Value x, Value y) { return condition ? x : y; }
  // Kernels compare unsigned values.
  Value less(Value x, Value y) {
    return static_cast<uint32_t>(x) < static_cast<uint32_t>(y);
  }
  Value equal(Value x, Value y) { return x == y; }
};

/// Number of GEMM1 tiles, from the front, that must be complete before a block
/// can start the first `count` k-steps of a unit.
template <typename Builder, typename GetStep>
typename Builder::Value countNeeded(Builder &builder,
                                    const PrefillTiling &tiling, int64_t count,
                                    GetStep getStep) {
  auto last = getStep(builder.constant(0));
  for (int64_t index = 1; index < count; ++index) {
    auto step = getStep(builder.constant(index));
    last = builder.select(builder.less(last, step), step, last);
  }
  auto semaphore =
      builder.div(last, builder.constant(tiling.stepsPerSemaphore));
  return builder.min(builder.mul(builder.add(semaphore, builder.constant(1)),
                                 builder.constant(tiling.tilesPerSemaphore)),
                     builder.constant(tiling.tiles1));
}

/// Assignment of K-slices for a given number of token tiles.
template <typename Builder>
class KSliceAssignment {
public:
  using Value = typename Builder::Value;

  KSliceAssignment(Builder &builder, const PrefillTiling &tiling,
                   int64_t blocks, Value tokenTiles)
      : builder(builder), tiling(tiling), blocks(blocks),
        tokenTiles(builder.select(builder.equal(tokenTiles, 0),
                                  builder.constant(1), tokenTiles)),
        units(builder.mul(this->tokenTiles, tiling.tiles1)) {}

  struct Slice {
    Value tokenTile, tile, slice;
    /// Index of the pair of a token tile and a GEMM2 tile.
    Value index;
    /// Number of longer K-slices of the pair, number of additional k-steps of
    /// this K-slice, and number of k-steps that only longer K-slices have.
    Value longSlices, lead, shared;
  };

  /// The last blocks have no extra tile. They have the first units: those of
  /// the first K-slice of every pair, then those of the second K-slice.
  Slice locate(Value unit) {
    Value pairs = builder.mul(tokenTiles, tiling.gemm2.tiles);
    Slice result;
    result.slice = builder.div(unit, pairs);
    result.index = builder.rem(unit, pairs);
    result.tile = builder.div(result.index, tokenTiles);
    result.tokenTile = builder.rem(result.index, tokenTiles);
    Value without = builder.sub(builder.constant(blocks), countWithExtraTile());
    Value before = builder.add(result.index, builder.constant(1));
    without =
        builder.div(builder.sub(builder.add(without, pairs), before), pairs);
    result.longSlices =
        builder.min(without, builder.constant(tiling.gemm2.slices));
    Value some = builder.select(builder.equal(result.longSlices, 0),
                                builder.constant(1), result.longSlices);
    Value lead = builder.min(
        getWantedLead(),
        builder.div(builder.constant(tiling.gemm2.getMostLead()), some));
    result.shared = builder.mul(result.longSlices, lead);
    result.lead = builder.select(builder.less(result.slice, result.longSlices),
                                 lead, builder.constant(0));
    return result;
  }

  Value getSteps(const Slice &slice) {
    int64_t slices = tiling.gemm2.slices;
    Value rest = builder.sub(builder.constant(tiling.gemm2.steps + slices - 1),
                             builder.add(slice.shared, slice.slice));
    return builder.add(builder.div(rest, builder.constant(slices)), slice.lead);
  }

  /// K-slices have interleaved k-steps: first the longer K-slices, then all
  /// K-slices.
  Value getStep(const Slice &slice, Value index) {
    Value own = builder.mul(index, slice.longSlices);
    Value all = builder.add(builder.mul(builder.sub(index, slice.lead),
                                        builder.constant(tiling.gemm2.slices)),
                            slice.shared);
    Value at = builder.add(
        builder.select(builder.less(index, slice.lead), own, all), slice.slice);
    // The order is: the middle, the k-steps before it, the k-steps after it.
    Middle middle = findMiddle();
    Value length = builder.sub(middle.end, middle.begin);
    return builder.select(builder.less(at, length),
                          builder.add(at, middle.begin),
                          builder.select(builder.less(at, middle.end),
                                         builder.sub(at, length), at));
  }

private:
  /// The k-steps whose hidden units only CTAs without an extra tile compute.
  struct Middle {
    Value begin, end;
  };

  /// Number of CTAs with an extra GEMM1 tile. If some CTAs have no GEMM1 tile,
  /// they cannot start GEMM2 earlier, and no tile counts as an extra one.
  Value countWithExtraTile() {
    return builder.select(builder.less(units, builder.constant(blocks)),
                          builder.constant(0),
                          builder.rem(units, builder.constant(blocks)));
  }

  /// Whether CTAs have one GEMM1 tile, or two with the extra one.
  Value isSecond() { return builder.less(units, builder.constant(2 * blocks)); }

  /// Empty if all CTAs have more than one tile, or if no semaphore has only
  /// hidden units of CTAs without an extra tile.
  Middle findMiddle() {
    Value withExtra =
        builder.select(isSecond(), countWithExtraTile(), builder.constant(0));
    int64_t perSemaphore = tiling.tilesPerSemaphore;
    Value extraTiles = builder.div(
        builder.sub(builder.add(withExtra, tokenTiles), builder.constant(1)),
        tokenTiles);
    Value end = builder.div(builder.constant(blocks), tokenTiles);
    Middle middle;
    middle.begin = builder.mul(
        builder.div(builder.add(extraTiles, builder.constant(perSemaphore - 1)),
                    builder.constant(perSemaphore)),
        builder.constant(tiling.stepsPerSemaphore));
    middle.end = builder.mul(builder.div(end, builder.constant(perSemaphore)),
                             builder.constant(tiling.stepsPerSemaphore));
    middle.begin = builder.select(builder.less(middle.begin, middle.end),
                                  middle.begin, builder.constant(0));
    return middle;
  }

  /// CTAs without an extra tile gain the time of one GEMM1 tile minus their
  /// wait.
  Value getWantedLead() {
    Value awaited = builder.select(builder.equal(findMiddle().begin, 0),
                                   builder.constant(kAwaitedFirst),
                                   builder.constant(kAwaitedOwn));
    awaited = builder.select(isSecond(), awaited, builder.constant(0));
    return builder.sub(builder.constant(tiling.steps1),
                       builder.min(awaited, builder.constant(tiling.steps1)));
  }

  Builder &builder;
  const PrefillTiling &tiling;
  int64_t blocks;
  Value tokenTiles, units;
};

/// Predicted number of k-steps until all blocks of a launch of both products
/// have their sums, including waits. GEMM2 must use split-K.
int64_t countSliceSteps(const PrefillTiling &tiling, int64_t blocks,
                        int64_t tokens);

} // namespace fuse

#endif // FUSE_SCHEDULE_UNEVENSPLITK_H
