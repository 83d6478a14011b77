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
    populateGpuToNVVMConversionPatterns(converter, patterns, /*benefit=*/10);
    populateMathToLLVMConversionPatterns(
        converter, patterns, /*approximateLog1p=*/false, /*benefit=*/20);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
    populateVectorToLLVMConversionPatterns(converter, patterns);

    for (auto function : getOperation().getOps<gpu::GPUFuncOp>())
      numLowered += function.isKernel();

    LLVMConversionTarget target(*context);
    configureGpuToNVVMConversionLegality(target);
    target.addLegalOp<LLVM::FAbsOp, LLVM::FCeilOp, LLVM::FFloorOp,
                      LLVM::RoundEvenOp, LLVM::RoundOp, LLVM::SqrtOp>();
    target.addIllegalDialect<math::MathDialect>();
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      return signalPassFailure();

    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>()) {
      if (!function.isExternal())
        continue;
      function.emitOpError("is called by a kernel, but no library is linked");
      return signalPassFailure();
    }
  }
};

} // namespace
