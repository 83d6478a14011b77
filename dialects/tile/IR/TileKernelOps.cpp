//===- TileKernelOps.cpp - Kernels, roles and semaphores ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "tile/IR/TileOps.h"

using namespace mlir;
using namespace tile;

//===----------------------------------------------------------------------===//
// kernel
//===----------------------------------------------------------------------===//

/// Parses `keyword(integer)`.
static ParseResult parseCount(OpAsmParser &parser, StringRef keyword,
                              IntegerAttr &value) {
  int64_t number;
  if (parser.parseKeyword(keyword) || parser.parseLParen() ||
      parser.parseInteger(number) || parser.parseRParen())
    return failure();
  value = parser.getBuilder().getI64IntegerAttr(number);
  return success();
}

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  bool isVariadic = false;
  SmallVector<Type> resultTypes;
  SmallVector<DictionaryAttr> resultAttrs;
  IntegerAttr blocks, threads, sharedBytes;
  Properties &properties = result.getOrAddProperties<Properties>();
  if (parser.parseSymbolName(name))
    return failure();
  properties.setSymName(name);
  if (function_interface_impl::parseFunctionSignatureWithArguments(
          parser, /*allowVariadic=*/false, arguments, isVariadic, resultTypes,
          resultAttrs) ||
      parseCount(parser, "blocks", blocks) ||
      parseCount(parser, "threads", threads) ||
      parseCount(parser, "shared_bytes", sharedBytes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("cooperative")))
    properties.setCooperative(parser.getBuilder().getUnitAttr());
  IntegerAttr cluster = parser.getBuilder().getI64IntegerAttr(1);
  if (succeeded(parser.parseOptionalKeyword("cluster")) &&
      (parser.parseLParen() ||
       parser.parseAttribute(cluster, parser.getBuilder().getI64Type()) ||
       parser.parseRParen()))
    return failure();
  properties.setCluster(cluster);
  properties.setBlocks(blocks);
  properties.setThreads(threads);
  properties.setSharedBytes(sharedBytes);
  SmallVector<Type> types;
  for (const OpAsmParser::Argument &argument : arguments)
    types.push_back(argument.type);
  properties.setFunctionType(
      TypeAttr::get(parser.getBuilder().getFunctionType(types, resultTypes)));
  call_interface_impl::addArgAndResultAttrs(
      parser.getBuilder(), result, arguments, resultAttrs,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return parser.parseRegion(*result.addRegion(), arguments,
                            /*enableNameShadowing=*/false);
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  call_interface_impl::printFunctionSignature(
      printer, getArgumentTypes(), getArgAttrsAttr(), /*isVariadic=*/false,
      getResultTypes(), getResAttrsAttr(), &getBody(),
      /*printEmptyResult=*/false);
  printer << " blocks(" << getBlocks() << ") threads(" << getThreads()
          << ") shared_bytes(" << getSharedBytes() << ")";
  if (getCooperative())
    printer << " cooperative";
  if (getCluster() != 1)
    printer << " cluster(" << getCluster() << ")";
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getSymNameAttrName(), getFunctionTypeAttrName(), getArgAttrsAttrName(),
       getResAttrsAttrName(), getBlocksAttrName(), getThreadsAttrName(),
       getSharedBytesAttrName(), getCooperativeAttrName(),
       getClusterAttrName()});
  printer << ' ';
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult KernelOp::verify() {
  if (getSymName().empty())
    return emitOpError("name must not be empty");
  if (!(*this)->getParentOfType<gpu::GPUModuleOp>())
    return emitOpError("must lie in a gpu.module");
  if (!getResultTypes().empty())
    return emitOpError("has results: a kernel writes to buffers");
  if (getBlocks() < 1 || getBlocks() > 65535)
    return emitOpError() << "has " << getBlocks()
                         << " blocks: expected 1 to 65535";
  if (getThreads() < 32 || getThreads() > 1024 || getThreads() % 32 != 0)
    return emitOpError() << "has " << getThreads()
                         << " threads: expected a multiple of 32 up to 1024";
  if (getSharedBytes() < 0 ||
      getSharedBytes() > static_cast<uint64_t>(kMaxSharedBytes))
    return emitOpError() << "has " << static_cast<int64_t>(getSharedBytes())
                         << " bytes of shared memory: expected at most "
                         << kMaxSharedBytes;
  int64_t cluster = getCluster();
  if (cluster < 1 || cluster > 8 || getBlocks() % cluster != 0)
    return emitOpError() << "has clusters of " << cluster << " for "
                         << getBlocks()
                         << " blocks: expected 1 to 8 that divide them";
  for (Type type : getArgumentTypes())
    if (!isa<BufferType, TensorMapType>(type) && !type.isInteger(32) &&
        !type.isF32())
      return emitOpError() << "has an argument of type " << type
                           << ": expected a global buffer, a tensor map, i32 "
                              "or f32";
  for (Type type : getArgumentTypes())
    if (auto buffer = dyn_cast<BufferType>(type))
      if (buffer.getMemory() != Memory::Global)
        return emitOpError() << "has an argument of type " << type
                             << ": expected a global buffer, a tensor map, "
                                "i32 or f32";
  return success();
}

//===----------------------------------------------------------------------===//
// specialize
//===----------------------------------------------------------------------===//

