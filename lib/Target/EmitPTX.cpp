//===- EmitPTX.cpp - Kernels as PTX text ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/KernelsToPTX/KernelsToPTX.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Support/OutputFile.h"
#include "fuse/Target/PTX.h"
#include "fuse/Target/Passes.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_EMITPTXPASS
#include "fuse/Target/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-emit-ptx"

void fuse::registerPTXTranslation(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

bool fuse::isExternalBinary(Operation *binary) {
  return binary->hasAttr(kExternalAttrName);
}

FailureOr<std::string> fuse::getPTX(ModuleOp module) {
  std::string text;
  bool hasExternal = false;
  for (auto binary : module.getOps<gpu::BinaryOp>()) {
    // Its PTX version and target may differ, so it cannot be part of the same
    // text.
    if (isExternalBinary(binary)) {
      hasExternal = true;
      continue;
    }
    for (auto object : binary.getObjects().getAsRange<gpu::ObjectAttr>()) {
      if (object.getFormat() != gpu::CompilationTarget::Assembly)
        continue;
      text += object.getObject().getValue();
    }
  }
  if (text.empty() && !hasExternal)
    return module.emitError("has no kernel in PTX");
  return text;
}

StringRef fuse::getTargetChip(Attribute target) {
  if (auto nvvm = dyn_cast_or_null<NVVM::NVVMTargetAttr>(target))
    return nvvm.getChip();
  return {};
}

namespace {

class EmitPTXPass : public fuse::impl::EmitPTXPassBase<EmitPTXPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    numCompiled += llvm::range_size(module.getOps<gpu::GPUModuleOp>());
    if (failed(compileToPTX(module)))
      return signalPassFailure();
    FailureOr<std::string> ptx = getPTX(module);
    if (failed(ptx) || failed(write(output, *ptx)))
      return signalPassFailure();
    numBytes += ptx->size();
    if (plan.empty())
      return;
    FailureOr<llvm::json::Value> plans = getLaunchPlans(module);
    if (failed(plans) ||
        failed(write(plan, llvm::formatv("{0:2}\n", *plans).str())))
      return signalPassFailure();
  }

private:
  LogicalResult write(StringRef path, StringRef text) {
    llvm::Error error = writeFile(path, [&](llvm::raw_ostream &os) {
      os << text;
      return llvm::Error::success();
    });
    if (error)
      return getOperation().emitError(llvm::toString(std::move(error)));
    return success();
  }
};

} // namespace
