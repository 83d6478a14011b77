//===- KernelsToNVVM.cpp - GPU kernels to NVVM ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The upstream conversion calls libdevice even for functions that are one
// instruction, such as sqrt and fma. It fails on the LLVM intrinsics for them.
// This conversion uses the intrinsics and leaves no call of a library.
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/KernelsToNVVM/KernelsToNVVM.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/LoweringOptions.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_CONVERTKERNELSTONVVMPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "convert-kernels-to-nvvm"

namespace {

class ConvertKernelsToNVVMPass
    : public fuse::impl::ConvertKernelsToNVVMPassBase<
          ConvertKernelsToNVVMPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    LowerToLLVMOptions options(context);
    options.overrideIndexBitwidth(64);
    options.useBarePtrCallConv = true;
    LLVMTypeConverter converter(context, options);
    configureGpuToNVVMTypeConverter(converter);

    RewritePatternSet patterns(context);
    // Patterns that call libdevice apply only where no other pattern does.
    populateGpuToNVVMConversionPatterns(converter, patterns, /*benefit=*/0);
    populateMathToLLVMConversionPatterns(converter, patterns,
                                         /*approximateLog1p=*/false);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
    populateVectorToLLVMConversionPatterns(converter, patterns);

    if (failed(checkFunctions()))
      return signalPassFailure();
    for (auto function : getOperation().getOps<gpu::GPUFuncOp>())
      numLowered += function.isKernel();

    LLVMConversionTarget target(*context);
    configureGpuToNVVMConversionLegality(target);
    target.addLegalOp<LLVM::CopySignOp, LLVM::FAbsOp, LLVM::FCeilOp,
                      LLVM::FFloorOp, LLVM::RoundEvenOp, LLVM::RoundOp,
                      LLVM::SqrtOp>();
    target.addIllegalDialect<math::MathDialect>();
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      return signalPassFailure();

    if (failed(checkLowered()))
      return signalPassFailure();
  }

private:
  LogicalResult checkFunctions();
  LogicalResult checkLowered();
};

} // namespace

/// Refuses functions that only a library implements.
LogicalResult ConvertKernelsToNVVMPass::checkFunctions() {
  WalkResult result = getOperation().walk([](Operation *op) {
    bool isMath = isa_and_present<math::MathDialect>(op->getDialect());
    if (!isa<arith::RemFOp>(op) &&
        (!isMath ||
         isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp,
             math::CtPopOp, math::FloorOp, math::FmaOp, math::IsFiniteOp,
             math::IsNaNOp, math::RoundEvenOp, math::RoundOp, math::SqrtOp,
             math::TruncOp>(op)))
      return WalkResult::advance();
    op->emitOpError("is not an instruction of a GPU, and no library is linked; "
                    "fuse-expand-math expands it");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Refuses what LLVM could not translate, while its location is known.
LogicalResult ConvertKernelsToNVVMPass::checkLowered() {
  auto check = [](Operation *op) {
    auto function = dyn_cast<LLVM::LLVMFuncOp>(op);
    if (function && function.isExternal())
      op->emitOpError("is called by a kernel, but no library is linked");
    else if (isa<LLVM::LLVMDialect, NVVM::NVVMDialect>(op->getDialect()) ||
             isa<gpu::GPUModuleOp, UnrealizedConversionCastOp>(op))
      return WalkResult::advance();
    else
      op->emitOpError("has no lowering to NVVM");
    return WalkResult::interrupt();
  };
  // An op is named before those in its regions.
  return failure(
      getOperation()->walk<WalkOrder::PreOrder>(check).wasInterrupted());
}
