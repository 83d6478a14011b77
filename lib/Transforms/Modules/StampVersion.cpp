//===- StampVersion.cpp - Add the version of the IR to a module -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseDialect.h"
#include "fuse/Support/IRVersion.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"

namespace fuse {
#define GEN_PASS_DEF_STAMPVERSIONPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

namespace {

struct StampVersionPass : fuse::impl::StampVersionPassBase<StampVersionPass> {
  using Base::Base;

  void runOnOperation() override {
    mlir::ModuleOp module = getOperation();
    mlir::Attribute version = module->getAttr(fuse::kVersionAttrName);
    if (bool(version) != remove)
      return;
    ++numChanged;
    if (remove)
      module->removeAttr(fuse::kVersionAttrName);
    else
      module->setAttr(fuse::kVersionAttrName,
                      fuse::getVersionAttr(&getContext()));
  }
};

} // namespace
