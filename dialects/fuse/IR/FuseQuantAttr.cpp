//===- FuseQuantAttr.cpp - Arithmetic of dynamic scales -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseOps.h"
#include "fuse/IR/FuseParsing.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fuse;

SmallVector<int64_t> QuantAttr::getWeightScaleShape(int64_t out,
                                                    int64_t in) const {
  switch (getWeights()) {
  case ScaleGranularity::Tensor:
    return {1};
  case ScaleGranularity::Channel:
    return {out};
  case ScaleGranularity::Block:
    return {llvm::divideCeilSigned(out, getBlockRows()),
            llvm::divideCeilSigned(in, getBlockColumns())};
  case ScaleGranularity::Group:
    return {out, in / getBlockColumns()};
  }
  llvm_unreachable("unknown granularity");
}

Type QuantAttr::getScaleOperandType() const {
  if (!isPacked())
    return Float32Type::get(getContext());
  // Buffers of 8-bit exponents are those of bytes.
  if (isa<Float8E8M0FNUType>(getScaleType()))
    return IntegerType::get(getContext(), 8);
  return getScaleType();
}

unsigned QuantAttr::getNumScaleOperands() const {
  return 1 + getHasGroupZeros() + (getTensorScale() != TensorScale::None);
}

SmallVector<int64_t>
QuantAttr::getInputScaleShape(ArrayRef<int64_t> shape) const {
  if (getActivations() == ScaleScope::PerTensor)
    return {1};
  SmallVector<int64_t> scales(shape.drop_back());
  if (getActivations() == ScaleScope::PerGroup)
    scales.push_back(shape.back() / getGroupSize());
  return scales;
}

//===----------------------------------------------------------------------===//
// Syntax
//===----------------------------------------------------------------------===//

Attribute QuantAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  Attribute attr = parseBody(parser);
  if (!attr || parser.parseGreater())
    return {};
  return attr;
}

void QuantAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printBody(printer);
  printer << ">";
}

/// Parses `<128>`.
static ParseResult parseSize(AsmParser &parser, int64_t &size) {
  return failure(parser.parseLess() || parser.parseInteger(size) ||
                 parser.parseGreater());
}

/// Parses `<128x128>`.
static ParseResult parseBlock(AsmParser &parser, int64_t &rows,
                              int64_t &columns) {
  SmallVector<int64_t> sizes;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess() ||
      parser.parseDimensionList(sizes, /*allowDynamic=*/false,
                                /*withTrailingX=*/false) ||
      parser.parseGreater())
    return failure();
  if (sizes.size() != 2)
    return parser.emitError(loc)
           << "expected a block of two sizes, such as 128x128, got "
           << sizes.size();
  rows = sizes[0];
  columns = sizes[1];
  return success();
}

/// Parses `<32, f8E8M0FNU>`.
static ParseResult parseGroup(AsmParser &parser, int64_t &size, Type &scale) {
  return failure(parser.parseLess() || parser.parseInteger(size) ||
                 parser.parseComma() || parser.parseType(scale) ||
                 parser.parseGreater());
}

namespace {

/// The parameters of the attribute while they are parsed.
struct QuantFields {
  Type storage;
  ScaleGranularity weights = ScaleGranularity::Tensor;
  int64_t blockRows = 0, blockColumns = 0;
  ScaleScope activations = ScaleScope::PerToken;
  int64_t groupSize = 0;
  ScaleFloor floorKind = ScaleFloor::Scale;
  FloatAttr floor, upper;
  QuantOrder scaleOp = QuantOrder::Divide, order = QuantOrder::Reciprocal;
  int64_t sumLength = 0;
  Type scaleType;
  std::optional<int64_t> zeroPoint;
  bool hasGroupZeros = false;
  TensorScale tensorScale = TensorScale::None;

  ParseResult parseField(AsmParser &parser, StringRef name, SMLoc loc);
};

} // namespace

