//===- DecodeProblem.cpp - What a decode kernel has to do -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/DecodeProblem.h"

using namespace mlir;
using namespace fuse;

static constexpr int64_t kTileRows = 256;
static constexpr int64_t kStepBytes = 128;
static constexpr int64_t kMaxTokens = 128;
/// A thread keeps its part of a token row in registers.
static constexpr int64_t kMaxWidth = 16384;

int64_t DecodeProblem::getWeightBytes() const {
  return ((isGated() ? 2 : 1) * width + output) * hidden * getElementBytes();
}

bool DecodeProblem::roundsAt(StringRef point) const {
  if (rounding.getMode() == RoundingMode::Relaxed)
    for (StringAttr skipped : rounding.getSkip())
      if (skipped.getValue() == point)
        return false;
  Type type = rounding.getTypeOf(
      point, cast<RankedTensorType>(x.getType()).getElementType());
  return type.isBF16();
}

static Type getElement(Value value) {
  return cast<RankedTensorType>(value.getType()).getElementType();
}

template <typename OpT>
static void describeCommon(OpT op, DecodeProblem &problem) {
  problem.op = op;
  problem.x = op.getX();
  problem.residual = op.getResidual();
  problem.normWeight = op.getNormWeight();
  problem.normBias = op.getNormBias();
  problem.up = op.getUp();
  problem.upBias = op.getUpBias();
  problem.down = op.getDown();
  problem.downBias = op.getDownBias();
  problem.outputResidual = op.getOutputResidual();
  problem.norm = op.getNormAttr();
  problem.scales = op.getScalesAttr();
  problem.rounding = op.getRounding();
  problem.activation = op.getActivation();
  problem.addStream = op.getAddStream();
  problem.returnsStream = op.getOutputs().size() > 1;
}

/// The first reason why the kernel can not do `problem`, or an empty string.
static std::string getProblem(const DecodeProblem &problem) {
  auto print = [](Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  };
  if (!getElement(problem.x).isBF16())
    return "the input is " + print(getElement(problem.x)) + ", not bf16";
  for (Value value : {problem.residual, problem.normWeight, problem.normBias,
                      problem.gateBias, problem.upBias, problem.downBias,
                      problem.outputResidual})
    if (value && !getElement(value).isBF16())
      return "an operand is " + print(getElement(value)) + ", not bf16";
  for (Value result : problem.op->getResults())
    if (!getElement(result).isBF16())
      return "a result is " + print(getElement(result)) + ", not bf16";
  for (Value weight : {problem.gate, problem.up, problem.down}) {
    if (!weight)
      continue;
    Type type = getElement(weight);
    if (problem.scales ? !isa<Float8E4M3FNType>(type) : !type.isBF16())
      return "a weight is " + print(type) + ", not " +
             (problem.scales ? "f8E4M3FN" : "bf16");
  }
  if (StaticScalesAttr scales = problem.scales) {
    if (!isa<Float8E4M3FNType>(scales.getStorageType()))
      return "activations are quantized to " + print(scales.getStorageType()) +
             ", not f8E4M3FN";
    if (scales.getNumPerChannel() != 0)
      return "a weight has one scale per channel";
    if (scales.getForm() != QuantForm::Scaled)
      return "the chain dequantizes operands before its products";
  }
  if (problem.rounding.getBiasPlace() != BiasPlace::BeforeRounding)
    return "a bias is added after rounding";
  for (StringRef point :
       {"stream", "normed", "gate", "up", "act", "product", "down"}) {
    Type type = problem.rounding.getTypeOf(point, getElement(problem.x));
    if (!type.isBF16() && !type.isF32())
      return ("the intermediate '" + point + "' is " + print(type) +
              ", not bf16 or f32")
          .str();
  }
  if (problem.residual && !problem.roundsAt("stream"))
    return "the stream is kept in f32";
  struct Width {
    StringRef name;
    int64_t value;
  };
  for (Width width :
       {Width{"input", problem.width}, Width{"hidden", problem.hidden},
        Width{"output", problem.output}})
    if (width.value % 16 != 0)
      return ("the " + width.name + " width " + Twine(width.value) +
              " is not a multiple of 16")
          .str();
  if (std::max(problem.width, problem.output) > kMaxWidth)
    return ("a width of " + Twine(std::max(problem.width, problem.output)) +
            " is more than " + Twine(kMaxWidth))
        .str();
  if (problem.tokens && *problem.tokens > kMaxTokens)
    return (Twine(*problem.tokens) + " tokens are more than " +
            Twine(kMaxTokens))
        .str();
  if (problem.tokens && *problem.tokens == 0)
    return "there is no token";
  return "";
}

std::optional<DecodeProblem> fuse::describeDecode(Operation *op,
                                                  std::string &reason) {
  DecodeProblem problem;
  if (auto mlp = dyn_cast<GatedMLPOp>(op)) {
    describeCommon(mlp, problem);
    problem.gate = mlp.getGate();
    problem.gateBias = mlp.getGateBias();
  } else if (auto mlp = dyn_cast<MLPOp>(op)) {
    describeCommon(mlp, problem);
  } else {
    reason =
        ("there is no decode kernel for " + op->getName().getStringRef()).str();
    return std::nullopt;
  }
  auto x = cast<RankedTensorType>(problem.x.getType());
  auto up = cast<RankedTensorType>(problem.up.getType());
  auto down = cast<RankedTensorType>(problem.down.getType());
  problem.width = up.getDimSize(1);
  problem.hidden = up.getDimSize(0);
  problem.output = down.getDimSize(0);
  ArrayRef<int64_t> leading = x.getShape().drop_back();
  if (llvm::none_of(leading, ShapedType::isDynamic)) {
    int64_t tokens = 1;
    for (int64_t size : leading)
      tokens *= size;
    problem.tokens = tokens;
  }
  reason = getProblem(problem);
  if (!reason.empty())
    return std::nullopt;
  return problem;
}

DecodeTiling::DecodeTiling(const DecodeProblem &problem,
                           tile::ScheduleAttr schedule) {
  int64_t bytes = problem.getElementBytes();
  hiddenPerTile = problem.isGated() ? kTileRows / 2 : kTileRows;
  tiles1 = llvm::divideCeil(problem.hidden, hiddenPerTile);
  steps1 = llvm::divideCeil(problem.width * bytes, kStepBytes);
  tiles2 = llvm::divideCeil(problem.output, kTileRows);
  steps2 = llvm::divideCeil(problem.hidden * bytes, kStepBytes);
  // Ranges are whole tiles of the first product, so that each tile has one
  // word to arrive at.
  tilesPerRange = llvm::divideCeil(tiles1, schedule.getSplit());
  stepsPerRange = tilesPerRange * hiddenPerTile * bytes / kStepBytes;
  ranges = llvm::divideCeil(tiles1, tilesPerRange);
}
