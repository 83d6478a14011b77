//===- UnbindSlots.cpp - Undo the binding of slots ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/Passes.h"
#include "fuse/Slots/SlotBinding.h"
#include "nn/IR/NNModules.h"
#include "llvm/ADT/StringExtras.h"

namespace fuse {
#define GEN_PASS_DEF_UNBINDSLOTSPASS
#include "fuse/Slots/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

LogicalResult fuse::unbindSlots(ModuleOp module, ArrayRef<std::string> only) {
  SmallVector<StringRef> names;
  for (auto model : module.getOps<ModelOp>())
    names.push_back(model.getSymName());
  for (const std::string &name : only)
    if (!llvm::is_contained(names, name))
      return module.emitError()
             << "no model '" << name << "'; "
             << (names.empty() ? "there are none" : "there are ")
             << llvm::join(names, ", ");
  auto isMeant = [&](SlotOp slot) {
    auto model = dyn_cast<ModelOp>(slot->getParentOp());
    return only.empty() ||
           (model && llvm::is_contained(only, model.getSymName()));
  };
  SymbolTableCollection tables;
  module.walk([&](CallSlotOp call) {
    SlotOp slot = lookupSlot(tables, call, call.getCallee());
    if (slot && isMeant(slot))
      call.removeBoundAttr();
  });
  module.walk([&](SlotOp slot) {
    if (!isMeant(slot))
      return;
    for (auto kernel :
         llvm::make_early_inc_range(slot.getBody().getOps<BoundKernelOp>()))
      kernel->erase();
  });
  return success();
}

namespace {

struct UnbindSlots : fuse::impl::UnbindSlotsPassBase<UnbindSlots> {
  using Base::Base;

  void runOnOperation() override {
    std::vector<std::string> names(only.begin(), only.end());
    int64_t before = countBound();
    if (failed(unbindSlots(getOperation(), names)))
      return signalPassFailure();
    numRemoved += before - countBound();
  }

  int64_t countBound() {
    int64_t count = 0;
    getOperation().walk([&](BoundKernelOp) { ++count; });
    return count;
  }
};

} // namespace
