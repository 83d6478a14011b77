//===- TileOps.cpp - Verifiers of memory and compute ops ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tile/IR/TileOps.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tile;

/// Parses an enumerator as a bare keyword.
template <typename AttrT>
static ParseResult parseKeyword(OpAsmParser &parser, AttrT &attr) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  using Enum = decltype(std::declval<AttrT>().getValue());
  std::optional<Enum> value = symbolizeEnum<Enum>(keyword);
  if (!value)
    return parser.emitError(loc, "unknown keyword '") << keyword << "'";
  attr = AttrT::get(parser.getContext(), *value);
  return success();
}

template <typename AttrT>
static void printKeyword(OpAsmPrinter &printer, Operation *, AttrT attr) {
  printer << stringifyEnum(attr.getValue());
}

#define GET_OP_CLASSES
#include "tile/IR/TileOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

LogicalResult RingCreateOp::verify() {
  int64_t offset = getOffset();
  if (offset < 0 || offset % 1024 != 0)
    return emitOpError() << "lies at byte " << offset
                         << ": expected a multiple of 1024";
  if (static_cast<int64_t>(getConsumers()) < 1 || getConsumers() > 1024)
    return emitOpError() << "has " << static_cast<int64_t>(getConsumers())
                         << " consumers: expected 1 to 1024";
  // The rings define the layout of shared memory, but each must be inside the
  // shared memory of the launch. The kernel is already verified, because an op
  // is verified before the ops in it.
  auto kernel = (*this)->getParentOfType<KernelOp>();
  RingType type = getRing().getType();
  // Unsigned, because the end can exceed the largest signed number.
  uint64_t end = uint64_t(offset) + type.getStages() * type.getBytes();
  if (kernel && end > kernel.getSharedBytes())
    return emitOpError() << "ends at byte " << end
                         << " of shared memory, the kernel has "
                         << kernel.getSharedBytes();
  return success();
}

LogicalResult CopyOp::verify() {
  if (getSource().getType().getMemory() != Memory::Global)
    return emitOpError() << "copies from " << getSource().getType()
                         << ": expected a global buffer";
  if (getMulticast() && (*getMulticast() < 1 || *getMulticast() > 255))
    return emitOpError() << "goes to the blocks of mask "
                         << static_cast<int64_t>(*getMulticast())
                         << ": expected 1 to 255";
  size_t values = getPiece().size();
  if (values != 0 && (values != 2 || getAt()))
    return emitOpError() << "copies a piece of " << values
                         << " values: expected its first byte and its length, "
                            "and neither as an attribute";
  if (getAt().has_value() != getBytes().has_value())
    return emitOpError() << "has only one of 'at' and 'bytes': expected both "
                            "or neither";
  if (!getAt())
    return success();
  int64_t at = *getAt(), bytes = *getBytes();
  int64_t all = getStage().getType().getBytes();
  if (at < 0 || bytes < 16 || at % 16 != 0 || bytes % 16 != 0 ||
      at > all - bytes)
    return emitOpError() << "copies " << bytes << " bytes to byte " << at
                         << " of a stage of " << all
                         << ": expected multiples of 16 inside of it";
  return success();
}

LogicalResult PrefetchOp::verify() {
  if (getSource().getType().getMemory() != Memory::Global)
    return emitOpError() << "fetches from " << getSource().getType()
                         << ": expected a global buffer";
  if (getBytes().has_value() == bool(getLength()))
    return emitOpError() << "fetches a number of bytes: expected it as an "
                            "attribute or as a value";
  int64_t bytes = getBytes().value_or(16);
  if (bytes < 16 || bytes % 16 != 0)
    return emitOpError() << "fetches " << bytes
                         << " bytes: expected a multiple of 16";
  return success();
}

LogicalResult StageBufferOp::verify() {
  if (getBuffer().getType().getMemory() != Memory::Shared)
    return emitOpError() << "makes a " << getBuffer().getType()
                         << ": expected a shared buffer";
  return success();
}

