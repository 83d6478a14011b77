//===- UnbindSlots.cpp - Undo the binding of slots ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/Passes.h"
#include "fuse/Slots/SlotBinding.h"

namespace fuse {
#define GEN_PASS_DEF_UNBINDSLOTSPASS
#include "fuse/Slots/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {

struct UnbindSlots : fuse::impl::UnbindSlotsPassBase<UnbindSlots> {
  using Base::Base;

  void runOnOperation() override {
    std::vector<std::string> names(only.begin(), only.end());
    if (failed(unbindSlots(getOperation(), names)))
      signalPassFailure();
  }
};

} // namespace
