//===- PrepareEntryPoints.cpp - Fix how functions can be called -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace fuse {
#define GEN_PASS_DEF_PREPAREENTRYPOINTSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-prepare-entry-points"

using namespace mlir;
using namespace fuse;

namespace {

struct PrepareEntryPointsPass
    : fuse::impl::PrepareEntryPointsPassBase<PrepareEntryPointsPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.isPublic() || function.isExternal())
      return;
    Builder builder(&getContext());
    function->setAttr(LLVM::LLVMDialect::getEmitCWrapperAttrName(),
                      builder.getUnitAttr());
    for (BlockArgument argument : function.getArguments())
      if (isa<RankedTensorType>(argument.getType()))
        function.setArgAttr(
            argument.getArgNumber(),
            bufferization::BufferizationDialect::kWritableAttrName,
            builder.getBoolAttr(false));
  }
};

} // namespace
