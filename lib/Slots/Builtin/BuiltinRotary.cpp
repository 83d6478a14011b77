//===- BuiltinRotary.cpp - Slots of rotary embeddings ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Registry/GeneratedKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fuse;

static int64_t getFeatures(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape().back();
}

static SlotResults buildRotary(ImplicitLocOpBuilder &b, SlotOp slot,
                               ValueRange args, bool isPartial) {
  FailureOr<int64_t> heads = getInteger(slot, "unsqueeze_dim", 1);
  if (failed(heads))
    return failure();
  for (Value x : args.take_front(2)) {
    auto type = dyn_cast<RankedTensorType>(x.getType());
    auto angles = dyn_cast<RankedTensorType>(args[2].getType());
    if (isPartial || !type || !angles || type.getRank() == 0 ||
        angles.getRank() == 0 || type.isDynamicDim(type.getRank() - 1) ||
        angles.isDynamicDim(angles.getRank() - 1) ||
        type.getShape().back() == angles.getShape().back())
      continue;
    return slot.emitError(slot.toText())
           << " turns all features, but 'cos' has " << angles.getShape().back()
           << " and an argument " << type.getShape().back()
           << "; use variant 'partial'";
  }
  SmallVector<Value> results;
  for (unsigned i : {0, 1})
    results.push_back(RotaryOp::create(b, getResultType(slot, i), args[i],
                                       args[2], args[3],
                                       b.getI64IntegerAttr(*heads)));
  return results;
}

/// `x * factor`, where `factor` is broadcast along the dimension `heads`.
static Value multiply(EagerBuilder &b, Value x, Value factor, unsigned heads) {
  unsigned rank = cast<RankedTensorType>(x.getType()).getRank();
  auto all = llvm::to_vector(llvm::seq<unsigned>(0, rank));
  SmallVector<unsigned> others(all);
  others.erase(others.begin() + heads);
  return b.nest(b.sizes(x), {{x, all}, {factor, others}},
                promote(elementOf(x), elementOf(factor)), all, {},
                [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                  return arith::MulFOp::create(b, args[0], args[1]);
                });
}

static Value buildEagerRotary(EagerBuilder &b, Value x, Value cos, Value sin,
                              unsigned heads, Type element) {
  unsigned last = cast<RankedTensorType>(x.getType()).getRank() - 1;
  int64_t turned = getFeatures(cos), half = turned / 2;
  int64_t features = getFeatures(x);
  Value part = turned == features ? x : b.slice(x, last, 0, turned);
  Value swapped = b.concat(
      {b.neg(b.slice(part, last, half, half)), b.slice(part, last, 0, half)});
  Value y =
      b.add(multiply(b, part, cos, heads), multiply(b, swapped, sin, heads));
  y = b.convert(y, element);
  if (turned == features)
    return y;
  Value rest = b.slice(x, last, turned, features - turned);
  return b.concat({y, b.convert(rest, element)});
}

static void addRotary(KernelRegistry &registry, bool isPartial) {
  registerGeneratedKernel(
      registry,
      {"apply_rotary_pos_emb",
       isPartial ? "partial" : "full",
       std::string("x * cos + rotate_half(x) * sin of q and k") +
           (isPartial ? ", for the features that cos has; the others stay"
                      : "") +
           "; both products rounded, then the sum; params: unsqueeze_dim, the "
           "dimension of the heads, 1 if left out",
       {"q", "k", "cos", "sin"},
       4,
       2,
       {"unsqueeze_dim"},
       [=](ImplicitLocOpBuilder &b, SlotOp slot, ValueRange args) {
         return buildRotary(b, slot, args, isPartial);
       },
       [](EagerBuilder &b, SlotOp slot, ValueRange args) -> SlotResults {
         FailureOr<int64_t> heads = getInteger(slot, "unsqueeze_dim", 1);
         if (failed(heads))
           return failure();
         SmallVector<Value> results;
         for (unsigned i : {0, 1})
           results.push_back(buildEagerRotary(b, args[i], args[2], args[3],
                                              *heads,
                                              getResultElement(slot, i)));
         return results;
       }});
}

void fuse::registerRotaryKernels(KernelRegistry &registry) {
  addRotary(registry, /*isPartial=*/false);
  addRotary(registry, /*isPartial=*/true);
}
