//===- Reducer.cpp - Reduce failing modules -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Greedy reduction: tries each kind of change at each place of a copy, and
// keeps the copy if it is still interesting, until nothing changes. Upstream's
// reduction tree crashes because it erases ops that have uses.
//
//===----------------------------------------------------------------------===//

#include "Reducer.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Iterators.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

#include <chrono>

using namespace mlir;
using namespace fuse;

namespace {

class Reducer {
public:
  Reducer(ModuleOp module, function_ref<bool(ModuleOp)> isInteresting,
          Reduction &reduction)
      : best(module.clone()), isInteresting(isInteresting),
        reduction(reduction) {}

  OwningOpRef<ModuleOp> run();

private:
  /// Changes a copy of the best module at place `index`. Returns false if there
  /// is no such place.
  using Change = function_ref<bool(ModuleOp, unsigned)>;

  bool isDone() const;
  /// Whether every change also removes unused ops.
  bool cleansUp = false;
  bool attempt(function_ref<bool(ModuleOp)> change);
  bool everywhere(Change change);

  OwningOpRef<ModuleOp> best;
  function_ref<bool(ModuleOp)> isInteresting;
  Reduction &reduction;
  std::chrono::steady_clock::time_point start =
      std::chrono::steady_clock::now();
};

} // namespace

/// Removes unused arguments.
static bool eraseArguments(ModuleOp module) {
  bool changed = false;
  module.walk([&](func::FuncOp function) {
    if (function.isExternal())
      return;
    for (unsigned i = function.getNumArguments(); i-- > 0;)
      if (function.getArgument(i).use_empty())
        changed |= succeeded(function.eraseArgument(i));
  });
  return changed;
}

/// Removes unused arguments and ops.
static bool cleanUp(ModuleOp module) {
  bool changed = false;
  module.walk<WalkOrder::PostOrder, ReverseIterator>([&](Operation *op) {
    if (isOpTriviallyDead(op)) {
      op->erase();
      changed = true;
    }
  });
  return eraseArguments(module) || changed;
}

bool Reducer::isDone() const {
  std::chrono::duration<double> elapsed =
      std::chrono::steady_clock::now() - start;
  return reduction.tries >= reduction.maxTries ||
         elapsed.count() >= reduction.maxSeconds;
}

bool Reducer::attempt(function_ref<bool(ModuleOp)> change) {
  if (isDone())
    return false;
  OwningOpRef<ModuleOp> copy = best->clone();
  {
    ScopedDiagnosticHandler quiet(copy->getContext(),
                                  [](Diagnostic &) { return success(); });
    if (!change(*copy))
      return false;
    if (cleansUp)
      cleanUp(*copy);
    if (failed(verify(*copy)))
      return false;
  }
  ++reduction.tries;
  if (!isInteresting(*copy))
    return false;
  ++reduction.steps;
  best = std::move(copy);
  return true;
}

/// Tries a change at every place, from last to first, because later ops use
/// earlier ones.
bool Reducer::everywhere(Change change) {
  unsigned count = 0;
  best->walk([&](Operation *) { ++count; });
  bool changed = false;
  for (unsigned index = count; index-- > 0 && !isDone();)
    changed |= attempt([&](ModuleOp module) { return change(module, index); });
  return changed;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

/// Op number `index` in textual order.
static Operation *getOp(ModuleOp module, unsigned index) {
  Operation *found = nullptr;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (index-- != 0)
      return WalkResult::advance();
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

static void updateType(func::FuncOp function) {
  if (function.isExternal())
    return;
  function.setType(FunctionType::get(
      function.getContext(), function.front().getArgumentTypes(),
      function.front().getTerminator()->getOperandTypes()));
}

static bool isPlain(Operation *op) {
  return op && op->getParentOp() && !op->hasTrait<OpTrait::IsTerminator>();
}

/// Erases an unused op.
static bool erase(ModuleOp module, unsigned index) {
  Operation *op = getOp(module, index);
  if (!isPlain(op) || !op->use_empty())
    return false;
  op->erase();
  return true;
}

/// Keeps only one result of a function. There are as many places as ops.
static bool keepResult(ModuleOp module, unsigned index) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    Operation *terminator = function.front().getTerminator();
    if (index >= terminator->getNumOperands()) {
      index -= terminator->getNumOperands();
      continue;
    }
    if (terminator->getNumOperands() < 2)
      return false;
    terminator->setOperands(terminator->getOperand(index));
    updateType(function);
    return true;
  }
  return false;
}

/// Removes a result of a function.
static bool eraseResult(ModuleOp module, unsigned index) {
  auto terminator = dyn_cast_or_null<func::ReturnOp>(getOp(module, index));
  if (!terminator || terminator->getNumOperands() < 2)
    return false;
  terminator->eraseOperand(terminator->getNumOperands() - 1);
  updateType(terminator->getParentOfType<func::FuncOp>());
  return true;
}

