//===- ObserveActivations.cpp - Return the inputs of linears --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Observed values are results, not arguments of runtime calls: every caller can
// read them, and the compiled function has no side effects.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/LinearNames.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"

namespace fuse {
#define GEN_PASS_DEF_OBSERVEACTIVATIONSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-observe-activations"

using namespace mlir;
using namespace fuse;

namespace {

struct ObserveActivations
    : fuse::impl::ObserveActivationsPassBase<ObserveActivations> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    auto returns = function.getOps<func::ReturnOp>();
    if (!function.getBody().hasOneBlock() || returns.empty()) {
      function.emitError() << "'" << function.getName()
                           << "' has several blocks, so that observed values "
                              "may not dominate its return";
      return signalPassFailure();
    }
    // Linears that read the same value share one result.
    llvm::MapVector<Value, SmallVector<Attribute>> readers;
    Builder builder(&getContext());
    for (auto &[op, name] : nameLinears(function)) {
      auto linear = cast<LinearOp>(op);
      bool isFloat =
          !isa<IntegerType>(linear.getX().getType().getElementType()) &&
          linear.getX().getType().getElementTypeBitWidth() > 8;
      if (isFloat && op->getBlock() == &function.getBody().front()) {
        readers[linear.getX()].push_back(builder.getStringAttr(name));
        continue;
      }
      remark::missed(op->getLoc(), remark::RemarkOpts::name(
                                       builder.getStringAttr(name).getValue())
                                       .category("quant")
                                       .subCategory(DEBUG_TYPE))
          << remark::reason("{0}", isFloat ? "the linear is in a nested region"
                                           : "the linear is already quantized");
    }
    func::ReturnOp terminator = *returns.begin();
    // Values that an earlier run observes are not added again.
    for (auto [index, value] : llvm::enumerate(terminator.getOperands()))
      if (function.getResultAttr(index, kObservedAttrName))
        readers.erase(value);
    for (auto &[value, names] : readers) {
      terminator.getOperandsMutable().append(value);
      NamedAttribute observed =
          builder.getNamedAttr(kObservedAttrName, builder.getArrayAttr(names));
      if (failed(function.insertResult(function.getNumResults(),
                                       value.getType(),
                                       builder.getDictionaryAttr(observed))))
        return signalPassFailure();
    }
    numObserved += readers.size();
  }
};

} // namespace
