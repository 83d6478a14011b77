//===- LowerSlots.cpp - Replace calls of slots by their kernels -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bodies are inlined, so that later passes fuse and lower them together with
// the surrounding code.
//
//===----------------------------------------------------------------------===//

#include "SlotCode.h"
#include "fuse/Slots/Passes.h"
#include "fuse/Slots/ResolveKernel.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "nn/IR/NNModules.h"

namespace fuse {
#define GEN_PASS_DEF_LOWERSLOTSPASS
#include "fuse/Slots/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {

/// Lowers the calls of one module.
class SlotLowering {
public:
  SlotLowering(ModuleOp module, DeviceType device, StringRef chip)
      : module(module), device(device), code(module, chip, tables) {}

  LogicalResult run();

  unsigned numInlined = 0;
  unsigned numExternal = 0;

private:
  LogicalResult lower(CallSlotOp call);
  LogicalResult inlineBody(CallSlotOp call, SlotOp slot,
                           FunctionOpInterface body);

  ModuleOp module;
  DeviceType device;
  SymbolTableCollection tables;
  SlotCodeLowering code;
  /// Calls that have not been replaced yet.
  SmallVector<CallSlotOp> work;
  /// The bodies from which a call was copied.
  llvm::DenseMap<Operation *, SmallVector<Operation *>> origins;
};

struct LowerSlots : fuse::impl::LowerSlotsPassBase<LowerSlots> {
  using Base::Base;

  void runOnOperation() override {
    if (device != "cpu" && device != "gpu") {
      getOperation()->emitError()
          << "unknown device '" << device << "', expected cpu or gpu";
      return signalPassFailure();
    }
    SlotLowering lowering(getOperation(),
                          device == "gpu" ? DeviceType::GPU : DeviceType::CPU,
                          chip);
    if (failed(lowering.run()))
      return signalPassFailure();
    numInlined += lowering.numInlined;
    numExternal += lowering.numExternal;
  }
};

} // namespace

LogicalResult SlotLowering::run() {
  module.walk([&](CallSlotOp call) {
    if (!call->getParentOfType<SlotOp>() &&
        !call->getParentOfType<SlotKernelOp>())
      work.push_back(call);
  });
  // Bodies can contain calls of other slots.
  while (!work.empty())
    if (failed(lower(work.pop_back_val())))
      return failure();
  for (Operation &op : llvm::make_early_inc_range(module.getOps()))
    if (isa<SlotOp, SlotKernelOp>(op))
      op.erase();
  return success();
}

LogicalResult SlotLowering::lower(CallSlotOp call) {
  SlotOp slot = lookupSlot(tables, call, call.getCallee());
  if (!call.getBound())
    return call.emitError()
           << describeBinding(call, slot) << " has no kernel bound; "
           << "bind it with fuse-bind-slots, to eager for the slot's own body";
  Operation *bound = tables.lookupSymbolIn(slot, call.getBoundAttr().getAttr());
  if (auto function = dyn_cast<FunctionOpInterface>(bound))
    return inlineBody(call, slot, function);
  auto kernel = cast<BoundKernelOp>(bound);
  DeviceType needed = kernel.getHardware().getDevice();
  if (needed != DeviceType::Any && needed != device)
    return call.emitError()
           << describeBinding(call, slot) << " is bound to '"
           << *call.getBound() << "', which is for a "
           << stringifyDeviceType(needed) << "; this lowers for a "
           << stringifyDeviceType(device);
  if (Operation *body = kernel.getBodyFunction())
    return inlineBody(call, slot, cast<FunctionOpInterface>(body));
  ++numExternal;
  if (auto attr = dyn_cast<GPUCodeAttr>(kernel.getCodeAttr()))
    return code.lower(call, slot, attr);
  return code.lower(call, slot, cast<CPUCodeAttr>(kernel.getCodeAttr()));
}

LogicalResult SlotLowering::inlineBody(CallSlotOp call, SlotOp slot,
                                       FunctionOpInterface body) {
  SmallVector<Operation *> origin = origins.lookup(call);
  if (llvm::is_contained(origin, body.getOperation()))
    return call.emitError() << describeBinding(call, slot) << ": the body of '"
                            << *call.getBound() << "' calls itself";
  origin.push_back(body);
  OpBuilder builder(call);
  IRMapping mapping;
  Block &block = body.getFunctionBody().front();
  mapping.map(block.getArguments(), call.getArgs());
  for (Operation &op : block.without_terminator()) {
    Operation *clone = builder.clone(op, mapping);
    // Copied ops have the location of the call, so that origins and paths are
    // those of the call.
    clone->walk([&](Operation *inner) {
      inner->setLoc(call.getLoc());
      auto nested = dyn_cast<CallSlotOp>(inner);
      if (!nested)
        return;
      work.push_back(nested);
      origins[nested] = origin;
    });
  }
  SmallVector<Value> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(mapping.lookup(value));
  call->replaceAllUsesWith(results);
  call->erase();
  ++numInlined;
  return success();
}
