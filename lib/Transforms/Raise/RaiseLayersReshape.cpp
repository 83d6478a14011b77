//===- RaiseLayersReshape.cpp - Move reshapes out of layers ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Front ends flatten leading dimensions before a matrix product and restore
// them after it. Layer ops support any number of leading dimensions. If an
// expand_shape undoes the collapse_shapes before a chain of layer ops, the
// chain moves to the wide shape and both reshapes are erased.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fuse;

unsigned fuse::getNumTokenOperands(Operation *op) {
  if (isa<GatedMulOp, ResidualAddOp>(op))
    return 2;
  return isLayerOp(op) ? 1 : 0;
}

Value fuse::getShapeSource(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (getNumTokenOperands(op) == 0)
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Whether the result of `expand` has the leading dimensions of `source`.
static bool restores(tensor::ExpandShapeOp expand, Value source) {
  auto type = cast<RankedTensorType>(source.getType());
  auto wide = cast<RankedTensorType>(expand.getResult().getType());
  if (type.getShape().drop_back() != wide.getShape().drop_back())
    return false;
  SmallVector<OpFoldResult> sizes = expand.getMixedOutputShape();
  for (const ReassociationIndices &group : expand.getReassociationIndices()) {
    auto isDynamic = [&](int64_t dim) { return wide.isDynamicDim(dim); };
    // A single dynamic size follows from the others.
    if (llvm::count_if(group, isDynamic) <= 1)
      continue;
    for (int64_t dim : group) {
      if (!isDynamic(dim))
        continue;
      auto size = dyn_cast<Value>(sizes[dim]);
      auto dimOp = size ? size.getDefiningOp<tensor::DimOp>() : nullptr;
      if (!dimOp || dimOp.getConstantIndex() != dim ||
          getShapeSource(dimOp.getSource()) != getShapeSource(source))
        return false;
    }
  }
  return true;
}

namespace {

/// The layer ops between an expand_shape and the collapse_shapes it undoes.
class Chain {
public:
  explicit Chain(tensor::ExpandShapeOp expand) : expand(expand) {}

  bool collect() {
    auto groups = expand.getReassociationIndices();
    // The feature dimension is not part of a reshape.
    if (groups.empty() || groups.back().size() != 1)
      return false;
    if (!collect(expand.getSrc()) || members.empty())
      return false;
    return llvm::all_of(members, [&](Operation *member) {
      return llvm::all_of(member->getUsers(), [&](Operation *user) {
        return user == expand || members.contains(user);
      });
    });
  }

  void rebuild(RewriterBase &builder) {
    builder.setInsertionPoint(expand);
    IRMapping mapping;
    for (auto [narrow, wide] : sources)
      mapping.map(narrow, wide);
    auto shape =
        cast<RankedTensorType>(expand.getResult().getType()).getShape();
    // Operands precede their users in `members`.
    for (Operation *member : members) {
      Operation *clone = builder.clone(*member, mapping);
      auto type = cast<RankedTensorType>(member->getResult(0).getType());
      SmallVector<int64_t> wide(shape);
      wide.back() = type.getShape().back();
      clone->getResult(0).setType(
          RankedTensorType::get(wide, type.getElementType()));
    }
    builder.replaceOp(expand, mapping.lookup(expand.getSrc()));
    for (Operation *member : llvm::reverse(members))
      builder.eraseOp(member);
    for (auto [narrow, wide] : sources)
      if (narrow.use_empty())
        builder.eraseOp(narrow.getDefiningOp());
  }

private:
  bool collect(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != expand->getBlock())
      return false;
    if (members.contains(op))
      return true;
    if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
      if (collapse.getReassociationIndices() !=
              expand.getReassociationIndices() ||
          !restores(expand, collapse.getSrc()))
        return false;
      sources.insert({value, collapse.getSrc()});
      return true;
    }
    // A scale per token or per index of dimension 0 has the narrow shape.
    auto linear = dyn_cast<LinearOp>(op);
    if (linear && linear.getDynamicScale())
      return false;
    auto quantize = dyn_cast<QuantizeOp>(op);
    auto dequantize = dyn_cast<DequantizeOp>(op);
    if ((quantize && quantize.getChannelScale()) ||
        (dequantize && dequantize.getChannelScale()))
      return false;
    unsigned tokens = getNumTokenOperands(op);
    // Bounds the stack; networks have other ops within far fewer layers.
    constexpr unsigned maxMembers = 512;
    if (tokens == 0 || ++visits > maxMembers)
      return false;
    for (Value operand : op->getOperands().take_front(tokens))
      if (!collect(operand))
        return false;
    members.insert(op);
    return true;
  }

  tensor::ExpandShapeOp expand;
  llvm::SmallSetVector<Operation *, 8> members;
  llvm::MapVector<Value, Value> sources;
  unsigned visits = 0;
};

} // namespace

bool fuse::sinkReshapes(RewriterBase &rewriter, Operation *function) {
  SmallVector<tensor::ExpandShapeOp> expands;
  function->walk(
      [&](tensor::ExpandShapeOp expand) { expands.push_back(expand); });
  bool changed = false;
  for (tensor::ExpandShapeOp expand : expands) {
    Chain chain(expand);
    if (!chain.collect())
      continue;
    chain.rebuild(rewriter);
    changed = true;
  }
  return changed;
}
