//===- RaiseLayers.cpp - Replace written-out layers by layer ops ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensors are visited from the last to the first, each viewed as a scalar
// expression. The largest formula therefore matches first, and the ops inside
// of it are dead when they are visited. Layers with a distinctive formula are
// raised first. Sums and products of two tensors follow, because only adjacent
// layers distinguish them from other arithmetic.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "fuse/IR/FuseVerify.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"

#include <charconv>

#define DEBUG_TYPE "fuse-raise-layers"

namespace fuse {
#define GEN_PASS_DEF_RAISELAYERSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// LayerRaiser
//===----------------------------------------------------------------------===//

static bool isLayerFloat(Type type) {
  return type.isF32() || type.isF16() || type.isBF16();
}

bool LayerRoot::sees(Value tensor) const {
  Operation *producer = tensor.getDefiningOp();
  return !producer || producer->getBlock() != op()->getBlock() ||
         producer->isBeforeInBlock(op());
}

double fuse::getShortest(double value) {
  float number = static_cast<float>(value);
  char text[32];
  auto end = std::to_chars(text, text + sizeof(text), number);
  double shortest = 0.0;
  if (end.ec != std::errc() ||
      StringRef(text, end.ptr - text).getAsDouble(shortest))
    return number;
  return shortest;
}

Value LayerRaiser::getTensor(const LayerRoot &root, const Expr *expr) const {
  return TensorExprs::findTensor(
      expr, root.index, root.type.getShape(), [&](Value tensor) {
        return isLayerFloat(getElementTypeOrSelf(tensor)) && root.sees(tensor);
      });
}

Value LayerRaiser::getVector(const LayerRoot &root, const Expr *expr, int dim,
                             int64_t size) {
  if (ShapedType::isDynamic(size))
    return {};
  auto accepts = [&](Value tensor) {
    return isLayerFloat(getElementTypeOrSelf(tensor)) && root.sees(tensor);
  };
  if (Value vector = TensorExprs::findTensor(expr, dim, size, accepts))
    return vector;
  // A vector with unit dimensions around it.
  for (const auto &[tensor, at] : expr->origins) {
    auto type = cast<RankedTensorType>(tensor.getType());
    if (!type.hasStaticShape() || type.getNumElements() != size ||
        llvm::count(at, dim) != 1 || size == 1 || !accepts(tensor))
      continue;
    ReassociationIndices all =
        llvm::to_vector<2>(llvm::seq<int64_t>(0, type.getRank()));
    Value vector =
        tensor::CollapseShapeOp::create(builder, root.loc(), tensor, all);
    collapsed.push_back(vector.getDefiningOp());
    return vector;
  }
  return {};
}

Value LayerRaiser::refuse(const LayerRoot &root, const Expr *anchor,
                          StringRef layer, RefusalKind kind, const Expr *at,
                          std::string detail) {
  Operation *op = at->owner ? at->owner : root.op();
  Operation *key = anchor->owner ? anchor->owner : root.op();
  refusals.insert(
      {key, LayerRefusal{layer, kind, op->getName().getStringRef(),
                         op->getLoc(), std::move(detail), root.op()}});
  return {};
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

/// Whether a refusal is dropped if a smaller formula around the same op is
/// raised. The rest of the formula is then a separate op.
static bool yieldsToSmaller(RefusalKind kind) {
  return kind == RefusalKind::RaiseWeightShape;
}

static remark::RemarkOpts getRemarkOpts(StringRef layer) {
  return remark::RemarkOpts::name(layer).category("raise").subCategory(
      DEBUG_TYPE);
}

/// The blocks of a function, nested ones first, because raising may erase ops
/// with the blocks inside of them.
static SmallVector<Block *> getBlocks(Operation *function) {
  SmallVector<Block *> blocks;
  function->walk([&](Block *block) {
    if (!isa<linalg::LinalgOp, GroupOp>(block->getParentOp()))
      blocks.push_back(block);
  });
  return blocks;
}

namespace {

using Matcher = Value (*)(LayerRaiser &, const LayerRoot &);

/// Raises the layers of one block.
class BlockRaiser {
public:
  BlockRaiser(Block &block, ArrayRef<Matcher> matchers)
      : block(block), matchers(matchers) {}

  /// Returns the number of raised layers.
  unsigned run();

  /// Emits a remark for every refusal, in program order. Returns their number.
  unsigned emitRefusals();

private:
  std::optional<LayerRoot> getRoot(TensorExprs &exprs, OpResult value);

  Block &block;
  ArrayRef<Matcher> matchers;
  SmallVector<LayerRefusal> refusals;
};

struct RaiseLayers : fuse::impl::RaiseLayersPassBase<RaiseLayers> {
  using Base::Base;

  void runOnOperation() override {
    unsigned raised = 0;
    for (Block *block : getBlocks(getOperation())) {
      static const Matcher matchers[] = {raiseNorm, raiseActivation,
                                         raiseLinear, raiseQuantize,
                                         raiseDequantize};
      BlockRaiser raiser(*block, matchers);
      raised += raiser.run();
      numRefused += raiser.emitRefusals();
      transposeStoredValues(*block);
    }
    sinkReshapes(getOperation());
    for (Block *block : getBlocks(getOperation())) {
      // A raised layer may turn adjacent arithmetic into layers.
      constexpr unsigned maxRounds = 16;
      for (unsigned round = 1;; ++round) {
        static const Matcher matchers[] = {raiseRounding, raiseBinary};
        BlockRaiser raiser(*block, matchers);
        unsigned found = raiser.run();
        raised += found;
        if (found != 0 && round < maxRounds)
          continue;
        numRefused += raiser.emitRefusals();
        break;
      }
    }
    for (Block *block : getBlocks(getOperation()))
      absorbWideningCasts(*block);
    if (splitMerged)
      for (Block *block : getBlocks(getOperation()))
        raised += splitMergedLinears(*block);
    sinkReshapes(getOperation());
    numRaised += raised;
  }
};

} // namespace

std::optional<LayerRoot> BlockRaiser::getRoot(TensorExprs &exprs,
                                              OpResult value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() == 0 || type.getShape().back() == 0 ||
      !isAddressable(type) || isLayerOp(value.getOwner()))
    return std::nullopt;
  Type element = type.getElementType();
  if (!isLayerFloat(element) && !isQuantized(element))
    return std::nullopt;
  LayerRoot root{value, type, TensorExprs::getIdentity(type), exprs.get(value),
                 nullptr};
  if (!root.expr || root.expr->kind == ExprKind::Leaf)
    return std::nullopt;
  bool rounds = (root.expr->kind == ExprKind::Round ||
                 root.expr->kind == ExprKind::ToInt) &&
                root.expr->type == element;
  root.body = rounds ? root.expr->operand(0) : root.expr;
  return root;
}

unsigned BlockRaiser::run() {
  TensorExprs exprs;
  OpBuilder builder(block.getParentOp()->getContext());
  LayerRaiser raiser(exprs, builder);
  SmallVector<Operation *> ops;
  llvm::SmallPtrSet<Operation *, 32> unused, dead;
  SmallVector<LayerRoot> roots;
  for (Operation &op : block) {
    ops.push_back(&op);
    if (op.use_empty())
      unused.insert(&op);
    // In program order, so that the first tensor of an expression dominates all
    // others.
    for (OpResult result : op.getResults())
      if (std::optional<LayerRoot> root = getRoot(exprs, result))
        roots.push_back(*root);
  }

  unsigned numRaised = 0;
  auto isDead = [&](Operation *op) {
    return isMemoryEffectFree(op) && !op->hasTrait<OpTrait::IsTerminator>() &&
           !unused.contains(op) &&
           llvm::all_of(op->getUsers(),
                        [&](Operation *user) { return dead.contains(user); });
  };
  for (Operation *op : llvm::reverse(ops)) {
    bool wasDead = isDead(op);
    while (!roots.empty() && roots.back().op() == op) {
      LayerRoot root = roots.pop_back_val();
      if (wasDead)
        continue;
      builder.setInsertionPoint(op);
      for (Matcher matcher : matchers) {
        Value replacement = matcher(raiser, root);
        if (!replacement)
          continue;
        ++numRaised;
        StringRef layer = replacement.getDefiningOp()->getName().stripDialect();
        remark::passed(root.loc(), getRemarkOpts(layer))
            << remark::metric("From", op->getName().getStringRef());
        root.value.replaceAllUsesWith(replacement);
        unused.erase(op);
        break;
      }
    }
    if (isDead(op))
      dead.insert(op);
  }

  for (auto &[anchor, refusal] : raiser.refusals) {
    bool isReplaced = yieldsToSmaller(refusal.kind) && dead.contains(anchor);
    if (!dead.contains(refusal.root) && !isReplaced)
      refusals.push_back(std::move(refusal));
  }
  for (Operation *op : llvm::reverse(raiser.collapsed))
    if (op->use_empty())
      op->erase();
  for (Operation *op : llvm::reverse(ops))
    if (dead.contains(op))
      op->erase();
  return numRaised;
}

unsigned BlockRaiser::emitRefusals() {
  // Roots were visited from the last to the first.
  for (const LayerRefusal &refusal : llvm::reverse(refusals)) {
    const RefusalText &text = getText(refusal.kind);
    auto inFlight = remark::missed(refusal.loc, getRemarkOpts(refusal.layer));
    inFlight << remark::reason("{0} {1}: {2}", text.id.str(), text.name.str(),
                               text.reason.str());
    if (!refusal.detail.empty())
      inFlight << remark::metric("Detail", refusal.detail);
    inFlight << remark::metric("At", refusal.at)
             << remark::suggest("{0}", text.suggestion.str());
  }
  return refusals.size();
}