LogicalResult ViewOp::verify() {
  int64_t bytes = getTile().getType().getRows() * 128;
  if (bytes > getStage().getType().getBytes())
    return emitOpError() << "sees " << bytes << " bytes of a stage of "
                         << getStage().getType().getBytes();
  return success();
}

LogicalResult ScratchOp::verify() {
  BufferType type = getBuffer().getType();
  if (type.getMemory() != Memory::Shared)
    return emitOpError() << "makes a " << type << ": expected a shared buffer";
  if (!type.getElementType().isIntOrFloat() ||
      type.getElementType().getIntOrFloatBitWidth() % 8 != 0)
    return emitOpError() << "has elements of type " << type.getElementType()
                         << ": expected whole bytes";
  // Static shared memory is limited to 48 KB, including the mbarriers.
  int64_t most = 32768 / (type.getElementType().getIntOrFloatBitWidth() / 8);
  if (static_cast<int64_t>(getCount()) < 1 ||
      static_cast<int64_t>(getCount()) > most)
    return emitOpError() << "has " << static_cast<int64_t>(getCount())
                         << " elements: expected 1 to " << most;
  return success();
}

LogicalResult SharedBufferOp::verify() {
  if (getBuffer().getType().getMemory() != Memory::Shared)
    return emitOpError() << "makes a " << getBuffer().getType()
                         << ": expected a shared buffer";
  auto offset = static_cast<int64_t>(getOffset());
  if (offset < 0 || offset % 16 != 0)
    return emitOpError() << "begins at byte " << offset
                         << ": expected a multiple of 16";
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (kernel && offset > static_cast<int64_t>(kernel.getSharedBytes()))
    return emitOpError() << "begins at byte " << offset
                         << ", after the shared_bytes of the kernel, "
                         << kernel.getSharedBytes();
  return success();
}

LogicalResult AsyncCopyOp::verify() {
  BufferType source = getSource().getType(), target = getTarget().getType();
  if (source.getMemory() != Memory::Global ||
      target.getMemory() != Memory::Shared)
    return emitOpError() << "copies from a " << source << " to a " << target
                         << ": expected a global and a shared buffer";
  if (source.getElementType() != target.getElementType())
    return emitOpError() << "copies from a " << source << " to a " << target
                         << ": expected equal element types";
  return success();
}

LogicalResult AsyncCopyWaitOp::verify() {
  auto pending = static_cast<int64_t>(getPending());
  if (pending < 0 || pending > 63)
    return emitOpError() << "leaves " << pending
                         << " groups pending: expected 0 to 63";
  return success();
}

/// Whether a vector has the elements that a thread holds of one of `counts`
/// numbers of matrices of eight rows.
static bool isFragments(Type type, ArrayRef<int64_t> counts) {
  auto vector = cast<VectorType>(type);
  Type element = vector.getElementType();
  return isa<BFloat16Type, Float16Type, Float8E4M3FNType>(element) &&
         vector.getRank() == 1 && !vector.isScalable() &&
         llvm::any_of(counts, [&](int64_t count) {
           return vector.getNumElements() * element.getIntOrFloatBitWidth() ==
                  32 * count;
         });
}

LogicalResult LoadMatrixOp::verify() {
  BufferType buffer = getBuffer().getType();
  if (buffer.getMemory() != Memory::Shared)
    return emitOpError() << "loads from a " << buffer
                         << ": expected a shared buffer";
  Type type = getFragments().getType();
  if (!isFragments(type, {1, 2, 4}) ||
      cast<VectorType>(type).getElementType() != buffer.getElementType())
    return emitOpError() << "loads a " << type << " from a " << buffer
                         << ": expected 4, 8 or 16 bytes of its elements, of "
                            "type bf16, f16 or f8E4M3FN";
  return success();
}