static ParseResult parseF64(AsmParser &parser, FloatAttr &number) {
  double value;
  if (parser.parseFloat(value))
    return failure();
  number = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

ParseResult QuantFields::parseField(AsmParser &parser, StringRef name,
                                    SMLoc loc) {
  constexpr StringLiteral orders = "reciprocal, divide";
  if (name == "weights") {
    if (parseCase<ScaleGranularity>(parser, "granularity", weights,
                                    symbolizeScaleGranularity,
                                    "tensor, channel, block, group"))
      return failure();
    if (weights == ScaleGranularity::Group)
      return parseGroup(parser, blockColumns, scaleType);
    return weights == ScaleGranularity::Block
               ? parseBlock(parser, blockRows, blockColumns)
               : success();
  }
  if (name == "activations") {
    if (parseCase<ScaleScope>(parser, "scope", activations, symbolizeScaleScope,
                              "per_token, per_tensor, per_group, none"))
      return failure();
    return activations == ScaleScope::PerGroup ? parseSize(parser, groupSize)
                                               : success();
  }
  if (name == "floor")
    return failure(parseCase<ScaleFloor>(parser, "floor", floorKind,
                                         symbolizeScaleFloor, "scale, amax") ||
                   parser.parseLess() || parseF64(parser, floor) ||
                   parser.parseGreater());
  if (name == "upper")
    return parseF64(parser, upper);
  if (name == "scale_op")
    return parseCase<QuantOrder>(parser, name, scaleOp, symbolizeQuantOrder,
                                 orders);
  if (name == "order")
    return parseCase<QuantOrder>(parser, name, order, symbolizeQuantOrder,
                                 orders);
  if (name == "sums") {
    if (succeeded(parser.parseOptionalKeyword("whole")))
      return success();
    return failure(parser.parseKeyword("block", ": expected whole or block") ||
                   parseSize(parser, sumLength));
  }
  if (name == "zero_points") {
    int64_t number;
    OptionalParseResult parsed = parser.parseOptionalInteger(number);
    if (parsed.has_value()) {
      zeroPoint = number;
      return *parsed;
    }
    hasGroupZeros = true;
    return parser.parseKeyword("group", ": expected group or a number");
  }
  if (name == "tensor_scale")
    return parseCase<TensorScale>(parser, name, tensorScale,
                                  symbolizeTensorScale,
                                  "none, multiply, divide");
  return parser.emitError(loc)
         << "unknown field '" << name
         << "'; expected one of weights, activations, floor, upper, scale_op, "
            "order, sums, zero_points, tensor_scale";
}

Attribute QuantAttr::parseBody(AsmParser &parser) {
  QuantFields fields;
  fields.floor = parser.getBuilder().getF64FloatAttr(0x1p-64);
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<StringRef> seen;
  if (parser.parseType(fields.storage))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef name;
    SMLoc nameLoc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return {};
    if (llvm::is_contained(seen, name)) {
      parser.emitError(nameLoc) << "field '" << name << "' is given twice";
      return {};
    }
    seen.push_back(name);
    if (fields.parseField(parser, name, nameLoc))
      return {};
  }
  for (StringRef name : {"weights", "activations"})
    if (!llvm::is_contained(seen, name)) {
      parser.emitError(loc) << "expected the field '" << name << "'";
      return {};
    }
  return parser.getChecked<QuantAttr>(
      loc, parser.getContext(), fields.storage, fields.weights,
      fields.blockRows, fields.blockColumns, fields.activations,
      fields.groupSize, fields.floorKind, fields.floor, fields.upper,
      fields.scaleOp, fields.order, fields.sumLength, fields.scaleType,
      fields.zeroPoint, fields.hasGroupZeros, fields.tensorScale);
}

