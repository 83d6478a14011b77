//===- SlotCode.cpp - Lower slots that are bound to code in files ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The arguments of code in files are addresses. Operands therefore become
// buffers here; bufferization keeps them.
//
//===----------------------------------------------------------------------===//

#include "SlotCode.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Slots/ResolveKernel.h"
#include "fuse/Slots/SlotBinding.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "nn/IR/NNModules.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace fuse;

std::string fuse::describeBinding(CallSlotOp call, SlotOp slot) {
  return slot.toText() + " at '" + getCallPath(call) + "'";
}

void SlotCodeLowering::createBuffers(OpBuilder &builder, CallSlotOp call,
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

Value SlotCodeLowering::createSize(OpBuilder &builder, Location loc,
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

SmallVector<Value> SlotCodeLowering::createArguments(OpBuilder &builder,
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

void SlotCodeLowering::replaceByBuffers(OpBuilder &builder, CallSlotOp call) {
  for (auto [result, buffer] : llvm::zip(call->getResults(), resultBuffers)) {
    auto tensor = bufferization::ToTensorOp::create(
        builder, call.getLoc(), result.getType(), buffer, /*restrict=*/true,
        /*writable=*/true);
    result.replaceAllUsesWith(tensor);
  }
  call->erase();
}

FailureOr<SymbolRefAttr> SlotCodeLowering::getBinary(CallSlotOp call,
                                                     GPUCodeAttr code) {
  Attribute key = StringAttr::get(module.getContext(), code.getFile());
  if (SymbolRefAttr known = binaries.lookup(key))
    return known;
  auto buffer = llvm::MemoryBuffer::getFile(code.getFile());
  if (!buffer)
    return call.emitError()
           << "file '" << code.getFile()
           << "' cannot be read: " << buffer.getError().message();
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
  binary->setAttr(kExternalAttrName, builder.getUnitAttr());
  tables.getSymbolTable(module).insert(binary);
  module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                  builder.getUnitAttr());
  return binaries[key] = SymbolRefAttr::get(binary.getSymNameAttr());
}

LogicalResult SlotCodeLowering::lower(CallSlotOp call, SlotOp slot,
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

LogicalResult SlotCodeLowering::lower(CallSlotOp call, SlotOp slot,
                                      CPUCodeAttr code) {
  OpBuilder builder(call);
  Location loc = call.getLoc();
  createBuffers(builder, call, slot);
  // In the C calling conventions of 64-bit machines, an address is passed like
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
    function->setAttr(kLibraryAttrName,
                      builder.getStringAttr(code.getLibrary()));
    symbols.insert(function);
  }
  if (!function.isExternal() || function.getFunctionType() != type)
    return call.emitError()
           << describeBinding(call, slot) << ": symbol '" << code.getSymbol()
           << "' is already a function of type " << function.getFunctionType()
           << ", the kernel has type " << type;
  // A program has only one function of a name, even with several libraries.
  auto library = function->getAttrOfType<StringAttr>(kLibraryAttrName);
  if (!library || library.getValue() != code.getLibrary())
    return call.emitError()
           << describeBinding(call, slot) << ": symbol '" << code.getSymbol()
           << "' is already a function of "
           << (library ? "library '" + library.getValue() + "'"
                       : Twine("the module"))
           << ", the kernel is in library '" << code.getLibrary() << "'";
  func::CallOp::create(builder, loc, function, args);
  replaceByBuffers(builder, call);
  return success();
}