/// Verifies an access to one element of `buffer`, or to a vector that one
/// instruction can load or store.
static LogicalResult verifyAccess(Operation *op, BufferType buffer,
                                  Type value) {
  Type element = buffer.getElementType();
  if (value == element && element.isIntOrFloat())
    return success();
  auto vector = dyn_cast<VectorType>(value);
  if (!vector || vector.getElementType() != element || vector.getRank() != 1 ||
      vector.isScalable() || !element.isIntOrFloat())
    return op->emitOpError() << "moves " << value << " for a " << buffer
                             << ": expected its element type or a vector of it";
  int64_t bits = vector.getNumElements() * element.getIntOrFloatBitWidth();
  if (!llvm::is_contained({8, 16, 32, 64, 128}, bits))
    return op->emitOpError()
           << "moves " << bits << " bits: expected 8, 16, 32, 64 or 128";
  return success();
}

LogicalResult LoadOp::verify() {
  return verifyAccess(*this, getBuffer().getType(), getValue().getType());
}

LogicalResult StoreOp::verify() {
  return verifyAccess(*this, getBuffer().getType(), getValue().getType());
}

LogicalResult CollectOp::verify() {
  BufferType buffer = getBuffer().getType();
  if (buffer.getMemory() != Memory::Global)
    return emitOpError() << "waits for vectors of a " << buffer
                         << ": expected a global buffer";
  if (getIndices().size() != getValues().size())
    return emitOpError() << "has " << getIndices().size() << " indices for "
                         << getValues().size() << " vectors";
  for (Value value : getValues()) {
    if (failed(verifyAccess(*this, buffer, value.getType())))
      return failure();
    Type type = value.getType();
    if (!cast<VectorType>(type).getElementType().isF32())
      return emitOpError() << "waits for a " << type
                           << ": expected a vector of f32";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Compute
//===----------------------------------------------------------------------===//

LogicalResult MmaOp::verify() {
  SharedType lhs = getLhs().getType(), rhs = getRhs().getType();
  AccType acc = getAcc().getType();
  if (lhs.getElementType() != rhs.getElementType())
    return emitOpError() << "multiplies " << lhs.getElementType() << " by "
                         << rhs.getElementType();
  if (lhs.getRows() != acc.getRows() || rhs.getRows() != acc.getColumns())
    return emitOpError() << "multiplies " << lhs.getRows() << " rows by "
                         << rhs.getRows() << " rows into " << acc;
  return success();
}

LogicalResult MmaSyncOp::verify() {
  Type lhs = getLhs().getType();
  if (!isFragments(lhs, {4}))
    return emitOpError() << "has a left operand " << lhs
                         << ": expected 16 bytes of bf16, f16 or f8E4M3FN";
  int64_t columns = 0;
  for (Value rhs : getRhs()) {
    auto type = cast<VectorType>(rhs.getType());
    if (!isFragments(type, {2, 4}) ||
        type.getElementType() != cast<VectorType>(lhs).getElementType())
      return emitOpError() << "has a right operand " << type
                           << ": expected 8 or 16 bytes of the type of the "
                              "left one";
    columns += type.getNumElements() *
               type.getElementType().getIntOrFloatBitWidth() / 8;
  }
  AccType acc = getAcc().getType();
  if (columns != acc.getColumns())
    return emitOpError() << "multiplies by " << columns << " rows into " << acc;
  return success();
}

LogicalResult MmaWaitOp::verify() {
  if (static_cast<int64_t>(getPending()) < 0 || getPending() > 7)
    return emitOpError() << "leaves " << static_cast<int64_t>(getPending())
                         << " groups pending: expected 0 to 7";
  return success();
}

ParseResult AccValuesOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand operand;
  AccType type;
  if (parser.parseOperand(operand) ||
      parser.parseOptionalAttrDict(result.attributes) || parser.parseColon() ||
      parser.parseType(type) ||
      parser.resolveOperand(operand, type, result.operands))
    return failure();
  result.addTypes(
      SmallVector<Type>(type.getNumRegisters(), type.getElementType()));
  return success();
}

void AccValuesOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getAcc();
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getAcc().getType();
}

LogicalResult AccValuesOp::verify() {
  int64_t count = getAcc().getType().getNumRegisters();
  if (count != static_cast<int64_t>(getNumResults()))
    return emitOpError() << "has " << getNumResults() << " results for "
                         << count << " registers";
  return success();
}

