//===- BuiltinNorms.cpp - Slots of normalizations -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Registry/GeneratedKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fuse;

namespace {
enum class RMSVariant { Standard, Unweighted, Offset1F32 };
} // namespace

/// The `eps` of the slot as the attribute of a norm op.
static FailureOr<FloatAttr> getEps(Builder &builder, SlotOp slot) {
  FailureOr<double> eps = getNumber(slot, "eps");
  if (failed(eps))
    return failure();
  return builder.getF64FloatAttr(*eps);
}

static SlotResults buildRMSNorm(ImplicitLocOpBuilder &b, SlotOp slot,
                                ValueRange args, RMSVariant variant) {
  FailureOr<FloatAttr> eps = getEps(b, slot);
  if (failed(eps))
    return failure();
  bool isOffset = variant == RMSVariant::Offset1F32;
  Value y = RMSNormOp::create(
      b, getResultType(slot), args[0],
      variant == RMSVariant::Unweighted ? Value() : args[1], *eps,
      b.getI64IntegerAttr(isOffset ? 1 : 0),
      NormCastAttr::get(b.getContext(), isOffset ? NormCast::AfterWeight
                                                 : NormCast::BeforeWeight));
  return SmallVector<Value>{y};
}

static SlotResults buildEagerRMSNorm(EagerBuilder &b, SlotOp slot,
                                     ValueRange args, RMSVariant variant) {
  FailureOr<double> eps = getNumber(slot, "eps");
  if (failed(eps))
    return failure();
  Value wide = b.convert(args[0], b.getF32Type());
  Value variance = b.mean(b.mul(wide, wide));
  Value normed = b.mul(wide, b.rsqrt(variance, *eps));
  switch (variant) {
  case RMSVariant::Unweighted:
    break;
  case RMSVariant::Standard:
    normed = b.mul(b.convert(normed, elementOf(args[0])), args[1]);
    break;
  case RMSVariant::Offset1F32: {
    Value factor =
        b.pointwise(b.getF32Type(), args[1],
                    [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                      return arith::AddFOp::create(
                          b, EagerBuilder::constant(b, 1.0), args[0]);
                    });
    normed = b.mul(normed, factor);
    break;
  }
  }
  return SmallVector<Value>{b.convert(normed, getResultElement(slot))};
}

static void addRMSNorm(KernelRegistry &registry, RMSVariant variant,
                       StringRef name, StringRef formula) {
  bool isWeighted = variant != RMSVariant::Unweighted;
  registerGeneratedKernel(
      registry,
      {"rms_norm",
       name.str(),
       (formula + "; n = x / sqrt(mean(x^2) + eps) in f32 along the last "
                  "dimension; params: eps")
           .str(),
       isWeighted ? std::vector<std::string>{"x", "weight"}
                  : std::vector<std::string>{"x"},
       isWeighted ? 2u : 1u,
       1,
       {"eps"},
       [=](ImplicitLocOpBuilder &b, SlotOp slot, ValueRange args) {
         return buildRMSNorm(b, slot, args, variant);
       },
       [=](EagerBuilder &b, SlotOp slot, ValueRange args) {
         return buildEagerRMSNorm(b, slot, args, variant);
       }});
}

void fuse::registerRMSNormKernels(KernelRegistry &registry) {
  addRMSNorm(registry, RMSVariant::Standard, "standard",
             "weight * n, with n rounded to the type of x first");
  addRMSNorm(registry, RMSVariant::Unweighted, "unweighted", "n, rounded once");
  addRMSNorm(registry, RMSVariant::Offset1F32, "offset1_f32",
             "(1 + weight) * n in f32, rounded once");
}

static SlotResults buildLayerNorm(ImplicitLocOpBuilder &b, SlotOp slot,
                                  ValueRange args) {
  FailureOr<FloatAttr> eps = getEps(b, slot);
  if (failed(eps))
    return failure();
  Value y = LayerNormOp::create(b, getResultType(slot), args[0],
                                args.size() > 1 ? args[1] : Value(),
                                args.size() > 2 ? args[2] : Value(), *eps);
  return SmallVector<Value>{y};
}

static SlotResults buildEagerLayerNorm(EagerBuilder &b, SlotOp slot,
                                       ValueRange args) {
  FailureOr<double> eps = getNumber(slot, "eps");
  if (failed(eps))
    return failure();
  Value wide = b.convert(args[0], b.getF32Type());
  Value centered = b.sub(wide, b.mean(wide));
  Value variance = b.mean(b.mul(centered, centered));
  Value normed = b.mul(centered, b.rsqrt(variance, *eps));
  if (args.size() > 1)
    normed = b.mul(normed, args[1]);
  if (args.size() > 2)
    normed = b.add(normed, args[2]);
  return SmallVector<Value>{b.convert(normed, getResultElement(slot))};
}

void fuse::registerLayerNormKernels(KernelRegistry &registry) {
  registerGeneratedKernel(
      registry, {"layer_norm",
                 "standard",
                 "(x - mean(x)) / sqrt(var(x) + eps) * weight + bias in f32 "
                 "along the last dimension, rounded once; params: eps",
                 {"x", "weight", "bias"},
                 1,
                 1,
                 {"eps"},
                 buildLayerNorm,
                 buildEagerLayerNorm});
}
