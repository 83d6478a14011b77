//===- FuseToHost.cpp - Fused ops to kernels for a CPU --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function that is one fused op gets a kernel in a module of its own, and a
// plan that says how a host calls it. The fused op stays: portable code of it
// is there for launches that have no packed weights, and it is what kernels are
// checked with.
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/FuseToHost/FuseToHost.h"
#include "HostKernelBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Remarks.h"

namespace fuse {
#define GEN_PASS_DEF_CONVERTFUSETOHOSTPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

/// The only op of a function, if its results are returned as they are.
static Operation *getOnlyOp(func::FuncOp function) {
  if (!function.isPublic() || !function.getBody().hasOneBlock())
    return nullptr;
  Operation *op = &function.front().front();
  Operation *returnOp = function.front().getTerminator();
  if (op == returnOp || op->getNextNode() != returnOp ||
      returnOp->getOperands() != op->getResults())
    return nullptr;
  return isa<FusedOpInterface>(op) ? op : nullptr;
}

namespace {

struct ConvertFuseToHostPass
    : fuse::impl::ConvertFuseToHostPassBase<ConvertFuseToHostPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(checkOptions()))
      return signalPassFailure();
    if (Operation *other = getOperation().lookupSymbol(kHostKernelsName)) {
      other->emitError() << "'@" << kHostKernelsName
                         << "' is the name of the module of kernels for a CPU";
      return signalPassFailure();
    }
    ModuleOp kernels;
    for (auto function :
         llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      // A plan that somebody else wrote is not trusted.
      function->removeAttr(kHostPlanAttrName);
      if (Operation *op = getOnlyOp(function))
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
    std::optional<DecodeProblem> problem = describeFamily(op, reason);
    if (problem)
      reason = getHostProblem(*problem);
    if (!reason.empty()) {
      remark::missed(
          op->getLoc(),
          remark::RemarkOpts::name("host-kernel").category("codegen"))
          << remark::reason("{0}", reason)
          << remark::suggest("{0}", "the portable path takes this kernel");
      ++numDeclined;
      return;
    }
    if (!kernels) {
      OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
      kernels =
          ModuleOp::create(builder, getOperation().getLoc(), kHostKernelsName);
    }
    HostVectors vectors = {lanes, registers, fma, dot, tiles};
    function->setAttr(kHostPlanAttrName,
                      HostKernelBuilder(*problem, vectors, kernels)
                          .build(function.getSymName()));
    remark::passed(op->getLoc(),
                   remark::RemarkOpts::name("host-kernel").category("codegen"))
        << "kernel " << function.getSymName();
    ++numScheduled;
  }
};

} // namespace
