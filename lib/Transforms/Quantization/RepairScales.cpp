//===- RepairScales.cpp - Unify scales of gate and up projections ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gate and up projections often have different weight scales, which kernels
// that store both as one matrix do not support. By default, weights keep their
// scales. With `requantize`, the weight with the smaller scale is requantized
// to the larger one, where nothing saturates; the remark states the error
// bound. The input of both may be quantized twice, with different scales. With
// `largest`, both read the value that is quantized with the larger scale.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/StringSwitch.h"

namespace fuse {
#define GEN_PASS_DEF_REPAIRSCALESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-repair-scales"

using namespace mlir;
using namespace fuse;

namespace {

enum class Unequal { Keep, Requantize, Refuse };
enum class UnequalInputs { Keep, Largest, Refuse };

/// The projections of a gated product.
struct Projections {
  LinearOp gate, up;
};

} // namespace

static std::optional<Unequal> symbolizeUnequal(StringRef name) {
  return llvm::StringSwitch<std::optional<Unequal>>(name)
      .Case("keep", Unequal::Keep)
      .Case("requantize", Unequal::Requantize)
      .Case("refuse", Unequal::Refuse)
      .Default(std::nullopt);
}

static std::optional<UnequalInputs> symbolizeInputs(StringRef name) {
  return llvm::StringSwitch<std::optional<UnequalInputs>>(name)
      .Case("keep", UnequalInputs::Keep)
      .Case("largest", UnequalInputs::Largest)
      .Case("refuse", UnequalInputs::Refuse)
      .Default(std::nullopt);
}

/// The projections of `product`, if both read stored values.
static std::optional<Projections> getProjections(GatedMulOp product) {
  for (auto [first, second] : {std::pair(product.getLhs(), product.getRhs()),
                               std::pair(product.getRhs(), product.getLhs())}) {
    auto act = first.getDefiningOp<ActivationOp>();
    auto gate = act ? act.getX().getDefiningOp<LinearOp>() : LinearOp();
    auto up = second.getDefiningOp<LinearOp>();
    if (gate && up && gate.getInputScaleAttr() && up.getInputScaleAttr())
      return Projections{gate, up};
  }
  return std::nullopt;
}

/// Scales are compared in f32, the type in which kernels use them.
static float toF32(FloatAttr scale) {
  return static_cast<float>(scale.getValueAsDouble());
}

/// Upper bounds of the quantization error of a value: relative to the value,
/// and absolute in units of the scale.
static std::pair<double, double> getErrorBound(Type storage) {
  if (isa<Float8E4M3FNType>(storage))
    return {0x1p-4, 0x1p-10};
  if (isa<Float8E5M2Type>(storage))
    return {0x1p-3, 0x1p-17};
  return {0.0, 0.5};
}

/// Requantizes the weight of `linear` from its current scale to `scale`.
static void requantize(LinearOp linear, FloatAttr scale) {
  OpBuilder builder(linear);
  RankedTensorType type = linear.getWeight().getType();
  Value real = DequantizeOp::create(
      builder, linear.getLoc(), withElementType(type, builder.getF32Type()),
      linear.getWeight(), Value(), linear.getWeightScaleAttr());
  Value stored = QuantizeOp::create(
      builder, linear.getLoc(), type, real, Value(), scale,
      QuantOrderAttr::get(builder.getContext(), QuantOrder::Reciprocal));
  linear.getWeightMutable().assign(stored);
  linear.setWeightScaleAttr(scale);
}

namespace {

struct RepairScales : fuse::impl::RepairScalesPassBase<RepairScales> {
  using Base::Base;

