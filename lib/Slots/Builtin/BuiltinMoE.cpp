//===- BuiltinMoE.cpp - Slots of mixtures of experts ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Registry/GeneratedKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"

using namespace mlir;
using namespace fuse;

static Value equal(ImplicitLocOpBuilder &b, Value lhs, Value rhs) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lhs, rhs);
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

static SlotResults buildExperts(ImplicitLocOpBuilder &b, SlotOp slot,
                                ValueRange args) {
  FailureOr<Activation> act = getActivation(slot, "act", Activation::SiLU);
  if (failed(act))
    return failure();
  Value y = MoEExpertsOp::create(b, getResultType(slot), args[0], args[1],
                                 args[2], args[3], args[4], *act);
  return SmallVector<Value>{y};
}

/// `sum_k x[..., k] * weights[expert, n, k]`, rounded to the type of x. `x` is
/// [token, k] or [token, expert, k]; the result is [token, expert, n].
static Value projectAll(EagerBuilder &b, Value x, Value weights) {
  unsigned rank = cast<RankedTensorType>(x.getType()).getRank();
  SmallVector<unsigned> loops =
      rank == 2 ? SmallVector<unsigned>{0, 3} : SmallVector<unsigned>{0, 1, 3};
  Value y = b.nest(
      {b.size(x, 0), b.size(weights, 0), b.size(weights, 1),
       b.size(weights, 2)},
      {{x, loops}, {weights, {1, 2, 3}}}, b.getF32Type(), {0, 1, 2},
      b.getF32FloatAttr(0.0f),
      [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        return arith::AddFOp::create(
            b, args[2], arith::MulFOp::create(b, args[0], args[1]).getResult());
      });
  return b.convert(y, elementOf(x));
}

/// Every expert computes every token. As in PyTorch, the results of a token's
/// experts are added in the order of the experts, and each addition is rounded.
static SlotResults buildEagerExperts(EagerBuilder &b, SlotOp slot,
                                     ValueRange args) {
  FailureOr<Activation> act = getActivation(slot, "act", Activation::SiLU);
  if (failed(act))
    return failure();
  Value x = args[0], index = args[1], weights = args[2];
  Type element = elementOf(x);
  int64_t hidden = cast<RankedTensorType>(args[4].getType()).getShape().back();
  Value projected = projectAll(b, x, args[3]);
  Value gate = b.slice(projected, 2, 0, hidden);
  Value up = b.slice(projected, 2, hidden, hidden);
  Value product = b.mul(b.activation(*act, gate), up);
  Value returned = projectAll(b, product, args[4]);

  Type promoted = promote(element, elementOf(weights));
  // Loops: token, feature, expert, choice.
  Value y = b.nest(
      {b.size(x, 0), b.size(x, 1), b.size(returned, 1), b.size(index, 1)},
      {{returned, {0, 2, 1}}, {weights, {0, 3}}, {index, {0, 3}}}, element,
      {0, 1}, cast<TypedAttr>(b.getFloatAttr(element, 0.0)),
      [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        Value term = arith::MulFOp::create(b, args[0], args[1]);
        for (Type type : {promoted, element}) {
          if (type.isF32())
            continue;
          term = arith::TruncFOp::create(b, type, term);
          term = arith::ExtFOp::create(b, b.getF32Type(), term);
        }
        Value expert = arith::IndexCastOp::create(b, b.getIndexType(), args[2]);
        Value isChosen = equal(b, expert, linalg::IndexOp::create(b, 2));
        Value sum = arith::AddFOp::create(b, args[3], term);
        return arith::SelectOp::create(b, isChosen, sum, args[3]);
      });
  return SmallVector<Value>{b.convert(y, getResultElement(slot))};
}

void fuse::registerMoEExpertsKernels(KernelRegistry &registry) {
  registerGeneratedKernel(
      registry,
      {"moe_experts",
       "standard",
       "sum over k of weights[k] * linear(act(gate) * up, down[index[k]]) with "
       "(gate, up) = linear(x, gate_up[index[k]]), weights as [expert, out, "
       "in], gate rows first; an index outside of the experts adds nothing; "
       "params: act, \"silu\" if left out",
       {"x", "index", "weights", "gate_up", "down"},
       5,
       1,
       {"act"},
       buildExperts,
       buildEagerExperts});
}

//===----------------------------------------------------------------------===//
// Load balancing
//===----------------------------------------------------------------------===//

/// Checks that the logits of each layer are [token, expert], with equal shapes
/// and types.
static LogicalResult checkLogits(SlotOp slot, ValueRange args, int64_t topK) {
  auto first = dyn_cast<RankedTensorType>(args[0].getType());
  for (Value arg : args)
    if (!first || arg.getType() != first || first.getRank() != 2 ||
        first.isDynamicDim(1) || first.getDimSize(1) == 0 ||
        !isa<Float16Type, BFloat16Type, Float32Type>(first.getElementType()))
      return slot.emitError(slot.toText())
             << " takes floating-point logits of one type, [token, expert] "
                "with a static number of experts, got "
             << arg.getType();
  if (topK < 1 || topK > first.getDimSize(1))
    return slot.emitError(slot.toText())
           << " has param 'top_k' = " << topK << ", expected 1 to "
           << first.getDimSize(1) << ", the number of experts";
  auto loss = RankedTensorType::get({}, Float32Type::get(slot.getContext()));
  if (getResultType(slot) != loss)
    return slot.emitError(slot.toText())
           << " returns " << loss << ", got " << getResultType(slot);
  return success();
}

