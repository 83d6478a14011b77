//===- StageOps.cpp - Verifiers of stages ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "stage/IR/StageOps.h"
#include "fuse/IR/FuseClauses.h"
#include "fuse/IR/FuseVerify.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fuse;
using namespace stage;

/// `scales(2.1e-2, 1.3e-3)`, as in `fuse.linear`, or nothing if both scales are
/// operands.
static ParseResult parseFinishScales(OpAsmParser &parser, FloatAttr &input,
                                     FloatAttr &weight) {
  return parseLinearScales(parser, input, weight);
}

static void printFinishScales(OpAsmPrinter &printer, Operation *op,
                              FloatAttr input, FloatAttr weight) {
  if (!input && !weight)
    return;
  auto print = [&](FloatAttr scale, StringRef other) {
    if (scale)
      printNumber(printer, op, scale);
    else
      printer << other;
  };
  printer << " scales(";
  print(input, "dynamic");
  printer << ", ";
  print(weight, "per_channel");
  printer << ")";
}

#define GET_OP_CLASSES
#include "stage/IR/StageOps.cpp.inc"

/// The type of an optional operand, or null.
static RankedTensorType typeOf(Value value) {
  return value ? cast<RankedTensorType>(value.getType()) : RankedTensorType();
}

bool stage::isStage(Operation *op) {
  return isa<RowsOp, ProductOp, ReduceOp>(op);
}

