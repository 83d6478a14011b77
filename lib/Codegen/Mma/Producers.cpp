//===- Producers.cpp - Rows, weights and tokens of mma kernels ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MmaFrame.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

/// Bytes that a thread copies at a time.
static constexpr int64_t kPieceBytes = 16;

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

bool RowProducer::hasOneRow() const {
  return k.isWhole() && k.tokens <= k.schedule.getBlocks();
}

void RowProducer::request() {
  if (hasOneRow())
    loaded = k.loadRow(k.min(k.block, k.sub(k.count, k.constant(1))),
                       /*early=*/true);
}

void RowProducer::produce() {
  if (!hasOneRow()) {
    OpBuilder &builder = k.builder;
    int64_t blocks = builder.getInsertionBlock()
                         ->getParent()
                         ->getParentOfType<tile::KernelOp>()
                         .getBlocks();
    k.normalizeAll(k.block, k.count, blocks);
  } else {
    k.when(k.less(k.block, k.count), [&] { k.normalizeRow(k.block, loaded); });
  }
  if (!k.isWhole())
    return;
  k.syncBlock();
  // The number of arrivals must not depend on the launch.
  int64_t arrivals = std::min(k.tokens, k.schedule.getBlocks());
  k.when(
      k.both(k.equal(k.thread, 0), k.less(k.block, k.constant(arrivals))), [&] {
        SemaphoreArriveOp::create(k.builder, k.loc, k.semaphore(k.constant(0)));
      });
}

void RowProducer::await() {
  k.await(k.constant(0),
          k.constant(std::min(k.tokens, k.schedule.getBlocks())));
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void WeightProducer::request(Value tile, Value step, Value stage,
                             Value condition) {
  constexpr int64_t share = kMmaThreads * kPieceBytes;
  Value first = k.mul(tile, product.perTile);
  Value line = k.mul(step, product.packedTiles * 4);
  Value at = k.mul(k.thread, kPieceBytes);
  Value source = k.zext(at), target = k.add(stage, at);
  for (int64_t index = 0; index < product.perTile; ++index) {
    Value quarter = k.add(first, index);
    // The last tile may be smaller. Its other rows are not stored.
    if (product.tiles * product.perTile != product.quarters && index > 0)
      quarter = k.min(quarter, k.constant(product.quarters - 1));
    Value base = k.add(k.scale(k.add(line, quarter), kQuarterBytes), source);
    for (int64_t from = 0; from < kQuarterBytes; from += share) {
      Value offset = base;
      if (from > 0)
        offset = arith::AddIOp::create(
            k.builder, k.loc, base,
            arith::ConstantOp::create(k.builder, k.loc,
                                      k.builder.getI64IntegerAttr(from)));
      AsyncCopyOp::create(k.builder, k.loc, weights, offset, k.sharedBytes,
                          k.add(target, index * kQuarterBytes + from),
                          condition);
    }
  }
}

void TokenProducer::request(Value tokenTile, Value step, Value stage,
                            Value condition) {
  int64_t bytes = k.problem.getElementBytes(), piece = kPieceBytes / bytes;
  int64_t stepElements = k.tokens * kRowBytes / bytes;
  int64_t pieces = k.tokens * kRowBytes / kPieceBytes;
  Value line = k.add(k.mul(tokenTile, steps), step);
  Value base = k.scale(line, stepElements);
  Value target = k.div(k.add(stage, k.tokensAt()), bytes);
  for (int64_t from = 0; from < pieces; from += kMmaThreads) {
    Value number = k.add(k.thread, from), exists = condition;
    if (from + kMmaThreads > pieces)
      exists = k.both(exists, k.less(number, k.constant(pieces)));
    Value at = k.mul(number, piece);
    AsyncCopyOp::create(k.builder, k.loc, matrix, k.add(base, k.zext(at)),
                        k.sharedTokens, k.add(target, at), exists);
  }
}
