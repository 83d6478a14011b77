//===- UnevenSplitK.h - K-slices of unequal length --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If both products share a launch, some blocks, the late ones, may have an
// extra GEMM1 tile. The K-slices (ranges) of early blocks are longer. Early
// blocks alone compute the first k-steps of GEMM2, about as many as a GEMM1
// tile has, and share the other k-steps with the late blocks.
//
// Early blocks with one tile would wait for the first hidden units, because
// late blocks activate those during their second tile. Early blocks therefore
// begin with hidden units that only early blocks compute, which are ready at
// the same time.
//
// The arithmetic is a template parameter, so that kernels compute the same
// ranges as the model.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_UNEVENSPLITK_H
#define FUSE_SCHEDULE_UNEVENSPLITK_H

#include "fuse/Schedule/PrefillSchedule.h"

namespace fuse {

/// Number of k-steps that early blocks with one tile wait for hidden units, if
/// they begin with units of early blocks (own) or with the first units.
constexpr int64_t kAwaitedOwn = 8, kAwaitedFirst = 12;

/// The interface of IndexBuilder on host integers.
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
  // Kernels compare unsigned values.
  Value less(Value x, Value y) {
    return static_cast<uint32_t>(x) < static_cast<uint32_t>(y);
  }
  Value equal(Value x, Value y) { return x == y; }
};

/// Number of GEMM1 tiles, from the front, that must be complete before a block
/// can start the first `count` k-steps of a unit.
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
    /// Index of the pair of a token tile and a GEMM2 tile.
    Value index;
    /// Number of longer ranges of the pair, number of additional k-steps of
    /// this range, and number of k-steps that only longer ranges have.
    Value early, lead, shared;
  };

  /// The last blocks are the early ones and have the first units: those of the
  /// first range of every pair, then those of the second range.
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

  /// Ranges have interleaved k-steps: first the longer ranges, then all ranges.
  Value getStep(const Range &range, Value index) {
    Value own = b.mul(index, range.early);
    Value all = b.add(b.mul(b.sub(index, range.lead), b.c(tiling.last.ranges)),
                      range.shared);
    Value at =
        b.add(b.select(b.less(index, range.lead), own, all), range.range);
    // The order is: the middle, the k-steps before it, the k-steps after it.
    Middle middle = findMiddle();
    Value length = b.sub(middle.end, middle.begin);
    return b.select(b.less(at, length), b.add(at, middle.begin),
                    b.select(b.less(at, middle.end), b.sub(at, length), at));
  }

private:
  /// The k-steps whose hidden units only early blocks compute.
  struct Middle {
    Value begin, end;
  };

  /// If some blocks have no GEMM1 tile, they cannot start GEMM2 earlier, and no
  /// block counts as late.
  Value countLate() {
    return b.select(b.less(units, b.c(blocks)), b.c(0),
                    b.rem(units, b.c(blocks)));
  }

  /// Whether early blocks have one GEMM1 tile, so that late blocks have two.
  Value isSecond() { return b.less(units, b.c(2 * blocks)); }

  /// Empty if early blocks have more than one tile, or if no semaphore has only
  /// hidden units of early blocks.
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

  /// Early blocks gain the time of one GEMM1 tile minus their wait.
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

/// Predicted number of k-steps until all blocks of a launch of both products
/// have their sums, including waits. GEMM2 must use split-K.
int64_t countRangeSteps(const PrefillTiling &tiling, int64_t blocks,
                        int64_t tokens);

} // namespace fuse

#endif // FUSE_SCHEDULE_UNEVENSPLITK_H
