//===- KernelsToPTX.cpp - Compile GPU kernels to PTX ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/KernelsToPTX/KernelsToPTX.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Support/LLVMPasses.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVM/NVVM/Utils.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace fuse {
#define GEN_PASS_DEF_CONVERTKERNELSTOPTXPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "convert-kernels-to-ptx"

using namespace mlir;
using namespace fuse;

// Full unrolling precedes instcombine, which folds the addresses and bounds of
// the unrolled copies. ptxas does further optimizations.
static constexpr StringLiteral kPasses =
    "function<eager-inv>(sroa,early-cse<memssa>,simplifycfg,"
    "loop-mssa(loop-rotate,licm),loop(indvars,loop-unroll-full),"
    "instcombine<no-verify-fixpoint;max-iterations=1>,gvn,"
    "loop-unroll<O3>,instsimplify,simplifycfg)";

namespace {

/// Upstream's serializer for a module with an `#nvvm.target`, with other LLVM
/// passes.
class PTXSerializer : public NVVM::SerializeGPUModuleBase {
public:
  using SerializeGPUModuleBase::SerializeGPUModuleBase;

protected:
  LogicalResult optimizeModule(llvm::Module &code, int level) override {
    FailureOr<llvm::TargetMachine *> machine = getOrCreateTargetMachine();
    if (failed(machine))
      return failure();
    (*machine)->setOptLevel(static_cast<llvm::CodeGenOptLevel>(level));
    if (llvm::Error error = runLLVMPasses(code, **machine, kPasses))
      return getOperation().emitOpError(llvm::toString(std::move(error)));
    return success();
  }

  FailureOr<SmallVector<char, 0>> moduleToObject(llvm::Module &code) override {
    FailureOr<llvm::TargetMachine *> machine = getOrCreateTargetMachine();
    if (failed(machine))
      return failure();
    FailureOr<SmallString<0>> ptx = translateModuleToISA(
        code, **machine, [&] { return getOperation().emitOpError(); });
    if (failed(ptx))
      return failure();
    return SmallVector<char, 0>(ptx->begin(), ptx->end());
  }
};

struct ConvertKernelsToPTX
    : fuse::impl::ConvertKernelsToPTXPassBase<ConvertKernelsToPTX> {
  using Base::Base;

  void runOnOperation() override {
    numCompiled += llvm::range_size(getOperation().getOps<gpu::GPUModuleOp>());
    if (failed(compileToPTX(getOperation())))
      signalPassFailure();
  }
};

} // namespace

static FailureOr<NVVM::NVVMTargetAttr> getTarget(gpu::GPUModuleOp kernels) {
  ArrayAttr targets = kernels.getTargetsAttr();
  if (!targets || targets.size() != 1)
    return kernels.emitOpError("expected one target to compile for, but got ")
           << (targets ? targets.size() : 0);
  auto target = dyn_cast<NVVM::NVVMTargetAttr>(targets[0]);
  if (!target)
    return kernels.emitOpError("expected a target of type #nvvm.target, but "
                               "got ")
           << targets[0];
  // LLVM would only warn and compile for another chip.
  auto reportError = [&](const Twine &message) {
    return LogicalResult(kernels.emitOpError("is for an ") << message);
  };
  if (failed(lookupChip(target.getChip(), reportError)))
    return failure();
  return target;
}

LogicalResult fuse::compileToPTX(ModuleOp module) {
  for (auto kernels :
       llvm::make_early_inc_range(module.getOps<gpu::GPUModuleOp>())) {
    FailureOr<NVVM::NVVMTargetAttr> target = getTarget(kernels);
    if (failed(target))
      return failure();
    PTXSerializer serializer(*kernels, *target);
    serializer.init();
    std::optional<SmallVector<char, 0>> ptx = serializer.run();
    if (!ptx)
      return kernels.emitOpError("cannot be compiled to PTX");
    OpBuilder builder(kernels);
    auto object = gpu::ObjectAttr::get(
        builder.getContext(), *target, gpu::CompilationTarget::Assembly,
        builder.getStringAttr(StringRef(ptx->data(), ptx->size())),
        /*properties=*/nullptr, /*kernels=*/nullptr);
    gpu::BinaryOp::create(builder, kernels.getLoc(), kernels.getName(),
                          /*offloadingHandler=*/nullptr,
                          builder.getArrayAttr({Attribute(object)}));
    kernels.erase();
  }
  return success();
}
