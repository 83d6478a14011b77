//===- LowerSlots.cpp - Replace calls of slots by their kernels -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bodies are copied, since what follows fuses and lowers them with the code
// around them. Code in files takes addresses: its operands become buffers here,
// which bufferization finds in place.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/Chip.h"
#include "fuse/IR/FuseModules.h"
#include "fuse/Registry/ResolveKernel.h"
#include "fuse/Slots/Passes.h"
#include "fuse/Slots/SlotBinding.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

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
      : module(module), device(device), chip(chip) {}

  LogicalResult run();

  unsigned numInlined = 0;
  unsigned numExternal = 0;

private:
  LogicalResult lower(CallSlotOp call);
  LogicalResult inlineBody(CallSlotOp call, SlotOp slot,
                           FunctionOpInterface body);
  LogicalResult lower(CallSlotOp call, SlotOp slot, GPUCodeAttr code);
  LogicalResult lower(CallSlotOp call, SlotOp slot, HostCodeAttr code);
  FailureOr<SymbolRefAttr> getBinary(CallSlotOp call, GPUCodeAttr code);

  /// Operands and results of a call in buffers.
  void createBuffers(OpBuilder &builder, CallSlotOp call, SlotOp slot);
  /// What code takes, in its order.
  SmallVector<Value> createArguments(OpBuilder &builder, Location loc,
                                     SlotOp slot, ArrayAttr sizes,
                                     ArrayAttr args);
  Value createSize(OpBuilder &builder, Location loc, ArrayAttr sizes,
                   AffineMap map, unsigned result);
  void replaceByBuffers(OpBuilder &builder, CallSlotOp call);

  ModuleOp module;
  DeviceType device;
  StringRef chip;
  SymbolTableCollection tables;
  SmallVector<Value> operandBuffers, resultBuffers;
  /// Calls that are still to be replaced.
  SmallVector<CallSlotOp> work;
  llvm::DenseMap<Attribute, SymbolRefAttr> binaries;
  /// The bodies that a call was copied with.
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

static std::string describe(CallSlotOp call, SlotOp slot) {
  return slot.toText() + " at '" + getCallPath(call) + "'";
}

LogicalResult SlotLowering::run() {
  module.walk([&](CallSlotOp call) {
    if (!call->getParentOfType<SlotOp>() &&
        !call->getParentOfType<SlotKernelOp>())
      work.push_back(call);
  });
  // Bodies may call other slots.
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
           << describe(call, slot) << " has no kernel bound; "
           << "bind it with fuse-bind-slots, to eager for the slot's own body";
  Operation *bound = tables.lookupSymbolIn(slot, call.getBoundAttr().getAttr());
  if (auto function = dyn_cast<FunctionOpInterface>(bound))
    return inlineBody(call, slot, function);
  auto kernel = cast<BoundKernelOp>(bound);
  DeviceType needed = kernel.getHardware().getDevice();
  if (needed != DeviceType::Any && needed != device)
    return call.emitError()
           << describe(call, slot) << " is bound to '" << *call.getBound()
           << "', which is for a " << stringifyDeviceType(needed)
           << "; this lowers for a " << stringifyDeviceType(device);
  if (Operation *body = kernel.getBodyFunction())
    return inlineBody(call, slot, cast<FunctionOpInterface>(body));
  if (auto code = dyn_cast<GPUCodeAttr>(kernel.getCodeAttr()))
    return lower(call, slot, code);
  return lower(call, slot, cast<HostCodeAttr>(kernel.getCodeAttr()));
}