ParseResult SpecializeOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<Attribute> names;
  SmallVector<int64_t> warps, registers;
  if (parser.parseLBrace())
    return failure();
  while (succeeded(parser.parseOptionalKeyword("role"))) {
    StringAttr name;
    int64_t count, budget = 0;
    if (parser.parseAttribute(name) || parser.parseKeyword("warps") ||
        parser.parseLParen() || parser.parseInteger(count) ||
        parser.parseRParen())
      return failure();
    if (succeeded(parser.parseOptionalKeyword("registers")))
      if (parser.parseLParen() || parser.parseInteger(budget) ||
          parser.parseRParen())
        return failure();
    Region *region = result.addRegion();
    if (parser.parseRegion(*region))
      return failure();
    if (region->empty())
      region->emplaceBlock();
    names.push_back(name);
    warps.push_back(count);
    registers.push_back(budget);
  }
  Properties &properties = result.getOrAddProperties<Properties>();
  properties.setNames(parser.getBuilder().getArrayAttr(names));
  properties.setWarps(parser.getBuilder().getDenseI64ArrayAttr(warps));
  properties.setRegisters(parser.getBuilder().getDenseI64ArrayAttr(registers));
  if (parser.parseRBrace() ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  return success();
}

void SpecializeOp::print(OpAsmPrinter &printer) {
  printer << " {";
  printer.increaseIndent();
  for (auto [name, count, budget, region] :
       llvm::zip_equal(getNames(), getWarps(), getRegisters(), getRoles())) {
    printer.printNewline();
    printer << "role " << name << " warps(" << count << ") ";
    if (budget)
      printer << "registers(" << budget << ") ";
    printer.printRegion(region);
  }
  printer.decreaseIndent();
  printer.printNewline();
  printer << "}";
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getNamesAttrName(), getWarpsAttrName(), getRegistersAttrName()});
}

LogicalResult SpecializeOp::verify() {
  size_t count = getRoles().size();
  if (getNames().size() != count || getWarps().size() != count ||
      getRegisters().size() != count)
    return emitOpError() << "has " << count << " regions, " << getNames().size()
                         << " names, " << getWarps().size()
                         << " warp counts and " << getRegisters().size()
                         << " register counts";
  if (count == 0)
    return emitOpError("has no role");
  int64_t first = 0, total = 0;
  for (auto [name, warps, registers] :
       llvm::zip_equal(getNames(), getWarps(), getRegisters())) {
    if (warps < 1 || warps > 32)
      return emitOpError() << "role " << name << " has " << warps
                           << " warps: expected 1 to 32";
    if (registers != 0) {
      if (first % 4 != 0 || warps % 4 != 0)
        return emitOpError()
               << "role " << name << " with registers has warps " << first
               << " to " << first + warps << ": expected whole warpgroups of 4";
      if (registers < 24 || registers > 256 || registers % 8 != 0)
        return emitOpError() << "role " << name << " has " << registers
                             << " registers: expected a multiple of 8 from 24 "
                                "to 256";
      total += registers * warps * 32;
    }
    first += warps;
  }
  if (total > 65536)
    return emitOpError() << "needs " << total
                         << " registers: a block has 65536";
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (kernel && static_cast<int64_t>(kernel.getThreads()) != first * 32)
    return emitOpError() << "has roles for " << first * 32
                         << " threads, the kernel has " << kernel.getThreads();
  return success();
}

//===----------------------------------------------------------------------===//
// Barriers and semaphores
//===----------------------------------------------------------------------===//

static LogicalResult verifyBarrier(Operation *op, int64_t id,
                                   std::optional<int64_t> threads) {
  if (id < 0 || id > 15)
    return op->emitOpError() << "has id " << id << ": expected 0 to 15";
  if (threads && (*threads < 32 || *threads > 1024 || *threads % 32 != 0))
    return op->emitOpError()
           << "is for " << *threads
           << " threads: expected a multiple of 32 up to 1024";
  return success();
}

LogicalResult BarrierOp::verify() {
  return verifyBarrier(*this, getId(), getThreads());
}

LogicalResult BarrierArriveOp::verify() {
  return verifyBarrier(*this, getId(), getThreads());
}

/// Verifies that semaphores are a global buffer of 32-bit elements.
static LogicalResult verifySemaphores(Operation *op, BufferType semaphores) {
  if (semaphores.getElementType().isInteger(32) &&
      semaphores.getMemory() == Memory::Global)
    return success();
  return op->emitOpError() << "has semaphores in " << semaphores
                           << ": expected !tile.buffer<i32>";
}

LogicalResult EpochOp::verify() {
  if (getBlocks() < 1 || getBlocks() > 65535)
    return emitOpError() << "has " << static_cast<int64_t>(getBlocks())
                         << " blocks: expected 1 to 65535";
  return verifySemaphores(*this, getSemaphores().getType());
}

LogicalResult SemaphoreOp::verify() {
  return verifySemaphores(*this, getSemaphores().getType());
}

LogicalResult SemaphoreMeetOp::verify() {
  if (static_cast<int64_t>(getArrivals()) < 1)
    return emitOpError() << "has " << static_cast<int64_t>(getArrivals())
                         << " arrivals: expected 1 or more";
  return success();
}