/// Replaces the results of an op by arguments.
static bool makeArguments(ModuleOp module, unsigned index) {
  Operation *op = getOp(module, index);
  auto function =
      op ? dyn_cast_or_null<func::FuncOp>(op->getParentOp()) : func::FuncOp();
  if (!isPlain(op) || !function || op->getNumResults() == 0)
    return false;
  // Only used results need an argument. Erase the op, so that it is not
  // replaced again.
  for (Value result : op->getResults())
    if (!result.use_empty())
      result.replaceAllUsesWith(
          function.front().addArgument(result.getType(), result.getLoc()));
  op->erase();
  updateType(function);
  return true;
}

/// Replaces an op by an operand of the same type.
static bool passOver(ModuleOp module, unsigned index) {
  Operation *op = getOp(module, index);
  if (!isPlain(op) || op->getNumResults() != 1)
    return false;
  for (Value operand : op->getOperands())
    if (operand.getType() == op->getResult(0).getType() &&
        operand.getDefiningOp() != op) {
      op->getResult(0).replaceAllUsesWith(operand);
      op->erase();
      return true;
    }
  return false;
}

/// Replaces an op by the contents of its region.
static bool openRegion(ModuleOp module, unsigned index) {
  Operation *op = getOp(module, index);
  if (!isPlain(op) || op->getNumRegions() != 1 || op->getNumResults() != 0 ||
      !op->getRegion(0).hasOneBlock() ||
      op->getRegion(0).getNumArguments() != 0 ||
      op->hasTrait<OpTrait::IsIsolatedFromAbove>())
    return false;
  Block &body = op->getRegion(0).front();
  if (!body.empty() && body.back().hasTrait<OpTrait::IsTerminator>())
    body.back().erase();
  op->getBlock()->getOperations().splice(op->getIterator(),
                                         body.getOperations());
  op->erase();
  return true;
}

/// Removes an optional operand.
static bool dropOperand(ModuleOp module, unsigned index) {
  Operation *op = getOp(module, index);
  if (!isPlain(op) || op->getNumOperands() < 2)
    return false;
  auto segments = op->getAttrOfType<DenseI32ArrayAttr>("operandSegmentSizes");
  if (!segments)
    return false;
  // Remove from the last nonempty group. The verifier checks whether it is
  // optional.
  SmallVector<int32_t> sizes(segments.asArrayRef());
  for (unsigned group = sizes.size(), end = op->getNumOperands(); group-- > 0;)
    if (sizes[group] > 0) {
      op->eraseOperand(end - 1);
      --sizes[group];
      break;
    }
  op->setAttr("operandSegmentSizes",
              DenseI32ArrayAttr::get(op->getContext(), sizes));
  return true;
}

/// Removes discardable attributes.
static bool forgetAttributes(ModuleOp module, unsigned index) {
  Operation *op = getOp(module, index);
  if (!op || op->getDiscardableAttrDictionary().empty())
    return false;
  op->setDiscardableAttrs(ArrayRef<NamedAttribute>());
  return true;
}

static bool forgetLocations(ModuleOp module) {
  auto unknown = UnknownLoc::get(module.getContext());
  bool changed = false;
  auto forget = [&](auto &&place) {
    changed |= place.getLoc() != unknown;
    place.setLoc(unknown);
  };
  module.walk([&](Operation *op) {
    forget(*op);
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        forget(argument);
  });
  return changed;
}

/// Replaces all occurrences of a size.
static bool replaceSize(ModuleOp module, int64_t from, int64_t to) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](RankedTensorType type) -> Type {
    SmallVector<int64_t> shape(type.getShape());
    llvm::replace(shape, from, to);
    return RankedTensorType::get(shape, type.getElementType(),
                                 type.getEncoding());
  });
  replacer.recursivelyReplaceElementsIn(module, /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  return true;
}

static llvm::SetVector<int64_t> getSizes(ModuleOp module) {
  llvm::SetVector<int64_t> sizes;
  auto add = [&](Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      for (int64_t size : tensor.getShape())
        if (size > 1)
          sizes.insert(size);
  };
  module.walk([&](Operation *op) {
    for (Type type : op->getOperandTypes())
      add(type);
    for (Type type : op->getResultTypes())
      add(type);
  });
  return sizes;
}

OwningOpRef<ModuleOp> Reducer::run() {
  bool changed = true;
  while (changed && !isDone()) {
    changed = false;
    // The failing op may be unused itself; then do not remove unused ops.
    OwningOpRef<ModuleOp> copy = best->clone();
    cleansUp = !cleanUp(*copy) || isInteresting(*copy);
    changed |= attempt(forgetLocations);
    // Try changes that remove most first.
    for (Change change : std::initializer_list<Change>{
             erase, keepResult, eraseResult, makeArguments, passOver,
             openRegion, dropOperand, forgetAttributes})
      changed |= everywhere(change);
    for (int64_t size : getSizes(*best))
      for (int64_t smaller : {int64_t(1), int64_t(2), size / 2})
        if (smaller < size && attempt([&](ModuleOp module) {
              return replaceSize(module, size, smaller);
            })) {
          changed = true;
          break;
        }
  }
  return std::move(best);
}

OwningOpRef<ModuleOp>
fuse::reduceModule(ModuleOp module, function_ref<bool(ModuleOp)> isInteresting,
                   Reduction &reduction) {
  return Reducer(module, isInteresting, reduction).run();
}