void QuantAttr::printBody(AsmPrinter &printer) const {
  printer << getStorageType()
          << ", weights = " << stringifyScaleGranularity(getWeights());
  if (getWeights() == ScaleGranularity::Block)
    printer << "<" << getBlockRows() << "x" << getBlockColumns() << ">";
  if (isPacked())
    printer << "<" << getBlockColumns() << ", " << getScaleType() << ">";
  if (getHasGroupZeros())
    printer << ", zero_points = group";
  else if (getZeroPoint())
    printer << ", zero_points = " << *getZeroPoint();
  if (getTensorScale() != TensorScale::None)
    printer << ", tensor_scale = " << stringifyTensorScale(getTensorScale());
  printer << ", activations = " << stringifyScaleScope(getActivations());
  if (getActivations() == ScaleScope::PerGroup)
    printer << "<" << getGroupSize() << ">";
  if (getFloorKind() != ScaleFloor::Scale ||
      getFloor().getValueAsDouble() != 0x1p-64) {
    printer << ", floor = " << stringifyScaleFloor(getFloorKind()) << "<";
    printShortest(printer, getFloor());
    printer << ">";
  }
  if (getUpper()) {
    printer << ", upper = ";
    printShortest(printer, getUpper());
  }
  if (getScaleOp() != QuantOrder::Divide)
    printer << ", scale_op = " << stringifyQuantOrder(getScaleOp());
  if (getOrder() != QuantOrder::Reciprocal)
    printer << ", order = " << stringifyQuantOrder(getOrder());
  if (hasBlockSums())
    printer << ", sums = block<" << getSumLength() << ">";
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Verifies the fields of weights of 4 bits.
static LogicalResult verifyPacked(function_ref<InFlightDiagnostic()> emitError,
                                  Type storage, int64_t rows, int64_t groupSize,
                                  ScaleScope activations, Type scale,
                                  std::optional<int64_t> zeroPoint,
                                  bool hasGroupZeros, TensorScale tensorScale) {
  if (!isa<Float4E2M1FNType>(storage) && !storage.isSignlessInteger(4) &&
      !storage.isUnsignedInteger(4))
    return emitError() << "storage type with weights = group must be f4E2M1FN, "
                          "i4 or ui4, got "
                       << storage;
  // A byte has the codes of two inputs.
  if (rows != 0 || groupSize <= 0 || groupSize % 2 != 0)
    return emitError() << "size of a group of a weight must be positive and "
                          "even, got "
                       << groupSize;
  if (!isa_and_nonnull<Float32Type, BFloat16Type, Float16Type, Float8E4M3FNType,
                       Float8E8M0FNUType>(scale))
    return emitError() << "type of the scales of a group must be f32, bf16, "
                          "f16, f8E4M3FN or f8E8M0FNU, got "
                       << scale;
  if (activations != ScaleScope::None)
    return emitError() << "weights = group needs activations = none, got "
                       << stringifyScaleScope(activations);
  bool hasZero = zeroPoint || hasGroupZeros;
  if (hasZero != storage.isUnsignedInteger(4))
    return emitError() << "'zero_points' must be given with ui4 and with no "
                          "other type, got "
                       << storage;
  if (zeroPoint && (hasGroupZeros || *zeroPoint < 0 || *zeroPoint > 15))
    return emitError() << "a zero point must be a code of 0 to 15, got "
                       << *zeroPoint;
  if (tensorScale != TensorScale::None && hasZero)
    return emitError() << "'tensor_scale' needs a type without zero points, "
                          "got "
                       << storage;
  return success();
}

LogicalResult QuantAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                Type storage, ScaleGranularity weights,
                                int64_t blockRows, int64_t blockColumns,
                                ScaleScope activations, int64_t groupSize,
                                ScaleFloor, FloatAttr floor, FloatAttr upper,
                                QuantOrder, QuantOrder, int64_t sumLength,
                                Type scaleType,
                                std::optional<int64_t> zeroPoint,
                                bool hasGroupZeros, TensorScale tensorScale) {
  if (weights == ScaleGranularity::Group) {
    if (groupSize != 0 || upper || sumLength != 0)
      return emitError() << "weights = group quantizes no activations, so it "
                            "has no 'upper' and no 'sums'";
    return verifyPacked(emitError, storage, blockRows, blockColumns,
                        activations, scaleType, zeroPoint, hasGroupZeros,
                        tensorScale);
  }
  if (scaleType || zeroPoint || hasGroupZeros ||
      tensorScale != TensorScale::None)
    return emitError() << "'zero_points' and 'tensor_scale' need weights = "
                          "group, got "
                       << stringifyScaleGranularity(weights);
  if (activations == ScaleScope::None)
    return emitError() << "activations = none needs weights = group, got "
                       << stringifyScaleGranularity(weights);
  bool isFloat = isa<Float8E4M3FNType, Float8E5M2Type>(storage);
  if (!isFloat && !storage.isSignlessInteger(8))
    return emitError() << "storage type must be f8E4M3FN, f8E5M2 or i8, got "
                       << storage;
  bool isBlock = weights == ScaleGranularity::Block;
  bool isGroup = activations == ScaleScope::PerGroup;
  if (isBlock ? blockRows <= 0 || blockColumns <= 0
              : blockRows != 0 || blockColumns != 0)
    return emitError() << "sizes of a block must be positive with weights = "
                          "block and zero otherwise, got "
                       << blockRows << "x" << blockColumns;
  if (isGroup ? groupSize <= 0 : groupSize != 0)
    return emitError() << "size of a group must be positive with activations = "
                          "per_group and zero otherwise, got "
                       << groupSize;
  for (auto [name, limit] :
       {std::pair<StringRef, FloatAttr>{"floor", floor}, {"upper", upper}}) {
    if (!limit && name == "upper")
      continue;
    if (!limit || !limit.getType().isF64())
      return emitError() << "'" << name << "' must be an f64";
    if (auto problem = getScaleProblem(limit.getValueAsDouble()))
      return emitError() << "'" << name << "' " << *problem << ", got "
                         << limit.getValueAsDouble();
  }
  if (upper && upper.getValueAsDouble() < floor.getValueAsDouble())
    return emitError() << "'upper' must not be below 'floor', got "
                       << upper.getValueAsDouble() << " and "
                       << floor.getValueAsDouble();
  if (sumLength < 0)
    return emitError() << "length of a block of a sum must be positive, got "
                       << sumLength;
  // Scales that vary along the sum cannot be applied to the whole sum.
  if ((isBlock || isGroup) != (sumLength != 0))
    return emitError() << (sumLength ? "sums = block needs scales per block or "
                                       "group"
                                     : "scales per block or group need sums = "
                                       "block");
  if (sumLength != 0 && !isFloat)
    return emitError() << "sums = block needs an 8-bit float, got " << storage;
  for (int64_t size : {blockColumns, groupSize})
    if (sumLength != 0 && size % sumLength != 0)
      return emitError() << "a block of a sum must not cross scales: "
                         << sumLength << " does not divide " << size;
  return success();
}
