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
// layers distinguish them from other arithmetic. Both repeat until nothing
// changes, so that raising twice equals raising once.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "fuse/IR/FuseVerify.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

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
  // A vector of unknown size may hold the value for another dimension.
  auto accepts = [&](Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).hasStaticShape() &&
           isLayerFloat(getElementTypeOrSelf(tensor)) && root.sees(tensor);
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
                         op->getLoc(), std::move(detail), root.op(), key}});
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

static void emitRefusal(const LayerRefusal &refusal) {
  const RefusalText &text = getText(refusal.kind);
  auto inFlight = remark::missed(refusal.loc, getRemarkOpts(refusal.layer));
  inFlight << remark::reason("{0} {1}: {2}", text.id.str(), text.name.str(),
                             text.reason.str());
  if (!refusal.detail.empty())
    inFlight << remark::metric("Detail", refusal.detail);
  inFlight << remark::metric("At", refusal.at)
           << remark::suggest("{0}", text.suggestion.str());
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

/// Refusals of all rounds. A refusal is dropped when its formula is erased,
/// because a larger layer then covers it.
class RefusalList : public RewriterBase::Listener {
public:
  void add(LayerRefusal refusal);
  /// Keeps the refusals of `root` when a smaller layer replaces it.
  void move(Operation *root, Operation *layer);
  void notifyOperationErased(Operation *op) override;

  /// Emits a remark for every refusal, in program order. Returns their number.
  unsigned emit(Operation *function);

private:
  /// By root.
  llvm::DenseMap<Operation *, SmallVector<LayerRefusal, 1>> refusals;
  /// The roots of refusals that are also dropped when this anchor is erased.
  llvm::DenseMap<Operation *, SmallVector<Operation *, 1>> rootsOf;
};

/// Raises the layers of one block.
class BlockRaiser {
public:
  BlockRaiser(RewriterBase &rewriter, Block &block, ArrayRef<Matcher> matchers,
              RefusalList &refusals)
      : rewriter(rewriter), block(block), matchers(matchers),
        refusals(refusals) {}

  /// Returns the number of raised layers.
  unsigned run();

private:
  std::optional<LayerRoot> getRoot(TensorExprs &exprs, OpResult value);

  RewriterBase &rewriter;
  Block &block;
  ArrayRef<Matcher> matchers;
  RefusalList &refusals;
};

struct RaiseLayers : fuse::impl::RaiseLayersPassBase<RaiseLayers> {
  using Base::Base;

  void runOnOperation() override;

private:
  unsigned raise(RewriterBase &rewriter, ArrayRef<Matcher> matchers,
                 RefusalList &refusals);
  bool runRound(RewriterBase &rewriter, RefusalList &refusals);
};

} // namespace

void RefusalList::add(LayerRefusal refusal) {
  SmallVector<LayerRefusal, 1> &known = refusals[refusal.root];
  // Later rounds refuse the same formula again.
  if (llvm::any_of(known, [&](const LayerRefusal &other) {
        return other.kind == refusal.kind && other.layer == refusal.layer;
      }))
    return;
  if (yieldsToSmaller(refusal.kind))
    rootsOf[refusal.anchor].push_back(refusal.root);
  known.push_back(std::move(refusal));
}

void RefusalList::move(Operation *root, Operation *layer) {
  auto known = refusals.find(root);
  if (known == refusals.end())
    return;
  SmallVector<LayerRefusal, 1> moved = std::move(known->second);
  refusals.erase(known);
  for (LayerRefusal &refusal : moved) {
    refusal.root = layer;
    add(std::move(refusal));
  }
}

void RefusalList::notifyOperationErased(Operation *op) {
  refusals.erase(op);
  auto anchored = rootsOf.find(op);
  if (anchored == rootsOf.end())
    return;
  for (Operation *root : anchored->second)
    if (auto known = refusals.find(root); known != refusals.end())
      llvm::erase_if(known->second, [&](const LayerRefusal &refusal) {
        return refusal.anchor == op && yieldsToSmaller(refusal.kind);
      });
  rootsOf.erase(anchored);
}

unsigned RefusalList::emit(Operation *function) {
  unsigned count = 0;
  function->walk<WalkOrder::PreOrder>([&](Operation *op) {
    auto known = refusals.find(op);
    if (known == refusals.end())
      return;
    for (const LayerRefusal &refusal : known->second)
      emitRefusal(refusal);
    count += known->second.size();
  });
  return count;
}

