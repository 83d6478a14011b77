//===- FuseToCPU.cpp - Fused ops to kernels for a CPU ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function of fused ops, norms, linears and elementwise ops gets a kernel in
// a separate module, and a plan of how the host calls it. The ops remain.
// Launches without packed weights run their portable code, and kernels are
// checked against it.
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/FuseToCPU/FuseToCPU.h"
#include "fuse/Codegen/CPU/KernelBuilder.h"
#include "fuse/IR/FuseAttrNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Remarks.h"

namespace fuse {
#define GEN_PASS_DEF_CONVERTFUSETOCPUPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

/// The first fused op of a function; remarks are emitted at its location.
static Operation *getFusedOp(func::FuncOp function) {
  Operation *found = nullptr;
  function.walk([&](FusedOpInterface op) {
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

namespace {

struct ConvertFuseToCPUPass
    : fuse::impl::ConvertFuseToCPUPassBase<ConvertFuseToCPUPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(checkOptions()))
      return signalPassFailure();
    if (Operation *other = getOperation().lookupSymbol(kCPUKernelsName)) {
      other->emitError() << "'@" << kCPUKernelsName
                         << "' is the name of the module of kernels for a CPU";
      return signalPassFailure();
    }
    ModuleOp kernels;
    for (auto function :
         llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      // Ignore a plan that did not come from this pass.
      function->removeAttr(kCPUPlanAttrName);
      if (Operation *op = getFusedOp(function))
        convert(function, op, kernels);
    }
  }

  LogicalResult checkOptions() {
    int64_t numLanes = lanes, numRegisters = registers;
    if (numLanes != 4 && numLanes != 8 && numLanes != 16)
      return getOperation()->emitError()
             << "expected 'lanes' to be 4, 8 or 16, got " << numLanes;
    if (numRegisters != 16 && numRegisters != 32)
      return getOperation()->emitError()
             << "expected 'registers' to be 16 or 32, got " << numRegisters;
    if (dot && numLanes != 16)
      return getOperation()->emitError()
             << "expected 16 'lanes' for 'dot', got " << numLanes;
    if (tiles && !dot)
      return getOperation()->emitError() << "expected 'dot' for 'tiles'";
    return success();
  }

  void convert(func::FuncOp function, Operation *op, ModuleOp &kernels) {
    std::string reason;
    std::vector<CPUStep> steps = describeSteps(function, reason);
    for (const CPUStep &step : steps)
      if (reason.empty())
        reason = getCPUProblem(step);
    if (steps.empty() && reason.empty())
      return;
    if (!reason.empty()) {
      remark::missed(op->getLoc(),
                     remark::RemarkOpts::name("cpu-kernel").category("codegen"))
          << remark::reason("{0}", reason)
          << remark::suggest("{0}", "the portable path compiles this kernel");
      ++numDeclined;
      return;
    }
    if (!kernels) {
      OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
      kernels =
          ModuleOp::create(builder, getOperation().getLoc(), kCPUKernelsName);
    }
    CPUVectors vectors = {lanes, registers, fma, dot, tiles};
    function->setAttr(
        kCPUPlanAttrName,
        CPUKernelBuilder(steps, vectors, kernels).build(function.getSymName()));
    remark::passed(op->getLoc(),
                   remark::RemarkOpts::name("cpu-kernel").category("codegen"))
        << "kernel " << function.getSymName();
    ++numScheduled;
  }
};

} // namespace
