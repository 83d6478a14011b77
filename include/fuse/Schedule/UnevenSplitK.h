//===- UnevenSplitK.h - Ranges of unequal length ------------- --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where both products share a launch, some blocks, the late ones, may have a
// tile more of GEMM1 than the others. Ranges of early blocks are
// longer: they have the first k-steps of GEMM2 for themselves, about
// as many as a tile of the first has, and share the others with the late ones.
//
// Early blocks that have had one tile would wait for the first hidden units,
// which late blocks activate under their second tile. They begin with what only
// early blocks have computed, which all of them have finished at once.
//
// The arithmetic is a parameter: kernels compute what the model counts.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_UNEVENSPLITK_H
#define FUSE_SCHEDULE_UNEVENSPLITK_H

#include "fuse/Schedule/PrefillSchedule.h"

namespace fuse {

/// k-steps that early blocks with one tile wait for hidden units: those that
/// they begin with themselves, or the first ones.
constexpr int64_t kAwaitedOwn = 8, kAwaitedFirst = 12;

/// Arithmetic of IndexBuilder on numbers.
struct HostIndex {
  using Value = int64_t;
  Value c(Value x) { return x; }
  Value add(Value x, Value y) { return x + y; }
  Value sub(Value x, Value y) { return x - y; }
  Value mul(Value x, Value y) { return x * y; }
  Value div(Value x, Value y) { return x / y; }
  Value rem(Value x, Value y) { return x % y; }
  Value min(Value x, Value y) { return std::min(x, y); }
  Value select(Value condition, Value x, Value y) { return condition ? x : y; }
  // Values of kernels have no sign.
  Value less(Value x, Value y) {
    return static_cast<uint32_t>(x) < static_cast<uint32_t>(y);
  }
  Value equal(Value x, Value y) { return x == y; }
};

/// Tiles of GEMM1, counted from the front, until the semaphores that the
/// first `count` k-steps of a unit need are complete.
template <typename Builder, typename GetStep>
typename Builder::Value countNeeded(Builder &b, const PrefillTiling &tiling,
                                    int64_t count, GetStep getStep) {
  auto last = getStep(b.c(0));
  for (int64_t index = 1; index < count; ++index) {
    auto step = getStep(b.c(index));
    last = b.select(b.less(last, step), step, last);
  }
  auto semaphore = b.div(last, b.c(tiling.stepsPerSemaphore));
  return b.min(b.mul(b.add(semaphore, b.c(1)), b.c(tiling.tilesPerSemaphore)),
               b.c(tiling.tiles1));
}

/// Assignment of K-slices for a given number of token tiles.
template <typename Builder>
class RangeDeal {
public:
  using Value = typename Builder::Value;

  RangeDeal(Builder &b, const PrefillTiling &tiling, int64_t blocks,
            Value tokenTiles)
      : b(b), tiling(tiling), blocks(blocks),
        tokenTiles(b.select(b.equal(tokenTiles, 0), b.c(1), tokenTiles)),
        units(b.mul(this->tokenTiles, tiling.tiles1)) {}

  struct Range {
    Value tokenTile, tile, range;
    /// Number of the pair of tiles.
    Value index;
    /// How many of the pair's ranges are longer, by how many k-steps this one
    /// is, and how many k-steps the longer ones have for themselves.
    Value early, lead, shared;
  };

  /// The last blocks are the early ones, and have the first units: those of the
  /// first range of every pair of tiles, then those of the second.
  Range locate(Value unit) {
    Value pairs = b.mul(tokenTiles, tiling.last.tiles);
    Range result;
    result.range = b.div(unit, pairs);
    result.index = b.rem(unit, pairs);
    result.tile = b.div(result.index, tokenTiles);
    result.tokenTile = b.rem(result.index, tokenTiles);
    Value early = b.sub(b.c(blocks), countLate());
    Value before = b.add(result.index, b.c(1));
    early = b.div(b.sub(b.add(early, pairs), before), pairs);
    result.early = b.min(early, b.c(tiling.last.ranges));
    Value some = b.select(b.equal(result.early, 0), b.c(1), result.early);
    Value lead =
        b.min(getWantedLead(), b.div(b.c(tiling.last.getMostLead()), some));
    result.shared = b.mul(result.early, lead);
    result.lead = b.select(b.less(result.range, result.early), lead, b.c(0));
    return result;
  }

  Value getSteps(const Range &range) {
    int64_t ranges = tiling.last.ranges;
    Value rest = b.sub(b.c(tiling.last.steps + ranges - 1),
                       b.add(range.shared, range.range));
    return b.add(b.div(rest, b.c(ranges)), range.lead);
  }

  /// Ranges take k-steps in turn, first the longer ones, then all.
  Value getStep(const Range &range, Value index) {
    Value own = b.mul(index, range.early);
    Value all = b.add(b.mul(b.sub(index, range.lead), b.c(tiling.last.ranges)),
                      range.shared);
    Value at =
        b.add(b.select(b.less(index, range.lead), own, all), range.range);
    // The middle, what lies before it, and the end.
    Middle middle = findMiddle();
    Value length = b.sub(middle.end, middle.begin);
    return b.select(b.less(at, length), b.add(at, middle.begin),
                    b.select(b.less(at, middle.end), b.sub(at, length), at));
  }

private:
  /// k-steps whose hidden units only early blocks have.
  struct Middle {
    Value begin, end;
  };

  /// Where others have no tile at all, there is nothing that they could do
  /// earlier, and no block is late.
  Value countLate() {
    return b.select(b.less(units, b.c(blocks)), b.c(0),
                    b.rem(units, b.c(blocks)));
  }

  /// Whether early blocks have had one tile.
  Value isSecond() { return b.less(units, b.c(2 * blocks)); }

  /// Nothing where blocks have had more than a tile before, or where only early
  /// ones have no whole semaphore of hidden units.
  Middle findMiddle() {
    Value late = b.select(isSecond(), countLate(), b.c(0));
    int64_t perSemaphore = tiling.tilesPerSemaphore;
    Value lateTiles = b.div(b.sub(b.add(late, tokenTiles), b.c(1)), tokenTiles);
    Value end = b.div(b.c(blocks), tokenTiles);
    Middle middle;
    middle.begin =
        b.mul(b.div(b.add(lateTiles, b.c(perSemaphore - 1)), b.c(perSemaphore)),
              b.c(tiling.stepsPerSemaphore));
    middle.end =
        b.mul(b.div(end, b.c(perSemaphore)), b.c(tiling.stepsPerSemaphore));
    middle.begin =
        b.select(b.less(middle.begin, middle.end), middle.begin, b.c(0));
    return middle;
  }

  /// Early blocks have the time of a tile, but for what they wait.
  Value getWantedLead() {
    Value awaited = b.select(b.equal(findMiddle().begin, 0), b.c(kAwaitedFirst),
                             b.c(kAwaitedOwn));
    awaited = b.select(isSecond(), awaited, b.c(0));
    return b.sub(b.c(tiling.steps1), b.min(awaited, b.c(tiling.steps1)));
  }

  Builder &b;
  const PrefillTiling &tiling;
  int64_t blocks;
  Value tokenTiles, units;
};

/// k-steps until all blocks of a launch of both products have their sums, what
/// they wait for included. GEMM2 has ranges.
int64_t countRangeSteps(const PrefillTiling &tiling, int64_t blocks,
                        int64_t tokens);

} // namespace fuse

#endif // FUSE_SCHEDULE_UNEVENSPLITK_H
