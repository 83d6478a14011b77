//===- KernelBuilder.cpp - What emitters of kernels share -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

int64_t KernelBuilder::indexOf(Value operand) {
  return llvm::find(op->getOperands(), operand) - op->operand_begin();
}

void KernelBuilder::addOperand(Value &slot, Value operand) {
  if (!operand)
    return;
  auto type = cast<RankedTensorType>(operand.getType());
  addArgument(slot, bufferOf(type.getElementType()),
              OperandAttr::get(builder.getContext(), indexOf(operand)));
}

void KernelBuilder::addResult(Value &slot, int64_t index) {
  auto type = cast<RankedTensorType>(op->getResult(index).getType());
  addArgument(slot, bufferOf(type.getElementType()),
              ResultAttr::get(builder.getContext(), index));
}

tile::KernelOp KernelBuilder::begin(StringRef name, int64_t blocks,
                                    int64_t threads, int64_t sharedBytes,
                                    bool cooperative) {
  auto kernel = tile::KernelOp::create(
      builder, loc, builder.getStringAttr(name),
      TypeAttr::get(builder.getFunctionType(types, {})), ArrayAttr(),
      ArrayAttr(), builder.getI64IntegerAttr(blocks),
      builder.getI64IntegerAttr(threads),
      builder.getI64IntegerAttr(sharedBytes),
      cooperative ? builder.getUnitAttr() : UnitAttr());
  Block *body = builder.createBlock(&kernel.getBody());
  for (auto [type, slot] : llvm::zip_equal(types, slots))
    *slot = body->addArgument(type, loc);
  return kernel;
}

PlanAttr KernelBuilder::getPlan(tile::KernelOp kernel, const PlanParts &parts) {
  return PlanAttr::get(
      builder.getContext(), kernel.getBlocks(), kernel.getThreads(),
      kernel.getSharedBytes(), kernel.getCluster(), kernel.getCooperative(),
      parts.dependent, parts.carveout, parts.maxTokens, parts.workspace,
      parts.sharesWorkspace, builder.getArrayAttr(plans));
}

void KernelBuilder::addQuantizer(Value &slot, ScaleName name,
                                 StaticScalesAttr scales) {
  float scale = scales.getScale(name).value_or(1);
  if (scales.getOrder() == QuantOrder::Divide)
    return addProduct(slot, name.toText(), {scale});
  addArgument(slot, f32,
              ScalarAttr::get(builder.getContext(), name.toText(),
                              builder.getF32FloatAttr(1.0f / scale),
                              /*factors=*/nullptr,
                              builder.getF32FloatAttr(scale)));
}

void KernelBuilder::addProduct(Value &slot, StringRef name,
                               ArrayRef<float> scales) {
  float value = scales.front();
  for (float scale : scales.drop_front())
    value *= scale;
  addArgument(slot, f32,
              ScalarAttr::get(builder.getContext(), name,
                              builder.getF32FloatAttr(value),
                              builder.getF32ArrayAttr(scales),
                              /*divisor=*/nullptr));
}

Value KernelBuilder::quantize(ArrayRef<Value> values, Value scale,
                              StaticScalesAttr scales, Type element) {
  if (!scales)
    return pack(narrowType, values);
  bool divides = scales.getOrder() == QuantOrder::Divide;
  return pack(element, each(values, [&](Value v) {
                return divides ? fdiv(v, scale) : fmul(v, scale);
              }));
}

Value KernelBuilder::activate(Activation activation, Value v) {
  // v / (1 + 2^z), with the hardware's power and reciprocal: their error is
  // far below the rounding to bf16 that follows.
  auto divide = [&](Value z) -> Value {
    Value e = Exp2Op::create(builder, loc, f32, z);
    return fmul(
        v, ReciprocalOp::create(builder, loc, f32, fadd(e, constantF32(1))));
  };
  constexpr float kLog2e = 1.44269504f;
  switch (activation) {
  case Activation::SiLU:
    return divide(fmul(v, constantF32(-kLog2e)));
  case Activation::QuickGELU:
    return divide(fmul(v, constantF32(-1.702f * kLog2e)));
  case Activation::GELUTanh: {
    // v/2 (1 + tanh(z)) = v / (1 + exp(-2z)), which keeps its relative
    // accuracy for very negative v; z = sqrt(2 / pi) (v + 0.044715 v^3).
    constexpr float kLinear = -1.59576912f * kLog2e;
    Value factor = math::FmaOp::create(builder, loc, fmul(v, v),
                                       constantF32(0.044715f * kLinear),
                                       constantF32(kLinear));
    return divide(fmul(v, factor));
  }
  case Activation::GELU: {
    Value erf =
        math::ErfOp::create(builder, loc, fmul(v, constantF32(0.707106781f)));
    return fmul(fmul(v, constantF32(0.5f)), fadd(erf, constantF32(1)));
  }
  case Activation::ReLU:
    return arith::MaximumFOp::create(builder, loc, v, constantF32(0));
  case Activation::ReLU2: {
    Value r = arith::MaximumFOp::create(builder, loc, v, constantF32(0));
    return fmul(r, r);
  }
  }
  return v;
}
