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
  }
  llvm_unreachable("unknown granularity");
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
                                    "tensor, channel, block"))
      return failure();
    return weights == ScaleGranularity::Block
               ? parseBlock(parser, blockRows, blockColumns)
               : success();
  }
  if (name == "activations") {
    if (parseCase<ScaleScope>(parser, "scope", activations, symbolizeScaleScope,
                              "per_token, per_tensor, per_group"))
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
  return parser.emitError(loc)
         << "unknown field '" << name
         << "'; expected one of weights, activations, floor, upper, scale_op, "
            "order, sums";
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
      fields.scaleOp, fields.order, fields.sumLength);
}

void QuantAttr::printBody(AsmPrinter &printer) const {
  printer << getStorageType()
          << ", weights = " << stringifyScaleGranularity(getWeights());
  if (getWeights() == ScaleGranularity::Block)
    printer << "<" << getBlockRows() << "x" << getBlockColumns() << ">";
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

LogicalResult QuantAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                Type storage, ScaleGranularity weights,
                                int64_t blockRows, int64_t blockColumns,
                                ScaleScope activations, int64_t groupSize,
                                ScaleFloor, FloatAttr floor, FloatAttr upper,
                                QuantOrder, QuantOrder, int64_t sumLength) {
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
