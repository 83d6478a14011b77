//===- PrepareEntryPoints.cpp - Prepare functions for calls from outside --===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseAttrNames.h"
#include "fuse/IR/FuseDialect.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"

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
    removeAttributes(function);
    if (!function.isPublic() || function.isExternal())
      return;
    ++numPrepared;
    Builder builder(&getContext());
    // The name is LLVMDialect::getEmitCWrapperAttrName. It is spelled out
    // because including that header takes longer than compiling this file.
    function->setAttr("llvm.emit_c_interface", builder.getUnitAttr());
    for (BlockArgument argument : function.getArguments())
      if (isa<RankedTensorType>(argument.getType()))
        function.setArgAttr(
            argument.getArgNumber(),
            bufferization::BufferizationDialect::kWritableAttrName,
            builder.getBoolAttr(false));
  }

  /// Removes the fuse dialect's attributes, which later passes do not
  /// understand. The pipeline that asked for arguments for scales reads their
  /// attributes after this pass, and removes them.
  void removeAttributes(FunctionOpInterface function) {
    auto isOurs = [](NamedAttribute attribute) {
      return isa_and_nonnull<FuseDialect>(attribute.getNameDialect()) &&
             attribute.getName() != kScalarAttrName &&
             attribute.getName() != kConstantScalesAttrName;
    };
    for (NamedAttribute attribute :
         llvm::to_vector(function->getDiscardableAttrs()))
      if (isOurs(attribute))
        function->removeDiscardableAttr(attribute.getName());
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      for (NamedAttribute attribute : function.getArgAttrs(i))
        if (isOurs(attribute))
          function.removeArgAttr(i, attribute.getName());
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      for (NamedAttribute attribute : function.getResultAttrs(i))
        if (isOurs(attribute))
          function.removeResultAttr(i, attribute.getName());
  }
};

} // namespace
