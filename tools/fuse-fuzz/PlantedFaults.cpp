//===- PlantedFaults.cpp - Wrong rewrites that checks must find -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlantedFaults.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace fuse;

namespace {

struct ReciprocalPass : PassWrapper<ReciprocalPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReciprocalPass)

  StringRef getArgument() const final { return kReciprocalPass; }
  StringRef getDescription() const final {
    return "Multiply by reciprocals, which is wrong in the last bit";
  }

  void runOnOperation() override {
    getOperation().walk([](arith::DivFOp op) {
      auto tensor = dyn_cast<RankedTensorType>(op.getType());
      if (tensor && !tensor.hasStaticShape())
        return;
      OpBuilder builder(op);
      TypedAttr number =
          builder.getFloatAttr(getElementTypeOrSelf(op.getType()), 1.0);
      if (tensor)
        number = DenseElementsAttr::get(tensor, Attribute(number));
      Value one = arith::ConstantOp::create(builder, op.getLoc(), number);
      Value reciprocal =
          arith::DivFOp::create(builder, op.getLoc(), one, op.getRhs());
      Value product =
          arith::MulFOp::create(builder, op.getLoc(), op.getLhs(), reciprocal);
      op.replaceAllUsesWith(product);
      op.erase();
    });
  }
};

} // namespace

void fuse::registerPlantedFaults() { PassRegistration<ReciprocalPass>(); }

void fuse::plantGelu(ModuleOp module) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([](ActivationAttr attr) {
    Activation kind = attr.getValue();
    if (kind == Activation::GELU)
      kind = Activation::GELUTanh;
    else if (kind == Activation::GELUTanh)
      kind = Activation::GELU;
    return ActivationAttr::get(attr.getContext(), kind);
  });
  replacer.recursivelyReplaceElementsIn(module);
}
