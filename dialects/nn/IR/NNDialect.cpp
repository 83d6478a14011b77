//===- NNDialect.cpp - The nn dialect -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "nn/IR/NNDialect.h"
#include "fuse/Support/IRVersion.h"
#include "mlir/Transforms/InliningUtils.h"
#include "nn/IR/NNAttrs.h"
#include "nn/IR/NNModules.h"

using namespace mlir;
using namespace fuse;

#include "nn/IR/NNDialect.cpp.inc"

namespace {
/// Models and slots are not executed. Calls of modules and slots are not
/// replaced by their callees: passes that select modules and slots need them.
struct NNInliner : DialectInlinerInterface {
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

void NNDialect::initialize() {
  registerAttributes();
  addInterfaces<NNInliner>();
  addVersionInterface(this);
  addOperations<
#define GET_OP_LIST
#include "nn/IR/NNOps.cpp.inc"
      >();
}