std::optional<StageMapping> stage::getMapping(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<StageMapping>>(op)
      .Case<RowsOp, ProductOp, ReduceOp>(
          [](auto stage) -> std::optional<StageMapping> {
            if (auto mapping = stage.getMappingAttr())
              return StageMapping{mapping.getLaunch(), mapping.getResults()};
            return std::nullopt;
          })
      .Default(std::nullopt);
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// Verifies the arguments and the end of a body.
static LogicalResult verifyBody(Operation *op, Region &body, StringRef name,
                                TypeRange arguments) {
  Block &block = body.front();
  if (block.getArgumentTypes() != arguments)
    return op->emitOpError()
           << name << " has arguments " << block.getArgumentTypes()
           << ", expected " << arguments;
  auto yield = dyn_cast_or_null<stage::YieldOp>(
      block.mightHaveTerminator() ? block.getTerminator() : nullptr);
  if (!yield)
    return op->emitOpError() << name << " must end with stage.yield";
  if (yield.getValues().getTypes() != op->getResultTypes())
    return op->emitOpError()
           << name << " yields " << yield.getValues().getTypes()
           << ", results are " << op->getResultTypes();
  return success();
}

/// Whether `op` reads one row of tokens at a time.
static bool isRowOp(Operation *op) {
  if (auto quantize = dyn_cast<DynamicQuantizeOp>(op))
    return quantize.getScope() != ScaleScope::PerTensor;
  return isa<ResidualAddOp, RMSNormOp, LayerNormOp, ActivationOp, GatedMulOp,
             QuantizeOp, DequantizeOp>(op);
}

LogicalResult RowsOp::verifyRegions() {
  if (failed(verifyBody(*this, getBody(), "the body",
                        TypeRange(getInputs().getTypes()))))
    return failure();
  for (Operation &member : getBody().front().without_terminator()) {
    if (isa<DynamicQuantizeOp>(member) && !isRowOp(&member))
      return emitOpError() << "has 'fuse.dynamic_quantize per_tensor', which "
                              "reads all rows, expected per_token or per_group";
    if (!isRowOp(&member))
      return emitOpError() << "has '" << member.getName()
                           << "', expected fuse.residual_add, fuse.rms_norm, "
                              "fuse.layer_norm, fuse.activation, "
                              "fuse.gated_mul, fuse.quantize, fuse.dequantize "
                              "or fuse.dynamic_quantize";
  }
  return success();
}

LogicalResult stage::verifyEpilogue(Operation *op, Region &epilogue,
                                    TypeRange sums, ValueRange inputs) {
  SmallVector<Type> arguments(sums);
  llvm::append_range(arguments, inputs.getTypes());
  if (failed(verifyBody(op, epilogue, "the epilogue", TypeRange(arguments))))
    return failure();
  Block &block = epilogue.front();
  auto isSum = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argument.getArgNumber() < sums.size();
  };
  for (Operation &member : block) {
    auto finish = dyn_cast<FinishOp>(member);
    if (!finish && !isa<ActivationOp, GatedMulOp, ResidualAddOp, QuantizeOp,
                        DequantizeOp, stage::YieldOp>(member))
      return op->emitOpError()
             << "has '" << member.getName()
             << "' in its epilogue, expected stage.finish, fuse.activation, "
                "fuse.gated_mul, fuse.residual_add, fuse.quantize or "
                "fuse.dequantize";
    if (finish && !isSum(finish.getSum()))
      return finish.emitOpError(
          "finishes a value that is not a sum of its stage");
    for (OpOperand &operand : member.getOpOperands())
      if (isSum(operand.get()) && (!finish || operand.getOperandNumber() != 0))
        return member.emitOpError()
               << "reads sum "
               << cast<BlockArgument>(operand.get()).getArgNumber()
               << " of its stage, which only stage.finish reads";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

int64_t ProductOp::countSlices() {
  if (!getSlice())
    return 1;
  return llvm::divideCeil(getX().getType().getShape().back(), *getSlice());
}

RankedTensorType ProductOp::getSumType(Value weight) {
  SmallVector<int64_t> shape(getX().getType().getShape());
  shape.back() = cast<RankedTensorType>(weight.getType()).getDimSize(0);
  bool isInteger = getX().getType().getElementType().isInteger();
  Builder builder(getContext());
  return RankedTensorType::get(shape, isInteger ? Type(builder.getI32Type())
                                                : builder.getF32Type());
}

LogicalResult ProductOp::verify() {
  auto emitError = [&] { return emitOpError(); };
  if (getWeights().empty())
    return emitOpError("needs a weight");
  RankedTensorType x = getX().getType();
  if (failed(verifyTensor(emitError, "x", x)))
    return failure();
  for (Value weight : getWeights()) {
    auto type = cast<RankedTensorType>(weight.getType());
    if (type.getRank() != 2 || !type.hasStaticShape())
      return emitOpError() << "needs weights of static shape [out, in], got "
                           << type;
    if (failed(verifyLinear(emitError, {x, type, {}, {}, getSumType(weight)})))
      return failure();
  }
  if (!getSlice()) {
    if (getEpilogue().empty())
      return emitOpError("needs an epilogue or 'slices'");
    return success();
  }
  if (static_cast<int64_t>(*getSlice()) < 1)
    return emitOpError() << "has slices of "
                         << static_cast<int64_t>(*getSlice())
                         << " elements, expected at least 1";
  if (!getEpilogue().empty() || !getInputs().empty())
    return emitOpError("has slices, so stage.reduce has the epilogue");
  if (x.getElementType().isInteger())
    return emitOpError() << "of " << x.getElementType()
                         << " has no slices, expected floating-point types";
  SmallVector<Type> expected;
  for (Value weight : getWeights()) {
    RankedTensorType sum = getSumType(weight);
    SmallVector<int64_t> shape = {countSlices()};
    llvm::append_range(shape, sum.getShape());
    expected.push_back(RankedTensorType::get(shape, sum.getElementType()));
  }
  if (getResultTypes() != TypeRange(expected))
    return emitOpError() << "returns " << getResultTypes()
                         << ", its slices have sums " << TypeRange(expected);
  return success();
}

LogicalResult ProductOp::verifyRegions() {
  if (getEpilogue().empty())
    return success();
  SmallVector<Type> sums;
  for (Value weight : getWeights())
    sums.push_back(getSumType(weight));
  if (failed(verifyEpilogue(*this, getEpilogue(), sums, getInputs())))
    return failure();
  for (auto finish : getEpilogue().front().getOps<FinishOp>()) {
    unsigned number = cast<BlockArgument>(finish.getSum()).getArgNumber();
    if (failed(verifyFinish(finish, {getX(), getWeights()[number]})))
      return failure();
  }
  return success();
}

LogicalResult ReduceOp::verifyRegions() {
  SmallVector<Type> sums;
  for (Value partial : getPartials()) {
    auto type = cast<RankedTensorType>(partial.getType());
    if (type.getRank() < 2)
      return emitOpError() << "needs sums with the slices as their first "
                              "dimension, got "
                           << type;
    sums.push_back(RankedTensorType::get(type.getShape().drop_front(),
                                         type.getElementType()));
  }
  if (sums.empty())
    return emitOpError("needs the sums of a product");
  return verifyEpilogue(*this, getEpilogue(), sums, getInputs());
}

//===----------------------------------------------------------------------===//
// FinishOp
//===----------------------------------------------------------------------===//

LogicalResult FinishOp::verify() {
  auto emitError = [&] { return emitOpError(); };
  auto sum = cast<RankedTensorType>(getSum().getType());
  if (failed(verifyTensor(emitError, "sum", sum)) ||
      failed(verifySameShape(emitError, "sum", sum, "y", getY().getType())) ||
      failed(verifyVector(emitError, "bias", typeOf(getBias()), "output",
                          sum.getShape().back())))
    return failure();
  if (getBiasPlace() == BiasPlace::AfterRounding && !getBias())
    return emitOpError("has no bias to add after rounding");
  for (auto [name, scale] : {std::pair("input scale", getInputScaleAttr()),
                             std::pair("weight scale", getWeightScaleAttr())})
    if (scale)
      if (auto problem = getScaleProblem(scale.getValueAsDouble()))
        return emitOpError() << name << " " << *problem << ", got "
                             << scale.getValueAsDouble();
  return success();
}

LogicalResult stage::verifyFinish(FinishOp op, SumOperands operands) {
  auto emitError = [&] { return op.emitOpError(); };
  RankedTensorType x = typeOf(operands.x), weight = typeOf(operands.weight),
                   dynamicScale = typeOf(op.getDynamicScale());
  QuantAttr quant = op.getQuantAttr();
  bool quantized = isQuantized(x.getElementType());
  if (quant && quant.hasBlockSums())
    return op.emitOpError("has sums of blocks, whose scales are in the sum");
  if (failed(verifyLinear(emitError, {x, weight, typeOf(op.getBias()),
                                      typeOf(op.getChannelScale()),
                                      op.getY().getType(), quant})))
    return failure();
  bool hasInput = op.getInputScaleAttr() || dynamicScale,
       hasWeight = op.getWeightScaleAttr() || op.getChannelScale();
  if (!quantized && (hasInput || hasWeight || quant))
    return op.emitOpError("has scales, but its product is one of "
                          "floating-point operands");
  if (!quantized)
    return success();
  if (!hasInput || !hasWeight)
    return op.emitOpError("needs a scale of the input and one of the weight");
  if ((op.getInputScaleAttr() && dynamicScale) ||
      (op.getWeightScaleAttr() && op.getChannelScale()))
    return op.emitOpError("has two scales of its input or its weight");
  SmallVector<int64_t> expected(x.getShape().drop_back());
  if (quant) {
    if (op.getInputScaleAttr() || op.getWeightScaleAttr())
      return op.emitOpError("with 'quant' has its scales as operands");
    if (failed(verifyDynamicInput(emitError, quant, x, x.getElementType())))
      return failure();
    expected = quant.getInputScaleShape(x.getShape());
  }
  bool isSingle = !quant && dynamicScale && dynamicScale.getRank() == 1 &&
                  dynamicScale.getDimSize(0) == 1;
  if (dynamicScale && !isSingle &&
      failed(verifyCompatibleShape(dynamicScale.getShape(), expected)))
    return op.emitOpError()
           << "has 'dynamic_scale' of " << dynamicScale << ", expected "
           << RankedTensorType::get(expected, dynamicScale.getElementType());
  return success();
}