/// 1 for the `topK` experts of a token with the largest probabilities, and 0
/// for the others. Among equal probabilities, lower expert numbers come first.
static Value selectExperts(EagerBuilder &b, Value probabilities, int64_t topK) {
  OpFoldResult tokens = b.size(probabilities, 0);
  OpFoldResult experts = b.size(probabilities, 1);
  Value rank =
      b.nest({tokens, experts, experts},
             {{probabilities, {0, 1}}, {probabilities, {0, 2}}}, b.getF32Type(),
             {0, 1}, b.getF32FloatAttr(0.0f),
             [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
               auto compare = [&](arith::CmpFPredicate predicate) -> Value {
                 return arith::CmpFOp::create(b, predicate, args[1], args[0]);
               };
               Value isBefore = arith::CmpIOp::create(
                   b, arith::CmpIPredicate::ult,
                   linalg::IndexOp::create(b, 2).getResult(),
                   linalg::IndexOp::create(b, 1).getResult());
               Value isEqual = arith::AndIOp::create(
                   b, compare(arith::CmpFPredicate::OEQ), isBefore);
               Value counts = arith::OrIOp::create(
                   b, compare(arith::CmpFPredicate::OGT), isEqual);
               Value one = arith::UIToFPOp::create(b, b.getF32Type(), counts);
               return arith::AddFOp::create(b, args[2], one);
             });
  return b.pointwise(
      b.getF32Type(), rank, [&](ImplicitLocOpBuilder &b, ValueRange args) {
        Value isChosen =
            arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, args[0],
                                  EagerBuilder::constant(b, topK));
        return arith::UIToFPOp::create(b, b.getF32Type(), isChosen).getResult();
      });
}

/// Sums a [token, expert] tensor over tokens.
static Value sumOverTokens(EagerBuilder &b, Value tensor) {
  return b.nest(b.sizes(tensor), {{tensor, {0, 1}}}, b.getF32Type(), {1},
                b.getF32FloatAttr(0.0f),
                [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                  return arith::AddFOp::create(b, args[1], args[0]);
                });
}

static SlotResults buildEagerLoadBalancing(EagerBuilder &b, SlotOp slot,
                                           ValueRange args) {
  Value counts, sums;
  FailureOr<int64_t> topK = getInteger(slot, "top_k");
  if (failed(topK) || failed(checkLogits(slot, args, *topK)))
    return failure();
  for (Value logits : args) {
    Value wide = b.convert(logits, b.getF32Type());
    Value exp = b.exp(b.sub(wide, b.maximum(wide)));
    Value sum = b.sum(exp);
    Value probabilities =
        b.pointwise(elementOf(logits), {exp, sum},
                    [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                      return arith::DivFOp::create(b, args[0], args[1]);
                    });
    Value count = sumOverTokens(b, selectExperts(b, probabilities, *topK));
    Value probability = sumOverTokens(b, probabilities);
    counts = counts ? b.add(counts, count) : count;
    sums = sums ? b.add(sums, probability) : probability;
  }
  Value tokens =
      getValueOrCreateConstantIndexOp(b, b.getLoc(), b.size(args[0], 0));
  int64_t layers = args.size();
  int64_t experts = cast<RankedTensorType>(args[0].getType()).getShape().back();
  Value loss = b.nest(
      b.sizes(counts), {{counts, {0}}, {sums, {0}}}, b.getF32Type(), {},
      b.getF32FloatAttr(0.0f),
      [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
        Value integer = arith::IndexCastOp::create(b, b.getI64Type(), tokens);
        Value rows = arith::SIToFPOp::create(b, b.getF32Type(), integer);
        rows =
            arith::MulFOp::create(b, rows, EagerBuilder::constant(b, layers));
        Value share = arith::DivFOp::create(b, args[0], rows);
        Value mean = arith::DivFOp::create(b, args[1], rows);
        Value product = arith::MulFOp::create(b, share, mean);
        product = arith::MulFOp::create(b, product,
                                        EagerBuilder::constant(b, experts));
        return arith::AddFOp::create(b, args[2], product);
      });
  return SmallVector<Value>{loss};
}

void fuse::registerMoELoadBalancingLoss(KernelRegistry &registry) {
  registry.addOp(
      {"moe_load_balancing_loss", "standard",
       "experts * sum over e of (share of the tokens that have e among their "
       "top_k) * (mean probability of e), with the router's logits of each "
       "layer as [token, expert]; params: top_k. Eager only.",
       [](OpBuilder &builder, SlotOp slot, ValueRange args) -> SlotResults {
         GeneratedKernel shape;
         shape.args.assign(std::max<size_t>(args.size(), 1), "logits");
         shape.numRequired = 1;
         shape.params = {"top_k"};
         if (failed(checkSlot(slot, shape)))
           return failure();
         EagerBuilder b(builder, slot.getLoc());
         return buildEagerLoadBalancing(b, slot, args);
       }});
}
