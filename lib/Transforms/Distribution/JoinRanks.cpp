//===- JoinRanks.cpp - All ranks in one function --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every rank computes everything, its sums over ranks included, so that the
// results of two ranks can be compared. Ranks meet only at a reduction, so the
// ops of one rank can follow those of another.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

namespace fuse {
#define GEN_PASS_DEF_JOINRANKSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

using Values = SmallVector<Value>;

/// The part of `whole` on a rank.
static Value takePart(OpBuilder &builder, Location loc, Value whole,
                      ShardAttr shard, int64_t rank) {
  auto type = cast<RankedTensorType>(whole.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0)),
      strides(type.getRank(), builder.getIndexAttr(1));
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(builder, loc, whole);
  int64_t length = type.getDimSize(shard.getDim()) / shard.getPieces();
  sizes[shard.getDim()] = builder.getIndexAttr(length / shard.getCount());
  Values parts;
  for (int64_t piece = 0; piece < shard.getPieces(); ++piece) {
    offsets[shard.getDim()] = builder.getIndexAttr(
        piece * length + rank * (length / shard.getCount()));
    parts.push_back(tensor::ExtractSliceOp::create(builder, loc, whole, offsets,
                                                   sizes, strides));
  }
  if (parts.size() == 1)
    return parts.front();
  return tensor::ConcatOp::create(builder, loc, shard.getDim(), parts);
}

/// A vector of features as a tensor like `like`.
static Value broadcast(OpBuilder &builder, Location loc, Value vector,
                       Value like) {
  auto type = cast<RankedTensorType>(like.getType());
  Type element = cast<RankedTensorType>(vector.getType()).getElementType();
  Value init = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, like), element);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1));
  return linalg::BroadcastOp::create(builder, loc, vector, init, dims)
      ->getResult(0);
}

/// The sum of `parts` in the order of the ranks.
static Value sum(OpBuilder &builder, AllReduceOp op, ArrayRef<Value> parts,
                 Value bias) {
  Location loc = op.getLoc();
  Type f32 = builder.getF32Type(), rounded = op.getType().getElementType();
  bool isBiasInSum = bias && op.getBiasPlace() == BiasPlace::BeforeRounding;
  Value total = parts.front();
  for (auto [index, part] : llvm::enumerate(parts.drop_front())) {
    bool isLast = index + 2 == parts.size() && !isBiasInSum;
    total = ResidualAddOp::create(
        builder, loc, withElementType(part.getType(), isLast ? rounded : f32),
        total, part);
  }
  if (!bias)
    return total;
  return ResidualAddOp::create(builder, loc,
                               withElementType(total.getType(), rounded), total,
                               broadcast(builder, loc, bias, total));
}

LogicalResult fuse::joinRanks(func::FuncOp function, bool all) {
  auto ranks = function->getAttrOfType<IntegerAttr>(kRanksAttrName);
  if (!ranks || function.isExternal())
    return success();
  int64_t count = ranks.getInt();
  if (count < 2)
    return function.emitError() << "needs at least 2 ranks, got " << count;
  if (!function.getBody().hasOneBlock())
    return function.emitError()
           << "has " << function.getBody().getBlocks().size()
           << " blocks; expected one";
  Block &body = function.front();
  SmallVector<ShardAttr> cuts;
  for (BlockArgument argument : body.getArguments()) {
    auto shard = cuts.emplace_back(function.getArgAttrOfType<ShardAttr>(
        argument.getArgNumber(), kShardAttrName));
    if (!shard)
      continue;
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (shard.getCount() != count || !type || shard.getDim() >= type.getRank())
      return function.emitError()
             << "argument " << argument.getArgNumber() << " of type "
             << argument.getType() << " is no part for " << count << " ranks";
  }
  for (AllReduceOp op : body.getOps<AllReduceOp>())
    if (op.getSize() != uint64_t(count))
      return op.emitOpError() << "sums over " << op.getSize()
                              << " ranks, the function has " << count;
  WalkResult nested = function.walk([&](AllReduceOp op) {
    if (op->getBlock() == &body)
      return WalkResult::advance();
    op.emitOpError("is in a region, which ranks may not all execute");
    return WalkResult::interrupt();
  });
  if (nested.wasInterrupted())
    return failure();

  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  SmallVector<Operation *> originals;
  for (Operation &op : body.without_terminator())
    originals.push_back(&op);
  SmallVector<IRMapping> mappings(count);
  for (auto [argument, shard] : llvm::zip(body.getArguments(), cuts)) {
    if (!shard)
      continue;
    argument.setType(
        shard.getWholeType(cast<RankedTensorType>(argument.getType())));
    function.removeArgAttr(argument.getArgNumber(), kShardAttrName);
    for (auto [rank, mapping] : llvm::enumerate(mappings))
      mapping.map(argument,
                  takePart(builder, argument.getLoc(), argument, shard, rank));
  }
  builder.setInsertionPoint(body.getTerminator());
  for (Operation *op : originals) {
    auto reduction = dyn_cast<AllReduceOp>(op);
    Values parts;
    for (IRMapping &mapping : mappings)
      if (reduction)
        parts.push_back(mapping.lookupOrDefault(reduction.getX()));
      else
        builder.clone(*op, mapping);
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      Value bias = reduction.getBias();
      mappings[rank].map(
          reduction.getY(),
          sum(builder, reduction, parts,
              bias ? mappings[rank].lookupOrDefault(bias) : bias));
    }
  }

  Operation *end = body.getTerminator();
  Values results;
  for (auto [rank, mapping] : llvm::enumerate(mappings)) {
    if (rank > 0 && !all)
      break;
    for (auto [index, value] : llvm::enumerate(end->getOperands())) {
      auto shard =
          function.getResultAttrOfType<ShardAttr>(index, kShardAttrName);
      Value result = mapping.lookupOrDefault(value);
      if (shard && !all) {
        Values parts;
        for (IRMapping &other : mappings)
          parts.push_back(other.lookupOrDefault(value));
        result = tensor::ConcatOp::create(builder, end->getLoc(),
                                          shard.getDim(), parts);
      }
      results.push_back(result);
    }
  }
  end->setOperands(results);
  for (Operation *op : llvm::reverse(originals))
    op->erase();
  if (all)
    function.setResAttrsAttr({});
  else
    for (unsigned index = 0; index < results.size(); ++index)
      function.removeResultAttr(
          index, StringAttr::get(function.getContext(), kShardAttrName));
  function.setFunctionType(builder.getFunctionType(
      body.getArgumentTypes(), TypeRange(ValueRange(results))));
  function->removeAttr(kRanksAttrName);
  makeSitesUnique(function);
  return success();
}

namespace {

struct JoinRanks : fuse::impl::JoinRanksPassBase<JoinRanks> {
  using Base::Base;

  void runOnOperation() override {
    if (!getOperation()->hasAttr(kRanksAttrName))
      return;
    if (failed(joinRanks(getOperation(), all)))
      return signalPassFailure();
    ++numJoined;
  }
};

} // namespace
