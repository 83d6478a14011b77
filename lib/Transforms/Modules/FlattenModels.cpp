//===- FlattenModels.cpp - Turn models into functions ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only functions can run on the CPU or a GPU. The forward of a model becomes
// one function. Its parameters become arguments after those of the forward.
// With `sites`, only the functions of fused calls remain.
//
//===----------------------------------------------------------------------===//

#include "ModuleInliner.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/OwningOpRef.h"
#include "nn/IR/NNModules.h"
#include "llvm/ADT/SetVector.h"

namespace fuse {
#define GEN_PASS_DEF_FLATTENMODELSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

/// Builds a detached function with the whole forward of `model`, or returns
/// null.
static OwningOpRef<func::FuncOp> flatten(ModelOp model,
                                         SymbolTableCollection &tables) {
  FunctionOpInterface forward = getForward(tables, model);
  if (!forward) {
    model.emitError() << "model '" << model.getSymName()
                      << "' has no forward to make a function of; 'sites' "
                         "keeps the functions of its sites";
    return {};
  }
  // The function stays detached, because it has the name of the model.
  OwningOpRef<func::FuncOp> function = func::FuncOp::create(
      forward.getLoc(), model.getSymName(),
      FunctionType::get(model.getContext(), forward.getArgumentTypes(),
                        forward.getResultTypes()));
  function->addEntryBlock();
  ModuleInliner::Values args(function->getArguments());
  for (unsigned i = 0; i < args.size(); ++i) {
    if (!forward.isExternal())
      args[i].setLoc(forward.getArgument(i).getLoc());
    if (Attribute name = forward.getArgAttr(i, kNameAttrName))
      function->setArgAttr(i, kNameAttrName, name);
  }
  ModuleInliner inliner(tables, *function);
  FailureOr<ModuleInliner::Values> results = inliner.inlineForward(model, args);
  if (failed(results))
    return {};
  inliner.finish(*results);
  return function;
}

/// Names the parameters of `model` in the functions next to it as in
/// checkpoints, because the model will be erased.
static LogicalResult nameParameters(ModelOp model,
                                    SymbolTableCollection &tables) {
  Operation *home = model->getParentOp();
  if (!home)
    return success();
  for (auto function : home->getRegion(0).getOps<FunctionOpInterface>())
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
      auto symbol =
          function.getArgAttrOfType<SymbolRefAttr>(i, kParameterAttrName);
      if (!symbol || symbol.getRootReference() != model.getSymNameAttr())
        continue;
      ArrayRef<FlatSymbolRefAttr> names = symbol.getNestedReferences();
      ParameterOp parameter = lookupParameter(
          tables, model,
          SymbolRefAttr::get(names.front().getAttr(), names.drop_front()));
      if (!parameter)
        return function.emitError() << "argument " << i << " is " << symbol
                                    << ", which is not a parameter of model '"
                                    << model.getSymName() << "'";
      function.setArgAttr(
          i, kParameterAttrName,
          StringAttr::get(model.getContext(), getParameterName(parameter)));
    }
  return success();
}

namespace {

struct FlattenModels : fuse::impl::FlattenModelsPassBase<FlattenModels> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<ModelOp> models;
    getOperation()->walk<WalkOrder::PreOrder>([&](ModelOp model) {
      models.push_back(model);
      return WalkResult::skip();
    });
    for (ModelOp model : models)
      if (failed(replace(model)))
        return signalPassFailure();
    // A module that is called twice is inlined twice, with its kernels.
    makeSitesUnique(getOperation());
  }

private:
  LogicalResult replace(ModelOp model) {
    SymbolTableCollection tables;
    if (!sites) {
      OwningOpRef<func::FuncOp> function = flatten(model, tables);
      if (!function)
        return failure();
      ++numFlattened;
      // Two sites may share a function; a set erases it only once.
      llvm::SetVector<Operation *> bodies;
      Operation *home = model->getParentOp();
      model->walk([&](FusedCallOp call) {
        if (call.getBodyAttr() && home->hasTrait<OpTrait::SymbolTable>())
          if (Operation *body = tables.lookupSymbolIn(home, call.getBodyAttr()))
            if (isa<func::FuncOp>(body))
              bodies.insert(body);
      });
      for (Operation *body : bodies)
        body->erase();
      if (failed(checkSlots(model, *function)) ||
          failed(nameParameters(model, tables)))
        return failure();
      OpBuilder(model).insert(function.release());
    } else if (failed(checkSlots(model, getOperation())) ||
               failed(nameParameters(model, tables))) {
      return failure();
    }
    model->erase();
    return success();
  }

  /// Checks that the remaining code calls no slot of the erased model. Outside
  /// of the model, a slot's name starts with the model's name.
  static LogicalResult checkSlots(ModelOp model, Operation *root) {
    WalkResult walk = root->walk([&](CallSlotOp call) {
      SymbolRefAttr name = call.getCallee();
      if (name.getRootReference() != model.getSymNameAttr() ||
          name.getNestedReferences().size() != 1)
        return WalkResult::advance();
      auto slot = model.lookupSymbol<SlotOp>(name.getLeafReference());
      if (!slot)
        return WalkResult::advance();
      call.emitError() << slot.toText() << " is in model '"
                       << model.getSymName() << "', which is made a function; "
                       << "expected fuse-lower-slots before";
      return WalkResult::interrupt();
    });
    return failure(walk.wasInterrupted());
  }
};

} // namespace