/// Applies `matchers` to all blocks. Returns the number of raised layers.
unsigned RaiseLayers::raise(RewriterBase &rewriter, ArrayRef<Matcher> matchers,
                            RefusalList &refusals) {
  unsigned raised = 0;
  for (Block *block : getBlocks(getOperation()))
    raised += BlockRaiser(rewriter, *block, matchers, refusals).run();
  numRaised += raised;
  return raised;
}

/// Returns whether anything changed.
bool RaiseLayers::runRound(RewriterBase &rewriter, RefusalList &refusals) {
  static const Matcher layers[] = {raiseNorm, raiseActivation, raiseLinear,
                                   raiseQuantize, raiseDequantize};
  static const Matcher neighbors[] = {raiseRounding, raiseBinary};
  bool changed = raise(rewriter, layers, refusals) != 0;
  for (Block *block : getBlocks(getOperation()))
    changed |= transposeStoredValues(rewriter, *block);
  changed |= sinkReshapes(rewriter, getOperation());
  // A raised layer may turn adjacent arithmetic into layers.
  for (unsigned i = 0; i < maxRounds; ++i) {
    if (raise(rewriter, neighbors, refusals) == 0)
      break;
    changed = true;
  }
  for (Block *block : getBlocks(getOperation()))
    changed |= absorbWideningCasts(rewriter, *block);
  if (splitMerged)
    for (Block *block : getBlocks(getOperation())) {
      unsigned split = splitMergedLinears(rewriter, *block);
      numRaised += split;
      changed |= split != 0;
    }
  changed |= sinkReshapes(rewriter, getOperation());
  return changed;
}

void RaiseLayers::runOnOperation() {
  Operation *function = getOperation();
  RefusalList refusals;
  IRRewriter rewriter(&getContext(), &refusals);
  // A raised layer is opaque, so that the next round views its users as
  // formulas over its result. Each round but the last replaces an op.
  unsigned round = 0;
  while (round < maxRounds && runRound(rewriter, refusals))
    ++round;
  numRounds += round;
  if (round == maxRounds)
    refusals.add({"layer", RefusalKind::RaiseRounds,
                  function->getName().getStringRef(), function->getLoc(),
                  llvm::formatv("{0} rounds", round), function, function});
  numRefused += refusals.emit(function);
}

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
  LayerRaiser raiser(exprs, rewriter);
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
           llvm::all_of(op->getUsers(), [&](Operation *user) {
             // Constants are used inside of other ops too.
             return dead.contains(block.findAncestorOpInBlock(*user));
           });
  };
  for (Operation *op : llvm::reverse(ops)) {
    bool wasDead = isDead(op);
    while (!roots.empty() && roots.back().op() == op) {
      LayerRoot root = roots.pop_back_val();
      if (wasDead)
        continue;
      rewriter.setInsertionPoint(op);
      for (Matcher matcher : matchers) {
        // Only a quantize has a result of a stored type.
        if (isQuantized(root.element()) != (matcher == raiseQuantize))
          continue;
        Value replacement = matcher(raiser, root);
        if (!replacement)
          continue;
        ++numRaised;
        StringRef layer = replacement.getDefiningOp()->getName().stripDialect();
        remark::passed(root.loc(), getRemarkOpts(layer))
            << remark::metric("From", op->getName().getStringRef());
        root.value.replaceAllUsesWith(replacement);
        // Sums and products of two tensors are only a part of other formulas.
        if (isa<ResidualAddOp, GatedMulOp>(replacement.getDefiningOp()))
          refusals.move(op, replacement.getDefiningOp());
        unused.erase(op);
        break;
      }
    }
    if (isDead(op))
      dead.insert(op);
  }

  for (auto &[anchor, refusal] : raiser.refusals)
    if (!dead.contains(refusal.root))
      refusals.add(std::move(refusal));
  for (Operation *op : llvm::reverse(raiser.collapsed))
    if (op->use_empty())
      rewriter.eraseOp(op);
  for (Operation *op : llvm::reverse(ops))
    if (dead.contains(op))
      rewriter.eraseOp(op);
  return numRaised;
}
