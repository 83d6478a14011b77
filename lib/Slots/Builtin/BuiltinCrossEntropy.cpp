//===- BuiltinCrossEntropy.cpp - Slots of losses --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Registry/GeneratedKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <limits>

using namespace mlir;
using namespace fuse;

static SlotResults buildCrossEntropy(ImplicitLocOpBuilder &b, SlotOp slot,
                                     ValueRange args) {
  FailureOr<int64_t> ignored = getInteger(slot, "ignore_index", -100);
  if (failed(ignored))
    return failure();
  Value items = args.size() > 2 ? args[2] : Value();
  Value loss = CrossEntropyOp::create(
      b, getResultType(slot), args[0], args[1], items,
      LossReductionAttr::get(b.getContext(),
                             items ? LossReduction::Sum : LossReduction::Mean),
      b.getUnitAttr(), b.getI64IntegerAttr(*ignored));
  return SmallVector<Value>{loss};
}

static Value select(ImplicitLocOpBuilder &b, arith::CmpIPredicate predicate,
                    Value lhs, Value rhs, Value yes, Value no) {
  Value condition = arith::CmpIOp::create(b, predicate, lhs, rhs);
  return arith::SelectOp::create(b, condition, yes, no);
}

/// Labels shifted by one position, with `ignored` at the end.
static Value shift(EagerBuilder &b, Value labels, Value ignored) {
  auto type = cast<RankedTensorType>(labels.getType());
  unsigned last = type.getRank() - 1;
  SmallVector<OpFoldResult> sizes = b.sizes(labels);
  Value length = getValueOrCreateConstantIndexOp(b, b.getLoc(), sizes[last]);
  auto loops = llvm::to_vector(llvm::seq<unsigned>(0, last + 1));
  return b.nest(sizes, {}, type.getElementType(), loops, {},
                [&](ImplicitLocOpBuilder &b, ValueRange) {
                  SmallVector<Value> indices;
                  for (unsigned loop : loops)
                    indices.push_back(linalg::IndexOp::create(b, loop));
                  Value one = arith::ConstantIndexOp::create(b, 1);
                  Value end = arith::SubIOp::create(b, length, one);
                  Value next = arith::AddIOp::create(b, indices[last], one);
                  indices[last] = arith::MinSIOp::create(b, next, end);
                  Value label = tensor::ExtractOp::create(b, labels, indices);
                  return select(b, arith::CmpIPredicate::slt, next, length,
                                label, ignored);
                });
}

/// Negative log probability of each row's label. It is 0 for an `ignored` label
/// and NaN for a label out of range.
static Value getLosses(EagerBuilder &b, Value logProbabilities, Value labels,
                       Value ignored) {
  unsigned rank = cast<RankedTensorType>(labels.getType()).getRank();
  auto rows = llvm::to_vector(llvm::seq<unsigned>(0, rank));
  SmallVector<unsigned> all(rows);
  all.push_back(rank);
  Value picked = b.nest(
      b.sizes(logProbabilities), {{logProbabilities, all}, {labels, rows}},
      b.getF32Type(), rows,
      b.getF32FloatAttr(std::numeric_limits<float>::quiet_NaN()),
      [&](ImplicitLocOpBuilder &b, ValueRange args) {
        Value label = arith::IndexCastOp::create(b, b.getIndexType(), args[1]);
        return select(b, arith::CmpIPredicate::eq, label,
                      linalg::IndexOp::create(b, rank), args[0], args[2]);
      });
  return b.pointwise(b.getF32Type(), {picked, labels},
                     [&](ImplicitLocOpBuilder &b, ValueRange args) {
                       Value loss = arith::NegFOp::create(b, args[0]);
                       return select(b, arith::CmpIPredicate::eq, args[1],
                                     ignored, EagerBuilder::constant(b, 0.0),
                                     loss);
                     });
}

static SlotResults buildEagerCrossEntropy(EagerBuilder &b, SlotOp slot,
                                          ValueRange args) {
  FailureOr<int64_t> ignoreIndex = getInteger(slot, "ignore_index", -100);
  if (failed(ignoreIndex))
    return failure();
  Value ignored = arith::ConstantOp::create(
      b, b.getIntegerAttr(elementOf(args[1]), *ignoreIndex));
  Value logits = b.convert(args[0], b.getF32Type());
  Value below = b.sub(logits, b.maximum(logits));
  Value logProbabilities = b.sub(below, b.log(b.sum(b.exp(below))));
  Value labels = shift(b, args[1], ignored);
  Value losses = getLosses(b, logProbabilities, labels, ignored);

  unsigned rank = cast<RankedTensorType>(labels.getType()).getRank();
  auto rows = llvm::to_vector(llvm::seq<unsigned>(0, rank));
  Value total = b.nest(b.sizes(losses), {{losses, rows}}, b.getF32Type(), {},
                       b.getF32FloatAttr(0.0f),
                       [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                         return arith::AddFOp::create(b, args[1], args[0]);
                       });
  Value divisor = args.size() > 2 ? args[2] : Value();
  if (!divisor)
    divisor = b.nest(b.sizes(labels), {{labels, rows}}, b.getI64Type(), {},
                     b.getI64IntegerAttr(0),
                     [&](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                       Value one =
                           arith::ConstantOp::create(b, b.getI64IntegerAttr(1));
                       Value more = arith::AddIOp::create(b, args[1], one);
                       return select(b, arith::CmpIPredicate::eq, args[0],
                                     ignored, args[1], more);
                     });
  Value loss =
      b.pointwise(b.getF32Type(), {total, divisor},
                  [](ImplicitLocOpBuilder &b, ValueRange args) -> Value {
                    Value count = args[1];
                    if (count.getType().isInteger())
                      count = arith::SIToFPOp::create(b, b.getF32Type(), count);
                    return arith::DivFOp::create(b, args[0], count);
                  });
  return SmallVector<Value>{loss};
}

void fuse::registerCrossEntropyKernels(KernelRegistry &registry) {
  registerGeneratedKernel(
      registry,
      {"cross_entropy_loss",
       "causal",
       "-log(softmax(logits))[next label] in f32, summed over the rows whose "
       "label is not ignore_index and divided by num_items, or by their "
       "number; params: ignore_index, -100 if left out",
       {"logits", "labels", "num_items"},
       2,
       1,
       {"ignore_index"},
       buildCrossEntropy,
       buildEagerCrossEntropy});
}
