//===- EmitPTX.cpp - Kernels as PTX text ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/Chip.h"
#include "fuse/Target/PTX.h"
#include "fuse/Target/Passes.h"

#include "mlir/Dialect/GPU/IR/CompilationInterfaces.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Target/LLVM/NVVM/Target.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_EMITPTXPASS
#include "fuse/Target/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-emit-ptx"

void fuse::registerPTXTranslation(DialectRegistry &registry) {
  NVVM::registerNVVMTargetInterfaceExternalModels(registry);
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

bool fuse::isExternalBinary(Operation *binary) {
  return binary->hasAttr("fuse.external");
}

FailureOr<std::string> fuse::getPTX(ModuleOp module) {
  std::string text;
  bool hasExternal = false;
  for (auto binary : module.getOps<gpu::BinaryOp>()) {
    // Its version and target may differ, so that it can not stand in one text
    // with the rest.
    if (isExternalBinary(binary)) {
      hasExternal = true;
      continue;
    }
    for (auto object : binary.getObjects().getAsRange<gpu::ObjectAttr>()) {
      if (object.getFormat() != gpu::CompilationTarget::Assembly)
        continue;
      // The object is a C string.
      StringRef ptx = object.getObject().getValue();
      text += ptx.take_until([](char c) { return c == '\0'; });
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
    if (failed(compile(module)))
      return signalPassFailure();
    FailureOr<std::string> ptx = getPTX(module);
    if (failed(ptx) || failed(write(output, *ptx)))
      return signalPassFailure();
    if (plan.empty())
      return;
    FailureOr<llvm::json::Value> plans = getLaunchPlans(module);
    if (failed(plans) ||
        failed(write(plan, llvm::formatv("{0:2}\n", *plans).str())))
      return signalPassFailure();
  }

private:
  LogicalResult compile(ModuleOp module) {
    for (auto kernels : module.getOps<gpu::GPUModuleOp>()) {
      unsigned targets =
          kernels.getTargetsAttr() ? kernels.getTargetsAttr().size() : 0;
      if (targets != 1)
        return kernels.emitOpError("expected one target to compile for, but "
                                   "got ")
               << targets;
      auto target = dyn_cast<NVVM::NVVMTargetAttr>(kernels.getTargetsAttr()[0]);
      if (!target)
        return kernels.emitOpError("expected a target of type #nvvm.target, "
                                   "but got ")
               << kernels.getTargetsAttr()[0];
      // LLVM would warn and compile for another chip.
      auto reportError = [&](const Twine &message) {
        return LogicalResult(kernels.emitOpError("is for an ") << message);
      };
      if (failed(lookupChip(target.getChip(), reportError)))
        return failure();
    }
    gpu::TargetOptions options(/*toolkitPath=*/{}, /*librariesToLink=*/{},
                               /*cmdOptions=*/{}, /*elfSection=*/{},
                               gpu::CompilationTarget::Assembly);
    return gpu::transformGpuModulesToBinaries(module, nullptr, options);
  }

  LogicalResult write(StringRef path, StringRef text) {
    std::string error;
    std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(path, &error);
    if (!file)
      return getOperation().emitError(error);
    file->os() << text;
    file->keep();
    return success();
  }
};

} // namespace
