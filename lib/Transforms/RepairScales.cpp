//===- RepairScales.cpp - Gate and up projections of different scales -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseOps.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

namespace fuse {
#define GEN_PASS_DEF_REPAIRSCALESPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-repair-scales"

using namespace mlir;
using namespace fuse;

namespace {

enum class Unequal { Keep, Requantize, Refuse };

/// The projections of a gated product.
struct Projections {
  LinearOp gate, up;
};

} // namespace

static std::optional<Unequal> symbolizeUnequal(StringRef name) {
  if (name == "keep")
    return Unequal::Keep;
  if (name == "requantize")
    return Unequal::Requantize;
  if (name == "refuse")
    return Unequal::Refuse;
  return std::nullopt;
}

/// The projections of `product` when each has one weight scale.
static std::optional<Projections> getProjections(GatedMulOp product) {
  for (auto [first, second] : {std::pair(product.getLhs(), product.getRhs()),
                               std::pair(product.getRhs(), product.getLhs())}) {
    auto act = first.getDefiningOp<ActivationOp>();
    auto gate = act ? act.getX().getDefiningOp<LinearOp>() : LinearOp();
    auto up = second.getDefiningOp<LinearOp>();
    if (gate && up && gate.getWeightScaleAttr() && up.getWeightScaleAttr())
      return Projections{gate, up};
  }
  return std::nullopt;
}

/// What requantization adds to a weight at most: relative to the weight, and
/// absolute in units of the new scale.
static std::pair<double, double> getErrorBound(Type storage) {
  if (isa<Float8E4M3FNType>(storage))
    return {0x1p-4, 0x1p-10};
  if (isa<Float8E5M2Type>(storage))
    return {0x1p-3, 0x1p-17};
  return {0.0, 0.5};
}

/// Brings the weight of `linear` from its own scale to `scale`.
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
    WalkResult walk = getOperation()->walk([&](GatedMulOp product) {
      std::optional<Projections> pair = getProjections(product);
      return pair ? WalkResult(repair(product, *pair, *mode))
                  : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }

  LogicalResult repair(GatedMulOp product, Projections pair, Unequal mode) {
    // The comparison is that of the numbers a kernel sees.
    auto toF32 = [](FloatAttr scale) {
      return static_cast<float>(scale.getValueAsDouble());
    };
    FloatAttr gate = pair.gate.getWeightScaleAttr();
    FloatAttr up = pair.up.getWeightScaleAttr();
    if (toF32(gate) == toF32(up))
      return success();
    ++numUnequal;
    bool gateIsLarger = toF32(gate) > toF32(up);
    FloatAttr larger = gateIsLarger ? gate : up;
    FloatAttr smaller = gateIsLarger ? up : gate;
    double ratio = larger.getValueAsDouble() / smaller.getValueAsDouble();
    remark::RemarkOpts opts = remark::RemarkOpts::name("unequal-scales")
                                  .category("quant")
                                  .subCategory(DEBUG_TYPE);
    switch (mode) {
    case Unequal::Keep:
      remark::analysis(product.getLoc(), opts)
          << remark::add("gate and up keep their own scales; ratio {0}", ratio);
      return success();
    case Unequal::Refuse:
      return product.emitOpError()
             << "gate has scale " << gate.getValueAsDouble() << ", up has "
             << up.getValueAsDouble()
             << "; unequal=keep or unequal=requantize would accept them";
    case Unequal::Requantize:
      break;
    }
    LinearOp changed = gateIsLarger ? pair.up : pair.gate;
    auto [relative, absolute] =
        getErrorBound(changed.getWeight().getType().getElementType());
    requantize(changed, larger);
    ++numRequantized;
    remark::passed(changed.getLoc(), opts)
        << remark::metric("Projection", gateIsLarger ? "up" : "gate")
        << remark::metric("Ratio", ratio)
        << remark::metric("RelativeErrorBound", relative)
        << remark::metric("AbsoluteErrorBound",
                          absolute * larger.getValueAsDouble());
    return success();
  }
};

} // namespace
