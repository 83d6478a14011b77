//===- ProductConsumer.cpp - Products of mma kernels ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MmaFrame.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Tokens from which on the two halves of the warps have half of them each.
static constexpr int64_t kSplitTokens = 64;
/// Rows of a fragment, and bytes of a chunk.
static constexpr int64_t kFragmentRows = 16, kChunkBytes = 16;

ProductConsumer::ProductConsumer(MmaFrame &frame, const MmaProduct &product)
    : k(frame), product(product) {
  splitsTokens = k.tokens >= kSplitTokens && k.tokens % 16 == 0;
  quarters = splitsTokens ? product.perTile
                          : llvm::divideCeil(product.perTile, int64_t(2));
  groups = k.tokens / 8 / (splitsTokens ? 2 : 1);
  int64_t bytes = k.problem.getElementBytes(), row = kRowBytes / bytes;
  half = k.div(k.warp, 4);
  Value inEight = k.rem(k.lane, 8);
  // Lanes name rows of the four matrices of a fragment: both halves of its rows
  // for the first eight columns, then for the others.
  Value lhsRow = k.add(k.mul(k.rem(k.warp, 4), kFragmentRows),
                       k.rem(k.lane, kFragmentRows));
  // Of two groups of tokens, the columns of the first come first.
  Value rhsRow = k.add(k.mul(k.div(k.lane, 16), 8), inEight);
  if (splitsTokens)
    rhsRow = k.add(rhsRow, k.mul(half, k.tokens / 2));
  for (int64_t step = 0; step < kFragments; ++step) {
    auto place = [&](Value row8, Value chunk) {
      return k.add(
          k.mul(row8, row),
          k.mul(k.flip(k.add(chunk, 2 * step), inEight), kChunkBytes / bytes));
    };
    lhsOffsets.push_back(place(lhsRow, k.div(k.lane, kFragmentRows)));
    rhsOffsets.push_back(place(rhsRow, k.rem(k.div(k.lane, 8), 2)));
  }
}

MmaFrame::Values ProductConsumer::makeZeros() {
  auto type =
      AccType::get(k.builder.getContext(), kQuarterRows, 8 * groups, k.f32);
  MmaFrame::Values accs;
  for (int64_t index = 0; index < quarters; ++index)
    accs.push_back(AccZeroOp::create(k.builder, k.loc, type));
  return accs;
}

MmaFrame::Values ProductConsumer::load(Value stage, int64_t fragment) {
  int64_t bytes = k.problem.getElementBytes();
  int64_t quarterElements = kQuarterBytes / bytes,
          groupElements = 8 * kRowBytes / bytes;
  Value base = k.div(stage, bytes);
  Value rhsAt = k.add(base, rhsOffsets[fragment]),
        lhsAt = k.add(base, lhsOffsets[fragment]);
  auto load = [&](int64_t matrices, Value at) -> Value {
    auto type = VectorType::get(4 / bytes * matrices, k.element);
    return LoadMatrixOp::create(k.builder, k.loc, type, k.sharedTokens, at);
  };
  MmaFrame::Values fragments;
  for (int64_t group = 0; group < groups; group += 2)
    fragments.push_back(
        load(group + 1 < groups ? 4 : 2,
             k.add(rhsAt, k.tokensAt() / bytes + group * groupElements)));
  for (int64_t index = 0; index < quarters; ++index) {
    Value at =
        splitsTokens
            ? k.add(lhsAt, index * quarterElements)
            : k.add(lhsAt, k.mul(getIndex(k.constant(index)), quarterElements));
    fragments.push_back(load(4, at));
  }
  return fragments;
}

MmaFrame::Values ProductConsumer::multiply(ValueRange accs,
                                           ValueRange fragments) {
  ValueRange rhs = fragments.drop_back(quarters);
  MmaFrame::Values results;
  for (auto [acc, lhs] : llvm::zip_equal(accs, fragments.take_back(quarters)))
    results.push_back(
        MmaSyncOp::create(k.builder, k.loc, acc.getType(), lhs, rhs, acc));
  return results;
}

/// The quarter of the tile that is the thread's `index`-th. Warps without one
/// compute the last one again.
Value ProductConsumer::getIndex(Value index) {
  if (splitsTokens)
    return index;
  Value number = k.add(k.mul(half, quarters), index);
  if (2 * quarters != product.perTile)
    number = k.min(number, k.constant(product.perTile - 1));
  return number;
}

Value ProductConsumer::getQuarter(Value tile, Value index) {
  return k.add(k.mul(tile, product.perTile), getIndex(index));
}

Value ProductConsumer::hasQuarter(Value tile, Value index) {
  Value exists;
  if (!splitsTokens && 2 * quarters != product.perTile)
    exists = k.less(k.add(k.mul(half, quarters), index),
                    k.constant(product.perTile));
  if (product.tiles * product.perTile != product.quarters)
    exists = k.both(
        exists, k.less(getQuarter(tile, index), k.constant(product.quarters)));
  return exists;
}

Value ProductConsumer::getToken(Value group, Value parity) {
  Value token =
      k.add(k.add(k.mul(group, 8), k.mul(k.rem(k.lane, 4), 2)), parity);
  return splitsTokens ? k.add(token, k.mul(half, k.tokens / 2)) : token;
}

MmaFrame::Values ProductConsumer::valuesOf(Value acc) {
  SmallVector<Type> types(cast<AccType>(acc.getType()).getNumRegisters(),
                          k.f32);
  return llvm::to_vector_of<Value>(
      AccValuesOp::create(k.builder, k.loc, types, acc).getResults());
}