LogicalResult ReduceOp::verify() {
  int64_t first = getFirst(), last = getLast();
  if (first < 0 || last <= first || last > 32)
    return emitOpError() << "is over warps " << first << " to " << last
                         << ": expected a range inside 0 to 32";
  BufferType scratch = getScratch().getType();
  if (scratch.getMemory() != Memory::Shared ||
      !scratch.getElementType().isF32())
    return emitOpError() << "has scratch of type " << scratch
                         << ": expected !tile.buffer<f32, shared>";
  // If the defining op follows this op, which is an error, it is not verified
  // yet.
  auto create = getScratch().getDefiningOp<ScratchOp>();
  Operation *here =
      create ? create->getBlock()->findAncestorOpInBlock(**this) : nullptr;
  if (here && create->isBeforeInBlock(here))
    if (static_cast<int64_t>(create.getCount()) < last - first)
      return emitOpError() << "has scratch of " << create.getCount()
                           << " elements for " << last - first << " warps";
  if (static_cast<int64_t>(getBarrier()) < 0 || getBarrier() > 15)
    return emitOpError() << "has barrier " << static_cast<int64_t>(getBarrier())
                         << ": expected 0 to 15";
  return success();
}

LogicalResult LaneMaxOp::verify() {
  auto lanes = static_cast<int64_t>(getLanes());
  if (lanes < 1 || lanes > 31)
    return emitOpError() << "has lanes " << lanes << ": expected 1 to 31";
  return success();
}

LogicalResult PackOp::verify() {
  auto type = cast<VectorType>(getVector().getType());
  if (!isa<Float32Type, BFloat16Type, Float16Type, Float8E4M3FNType,
           Float8E5M2Type>(type.getElementType()))
    return emitOpError() << "makes a " << type
                         << ": expected elements of f32, bf16, f16, f8E4M3FN "
                            "or f8E5M2";
  int64_t count = getValues().size();
  if (type.getRank() != 1 || type.isScalable() ||
      type.getNumElements() != count)
    return emitOpError() << "makes a " << type << " of " << count << " values";
  if (count != 1 && count % 2 != 0)
    return emitOpError() << "has " << count
                         << " values: expected one or an even number";
  return success();
}

LogicalResult MarkOp::verify() {
  auto type = cast<VectorType>(getVector().getType());
  if (!type.getElementType().isF32() || type.getRank() != 1 ||
      type.isScalable())
    return emitOpError() << "has a " << type
                         << ": expected one static dimension of f32";
  return success();
}

ParseResult UnpackOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand operand;
  VectorType type;
  if (parser.parseOperand(operand) ||
      parser.parseOptionalAttrDict(result.attributes) || parser.parseColon() ||
      parser.parseType(type) ||
      parser.resolveOperand(operand, type, result.operands))
    return failure();
  if (type.getRank() != 1 || type.isScalable())
    return parser.emitError(parser.getNameLoc(), "expected a vector of one "
                                                 "static dimension, got ")
           << type;
  if (type.getNumElements() > UnpackOp::kMostElements)
    return parser.emitError(parser.getNameLoc(), "has a ")
           << type << ": expected at most " << UnpackOp::kMostElements
           << " elements, which are registers of one thread";
  result.addTypes(SmallVector<Type>(type.getNumElements(),
                                    parser.getBuilder().getF32Type()));
  return success();
}

void UnpackOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getVector();
  printer.printOptionalAttrDict((*this)->getAttrs());
  printer << " : " << getVector().getType();
}

LogicalResult UnpackOp::verify() {
  auto type = cast<VectorType>(getVector().getType());
  if (!isa<Float32Type, BFloat16Type, Float16Type>(type.getElementType()) ||
      type.getRank() != 1 || type.isScalable() ||
      (type.getNumElements() != 1 && type.getNumElements() % 2 != 0))
    return emitOpError() << "has a " << type
                         << ": expected one or an even number of bf16, f16 or "
                            "f32";
  if (type.getNumElements() != static_cast<int64_t>(getNumResults()))
    return emitOpError() << "has " << getNumResults() << " results for "
                         << type.getNumElements() << " elements";
  return success();
}