  void runOnOperation() override {
    std::optional<Unequal> mode = symbolizeUnequal(unequal);
    if (!mode) {
      getOperation().emitError()
          << "unknown value '" << unequal
          << "' of unequal; expected one of keep, requantize, refuse";
      return signalPassFailure();
    }
    std::optional<UnequalInputs> inputMode = symbolizeInputs(inputs);
    if (!inputMode) {
      getOperation().emitError()
          << "unknown value '" << inputs
          << "' of inputs; expected one of keep, largest, refuse";
      return signalPassFailure();
    }
    WalkResult walk = getOperation()->walk([&](GatedMulOp product) {
      std::optional<Projections> pair = getProjections(product);
      if (!pair)
        return WalkResult::advance();
      return WalkResult(
          failure(failed(repairWeights(product, *pair, *mode)) ||
                  failed(repairInputs(product, *pair, *inputMode))));
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }

private:
  static remark::RemarkOpts getOpts(StringLiteral name) {
    return remark::RemarkOpts::name(name).category("quant").subCategory(
        DEBUG_TYPE);
  }

  LogicalResult refuse(GatedMulOp product, StringRef what, FloatAttr gate,
                       FloatAttr up, StringRef alternatives) {
    return product.emitOpError()
           << what << "gate has scale " << gate.getValueAsDouble()
           << ", up has " << up.getValueAsDouble() << "; " << alternatives
           << " would accept them";
  }

  static double getRatio(FloatAttr larger, FloatAttr smaller) {
    return larger.getValueAsDouble() / smaller.getValueAsDouble();
  }

  /// Emits a remark that a projection now has the larger scale, with the error
  /// bounds.
  static void report(LinearOp changed, const remark::RemarkOpts &opts,
                     StringRef projection, FloatAttr larger, FloatAttr smaller,
                     Type storage) {
    auto [relative, absolute] = getErrorBound(storage);
    remark::passed(changed.getLoc(), opts)
        << remark::metric("Projection", projection)
        << remark::metric("Ratio", getRatio(larger, smaller))
        << remark::metric("RelativeErrorBound", relative)
        << remark::metric("AbsoluteErrorBound",
                          absolute * larger.getValueAsDouble());
  }

  LogicalResult repairWeights(GatedMulOp product, Projections pair,
                              Unequal mode) {
    FloatAttr gate = pair.gate.getWeightScaleAttr();
    FloatAttr up = pair.up.getWeightScaleAttr();
    if (!gate || !up || toF32(gate) == toF32(up))
      return success();
    ++numUnequal;
    bool gateIsLarger = toF32(gate) > toF32(up);
    FloatAttr larger = gateIsLarger ? gate : up;
    FloatAttr smaller = gateIsLarger ? up : gate;
    remark::RemarkOpts opts = getOpts("unequal-scales");
    switch (mode) {
    case Unequal::Keep:
      remark::analysis(product.getLoc(), opts)
          << remark::add("gate and up keep their own scales; ratio {0}",
                         getRatio(larger, smaller));
      return success();
    case Unequal::Refuse:
      return refuse(product, "", gate, up,
                    "unequal=keep or unequal=requantize");
    case Unequal::Requantize:
      break;
    }
    LinearOp changed = gateIsLarger ? pair.up : pair.gate;
    Type storage = changed.getWeight().getType().getElementType();
    requantize(changed, larger);
    ++numRequantized;
    report(changed, opts, gateIsLarger ? "up" : "gate", larger, smaller,
           storage);
    return success();
  }

  /// Makes both projections read the input with the larger scale.
  LogicalResult repairInputs(GatedMulOp product, Projections pair,
                             UnequalInputs mode) {
    auto gateInput = pair.gate.getX().getDefiningOp<QuantizeOp>();
    auto upInput = pair.up.getX().getDefiningOp<QuantizeOp>();
    FloatAttr gate = pair.gate.getInputScaleAttr();
    FloatAttr up = pair.up.getInputScaleAttr();
    if (!gateInput || !upInput || gateInput == upInput ||
        gateInput.getX() != upInput.getX() ||
        gateInput.getScaleAttr() != gate || upInput.getScaleAttr() != up ||
        gateInput.getQ().getType() != upInput.getQ().getType() ||
        gateInput.getOrder() != upInput.getOrder())
      return success();
    bool gateIsLarger = toF32(gate) > toF32(up);
    FloatAttr larger = gateIsLarger ? gate : up;
    FloatAttr smaller = gateIsLarger ? up : gate;
    remark::RemarkOpts opts = getOpts("unequal-input-scales");
    bool isEqual = toF32(gate) == toF32(up);
    if (mode == UnequalInputs::Keep && !isEqual)
      remark::analysis(product.getLoc(), opts) << remark::add(
          "gate and up quantize their input differently; ratio {0}",
          getRatio(larger, smaller));
    if (mode == UnequalInputs::Refuse && !isEqual)
      return refuse(product, "for its input ", gate, up,
                    "inputs=keep or inputs=largest");
    if (mode != UnequalInputs::Largest)
      return success();
    QuantizeOp kept = gateIsLarger ? gateInput : upInput;
    QuantizeOp dropped = gateIsLarger ? upInput : gateInput;
    LinearOp changed = gateIsLarger ? pair.up : pair.gate;
    if (kept->getBlock() != dropped->getBlock() ||
        kept->getBlock() != changed->getBlock())
      return success();
    if (changed->isBeforeInBlock(kept))
      kept->moveBefore(dropped);
    changed.getXMutable().assign(kept.getQ());
    changed.setInputScaleAttr(larger);
    if (dropped.use_empty())
      dropped.erase();
    ++numInputsMerged;
    report(changed, opts, gateIsLarger ? "up" : "gate", larger, smaller,
           kept.getQ().getType().getElementType());
    return success();
  }
};

} // namespace
