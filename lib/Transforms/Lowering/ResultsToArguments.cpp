//===- ResultsToArguments.cpp - Write results into arguments --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host allocates results, so that a launch allocates nothing. The pass runs
// on tensors, so that bufferization writes each result directly into its
// argument. After bufferization, each result would have a separate buffer and
// need a copy.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_RESULTSTOARGUMENTSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-results-to-arguments"

namespace {

class ResultsToArgumentsPass
    : public fuse::impl::ResultsToArgumentsPassBase<ResultsToArgumentsPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    // The host would need the sizes of a call's results before they are
    // computed.
    WalkResult result = module.walk([](func::CallOp call) {
      call.emitOpError("of '")
          << call.getCallee() << "' cannot be launched, expected functions "
          << "without calls; inline the callee";
      return WalkResult::interrupt();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && failed(rewrite(function)))
        return signalPassFailure();
  }

private:
  LogicalResult rewrite(func::FuncOp function);
};

} // namespace

LogicalResult ResultsToArgumentsPass::rewrite(func::FuncOp function) {
  auto returnOp = function.getBody().hasOneBlock()
                      ? dyn_cast<func::ReturnOp>(function.front().back())
                      : func::ReturnOp();
  if (!returnOp)
    return function.emitOpError("expected one block that ends in a return in "
                                "a function that launches kernels");
  for (Type type : function.getResultTypes())
    if (!isa<RankedTensorType>(type))
      return function.emitOpError("expected ranked tensors as results of a "
                                  "function that launches kernels, but got ")
             << type;

  auto readOnly = StringAttr::get(
      &getContext(), bufferization::BufferizationDialect::kWritableAttrName);
  auto no = BoolAttr::get(&getContext(), false);
  for (BlockArgument argument : function.getArguments())
    if (isa<TensorType>(argument.getType()))
      function.setArgAttr(argument.getArgNumber(), readOnly, no);

  // Results follow the arguments of the source, whatever was added to these.
  unsigned numAdded =
      llvm::count_if(function.getArguments(), [&](BlockArgument argument) {
        return function.getArgAttr(argument.getArgNumber(), kScalarAttrName);
      });
  OpBuilder builder(returnOp);
  for (Value value : returnOp.getOperands()) {
    auto type = cast<RankedTensorType>(value.getType());
    auto bufferType = MemRefType::get(type.getShape(), type.getElementType());
    unsigned index = function.getNumArguments() - numAdded;
    auto attrs = DictionaryAttr::get(
        &getContext(),
        builder.getNamedAttr(kResultAttrName, builder.getUnitAttr()));
    if (failed(function.insertArgument(index, bufferType, attrs,
                                       function.getLoc())))
      return failure();
    // Write the result in the shape in which it was computed. This saves the
    // copy that a reshape would need.
    Value destination = function.getArgument(index);
    while (auto expand = value.getDefiningOp<tensor::ExpandShapeOp>()) {
      auto collapse = memref::CollapseShapeOp::create(
          builder, returnOp.getLoc(), destination,
          expand.getReassociationIndices());
      if (collapse.getResultType().getShape() !=
          expand.getSrcType().getShape()) {
        collapse.erase();
        break;
      }
      destination = collapse;
      value = expand.getSrc();
    }
    ++numResults;
    // A kernel from a file writes into a separate buffer, which the argument
    // can replace.
    if (auto read = value.getDefiningOp<bufferization::ToTensorOp>())
      if (auto alloc = read.getBuffer().getDefiningOp<memref::AllocOp>();
          alloc && alloc.getType() == destination.getType() &&
          isa<BlockArgument>(destination)) {
        alloc.replaceAllUsesWith(destination);
        alloc.erase();
        continue;
      }
    auto write = bufferization::MaterializeInDestinationOp::create(
        builder, returnOp.getLoc(), /*result=*/Type(), value, destination);
    write.setRestrict(true);
    write.setWritable(true);
  }
  returnOp.getOperandsMutable().clear();
  function.setType(
      FunctionType::get(&getContext(), function.getArgumentTypes(), {}));
  function.removeResAttrsAttr();
  return success();
}
