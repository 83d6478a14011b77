//===- FuseDialect.cpp - The fuse dialect ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseDialect.h"
#include "fuse/IR/FuseAttrs.h"
#include "fuse/IR/FuseModules.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/IR/FuseShapes.h"
#include "fuse/Support/IRVersion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace fuse;

#include "fuse/IR/FuseDialect.cpp.inc"

namespace {
/// Layer ops and fused ops mean the same in every function, so they can be
/// inlined. Ops that are not executed, such as models and slots, cannot. Calls
/// of modules and slots are not replaced by their callees: passes that select
/// modules and slots need them.
struct FuseInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *op, Region *dest, bool,
                       IRMapping &) const final {
    // An unbound call is selected by the name of its function.
    if (auto call = dyn_cast<CallSlotOp>(op)) {
      SymbolTableCollection tables;
      auto lookup = [&](Operation *user) {
        return lookupSlot(tables, user, call.getCallee());
      };
      return call.getBoundAttr() && lookup(call) == lookup(dest->getParentOp());
    }
    // The name of a parameter is relative to the module.
    if (isa<GetParameterOp>(op))
      return getEnclosingModule(op) == getEnclosingModule(dest->getParentOp());
    return isMemoryEffectFree(op);
  }
};
} // namespace

void FuseDialect::getCanonicalizationPatterns(
    RewritePatternSet &patterns) const {
  populateShapePatterns(patterns);
}

void FuseDialect::initialize() {
  registerAttributes();
  addInterfaces<FuseInliner>();
  addVersionInterface(this);
  addOperations<
#define GET_OP_LIST
#include "fuse/IR/FuseOps.cpp.inc"
      >();
}