LogicalResult SlotLowering::inlineBody(CallSlotOp call, SlotOp slot,
                                       FunctionOpInterface body) {
  SmallVector<Operation *> origin = origins.lookup(call);
  if (llvm::is_contained(origin, body.getOperation()))
    return call.emitError() << describe(call, slot) << ": the body of '"
                            << *call.getBound() << "' calls itself";
  origin.push_back(body);
  OpBuilder builder(call);
  IRMapping mapping;
  Block &block = body.getFunctionBody().front();
  mapping.map(block.getArguments(), call.getArgs());
  for (Operation &op : block.without_terminator()) {
    Operation *clone = builder.clone(op, mapping);
    // Where the call stood, so that origins and paths are those of the call.
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

//===----------------------------------------------------------------------===//
// Code in files
//===----------------------------------------------------------------------===//

void SlotLowering::createBuffers(OpBuilder &builder, CallSlotOp call,
                                 SlotOp slot) {
  Location loc = call.getLoc();
  auto getType = [](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    return MemRefType::get(type.getShape(), type.getElementType());
  };
  operandBuffers.clear();
  resultBuffers.clear();
  for (Value arg : call.getArgs())
    operandBuffers.push_back(bufferization::ToBufferOp::create(
        builder, loc, getType(arg), arg, /*read_only=*/true));
  for (OpResult result : call->getResults()) {
    MemRefType type = getType(result);
    SmallVector<Value> sizes;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (type.isDynamicDim(dim)) {
        unsigned operand = *getShapeOperand(slot, result.getResultNumber());
        sizes.push_back(
            memref::DimOp::create(builder, loc, operandBuffers[operand], dim));
      }
    resultBuffers.push_back(memref::AllocOp::create(builder, loc, type, sizes));
  }
}

Value SlotLowering::createSize(OpBuilder &builder, Location loc,
                               ArrayAttr sizes, AffineMap map,
                               unsigned result) {
  SmallVector<Value> symbols;
  for (auto pair : sizes.getAsRange<ArrayAttr>())
    symbols.push_back(memref::DimOp::create(
        builder, loc, operandBuffers[cast<IntegerAttr>(pair[0]).getInt()],
        cast<IntegerAttr>(pair[1]).getInt()));
  symbols.resize(map.getNumSymbols());
  return affine::AffineApplyOp::create(
      builder, loc,
      AffineMap::get(0, map.getNumSymbols(), map.getResult(result)), symbols);
}

SmallVector<Value> SlotLowering::createArguments(OpBuilder &builder,
                                                 Location loc, SlotOp slot,
                                                 ArrayAttr sizes,
                                                 ArrayAttr args) {
  SmallVector<Value> values;
  for (Attribute attr : args) {
    if (auto map = dyn_cast<AffineMapAttr>(attr)) {
      values.push_back(
          createSize(builder, loc, sizes, map.getValue(), /*result=*/0));
      continue;
    }
    if (auto name = dyn_cast<StringAttr>(attr)) {
      StringRef word = name;
      unsigned index = 0;
      if (word.consume_front("param.")) {
        attr = slot.getParam(word);
      } else if (word.consume_front("arg")) {
        (void)word.getAsInteger(10, index);
        values.push_back(operandBuffers[index]);
        continue;
      } else {
        word.consume_front("result");
        (void)word.getAsInteger(10, index);
        values.push_back(resultBuffers[index]);
        continue;
      }
    }
    values.push_back(
        arith::ConstantOp::create(builder, loc, cast<TypedAttr>(attr)));
  }
  return values;
}

void SlotLowering::replaceByBuffers(OpBuilder &builder, CallSlotOp call) {
  for (auto [result, buffer] : llvm::zip(call->getResults(), resultBuffers)) {
    auto tensor = bufferization::ToTensorOp::create(
        builder, call.getLoc(), result.getType(), buffer, /*restrict=*/true,
        /*writable=*/true);
    result.replaceAllUsesWith(tensor);
  }
  call->erase();
  ++numExternal;
}

FailureOr<SymbolRefAttr> SlotLowering::getBinary(CallSlotOp call,
                                                 GPUCodeAttr code) {
  Attribute key = StringAttr::get(module.getContext(), code.getFile());
  if (SymbolRefAttr known = binaries.lookup(key))
    return known;
  auto buffer = llvm::MemoryBuffer::getFile(code.getFile());
  if (!buffer)
    return call.emitError()
           << "file '" << code.getFile()
           << "' can not be read: " << buffer.getError().message();
  FailureOr<Chip> known = lookupChip(chip, [&](const Twine &message) {
    return LogicalResult(module.emitError() << message);
  });
  if (failed(known))
    return failure();
  MLIRContext *context = module.getContext();
  auto target =
      NVVM::NVVMTargetAttr::get(context, /*optLevel=*/3, "nvptx64-nvidia-cuda",
                                known->name, known->getFeatures());
  auto object = gpu::ObjectAttr::get(
      context, target,
      code.getFormat() == CodeFormat::PTX ? gpu::CompilationTarget::Assembly
                                          : gpu::CompilationTarget::Binary,
      StringAttr::get(context, (*buffer)->getBuffer()),
      /*properties=*/DictionaryAttr(), /*kernels=*/gpu::KernelTableAttr());
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto binary = gpu::BinaryOp::create(
      builder, call.getLoc(), llvm::sys::path::stem(code.getFile()),
      /*offloadingHandler=*/Attribute(),
      builder.getArrayAttr({Attribute(object)}));
  binary->setAttr("fuse.external", builder.getUnitAttr());
  tables.getSymbolTable(module).insert(binary);
  module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                  builder.getUnitAttr());
  return binaries[key] = SymbolRefAttr::get(binary.getSymNameAttr());
}

LogicalResult SlotLowering::lower(CallSlotOp call, SlotOp slot,
                                  GPUCodeAttr code) {
  FailureOr<SymbolRefAttr> binary = getBinary(call, code);
  if (failed(binary))
    return failure();
  OpBuilder builder(call);
  Location loc = call.getLoc();
  createBuffers(builder, call, slot);
  SmallVector<Value> args =
      createArguments(builder, loc, slot, code.getSizes(), code.getArgs());
  SmallVector<Value, 3> blocks, threads;
  for (unsigned i = 0; i < 3; ++i) {
    blocks.push_back(createSize(builder, loc, code.getSizes(),
                                code.getGrid().getValue(), i));
    threads.push_back(arith::ConstantIndexOp::create(
        builder, loc, cast<IntegerAttr>(code.getBlock()[i]).getInt()));
  }
  Value shared;
  if (code.getShared())
    shared = arith::ConstantOp::create(
        builder, loc, builder.getI32IntegerAttr(code.getShared()));
  auto kernel = SymbolRefAttr::get(
      binary->getRootReference(),
      FlatSymbolRefAttr::get(module.getContext(), code.getEntry()));
  gpu::LaunchFuncOp::create(
      builder, loc, kernel, gpu::KernelDim3{blocks[0], blocks[1], blocks[2]},
      gpu::KernelDim3{threads[0], threads[1], threads[2]}, shared, args);
  replaceByBuffers(builder, call);
  return success();
}

LogicalResult SlotLowering::lower(CallSlotOp call, SlotOp slot,
                                  HostCodeAttr code) {
  OpBuilder builder(call);
  Location loc = call.getLoc();
  createBuffers(builder, call, slot);
  // In the C calling conventions of 64-bit machines an address is passed like
  // a 64-bit integer.
  SmallVector<Value> args =
      createArguments(builder, loc, slot, code.getSizes(), code.getArgs());
  for (Value &arg : args) {
    if (isa<MemRefType>(arg.getType()))
      arg = memref::ExtractAlignedPointerAsIndexOp::create(builder, loc, arg);
    if (arg.getType().isIndex())
      arg = arith::IndexCastOp::create(builder, loc, builder.getI64Type(), arg);
  }
  SymbolTable &symbols = tables.getSymbolTable(module);
  auto type = builder.getFunctionType(TypeRange(ValueRange(args)), {});
  auto function = symbols.lookup<func::FuncOp>(code.getSymbol());
  if (!function) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(module.getBody());
    function = func::FuncOp::create(builder, loc, code.getSymbol(), type);
    function.setPrivate();
    function->setAttr("fuse.library", builder.getStringAttr(code.getLibrary()));
    symbols.insert(function);
  }
  if (!function.isExternal() || function.getFunctionType() != type)
    return call.emitError()
           << describe(call, slot) << ": symbol '" << code.getSymbol()
           << "' is already a function of type " << function.getFunctionType()
           << ", the kernel has type " << type;
  func::CallOp::create(builder, loc, function, args);
  replaceByBuffers(builder, call);
  return success();
}
