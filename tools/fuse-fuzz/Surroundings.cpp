//===- Surroundings.cpp - Ops around random chains ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionGenerator.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace fuse;

/// Heads are the dimension before the last leading one. The other dynamic sizes
/// of `x` are then those of the tables.
void FunctionGenerator::rotary() {
  unsigned heads = leading.size() - 2;
  SmallVector<int64_t> shape = leading;
  shape.erase(shape.begin() + heads);
  shape.push_back(2 * (random.below(features / 2) + 1));
  Type tableElement = random.percent(30) ? floatType() : element;
  auto table = RankedTensorType::get(shape, tableElement);
  Value x = stream(), cos = value(table);
  create<RotaryOp>(resultType(x), x, cos, value(table),
                   builder.getI64IntegerAttr(heads));
}

/// Logits are a stream, or the result of a head applied to one.
void FunctionGenerator::crossEntropy() {
  if (leading.empty())
    return;
  Value logits = stream();
  if (random.percent(50))
    logits = linear(logits, random.oneOf<int64_t>({1, 17, 40}), {}, {});
  auto type = cast<RankedTensorType>(logits.getType());
  Type index = random.percent(70) ? builder.getI64Type() : builder.getI32Type();
  Value labels =
      value(RankedTensorType::get(type.getShape().drop_back(), index));
  bool isMean = random.percent(50);
  Value items;
  if (!isMean && random.percent(60))
    items = value(RankedTensorType::get({}, index));
  bool causal = random.percent(40);
  create<CrossEntropyOp>(
      RankedTensorType::get({}, builder.getF32Type()), logits, labels, items,
      LossReductionAttr::get(builder.getContext(),
                             isMean ? LossReduction::Mean : LossReduction::Sum),
      causal ? builder.getUnitAttr() : UnitAttr(),
      builder.getI64IntegerAttr(random.percent(60) ? -100 : 0));
}

void FunctionGenerator::experts() {
  int64_t rows = leading.size() == 1 ? leading[0] : ShapedType::kDynamic;
  auto matrix = RankedTensorType::get({rows, features}, element);
  int64_t count = random.oneOf<int64_t>({1, 2, 5}),
          places = 1 + random.below(3);
  int64_t hidden = random.oneOf<int64_t>({1, 16, 33});
  Type index = random.percent(70) ? builder.getI64Type() : builder.getI32Type();
  Type factor = random.percent(50) ? element : floatType();
  auto kind = random.oneOf({Activation::SiLU, Activation::GELU,
                            Activation::GELUTanh, Activation::ReLU});
  Value x = value(matrix);
  Value routed = value(RankedTensorType::get({rows, places}, index));
  Value weights = value(RankedTensorType::get({rows, places}, factor));
  Value gateUp =
      value(RankedTensorType::get({count, 2 * hidden, features}, element));
  Value down = value(RankedTensorType::get({count, features, hidden}, element));
  create<MoEExpertsOp>(matrix, x, routed, weights, gateUp, down,
                       ActivationAttr::get(builder.getContext(), kind));
}

/// A stream in another type, with which a chain may begin.
void FunctionGenerator::castStream() {
  Value x = stream();
  unsigned width = element.getIntOrFloatBitWidth();
  if (width == 32)
    create<arith::TruncFOp>(type(x, random.percent(50) ? builder.getBF16Type()
                                                       : builder.getF16Type()),
                            x);
  else
    create<arith::ExtFOp>(type(x, builder.getF32Type()), x);
}

/// A linear whose weight is stored transposed.
void FunctionGenerator::transposed() {
  int64_t outputs = random.oneOf<int64_t>({1, 16, 33});
  Value stored = value(RankedTensorType::get({features, outputs}, element));
  Value empty =
      create<tensor::EmptyOp>(ArrayRef<int64_t>{outputs, features}, element);
  // Nothing else may read the transposed weight.
  values.pop_back();
  Value weight =
      create<linalg::TransposeOp>(stored, empty, ArrayRef<int64_t>{1, 0});
  Value x = stream();
  SmallVector<int64_t> shape = leading;
  shape.push_back(outputs);
  auto place =
      BiasPlaceAttr::get(builder.getContext(), BiasPlace::BeforeRounding);
  create<LinearOp>(RankedTensorType::get(shape, element), x, weight, Value(),
                   Value(), Value(), FloatAttr(), FloatAttr(), place);
}

/// An op that belongs to no chain.
void FunctionGenerator::unrelated() {
  if (functions) {
    switch (random.below(4)) {
    case 0:
      return crossEntropy();
    case 1:
      return experts();
    case 2:
      return castStream();
    default:
      return transposed();
    }
  }
  if (runs && leading.size() > 1 && features > 1 && random.percent(40)) {
    rotary();
    return;
  }
  switch (random.below(3)) {
  case 0:
    create<arith::NegFOp>(stream());
    break;
  case 1:
    create<arith::ConstantOp>(builder.getF32FloatAttr(1.0));
    break;
  default:
    activation(stream());
    break;
  }
}

/// An op on the stream that the scheduled path does not support.
void FunctionGenerator::between() {
  Value x = stream();
  if (random.percent(50))
    activation(x);
  else
    create<arith::NegFOp>(x);
}

/// A user of a value outside of its chain, in the block or in a nested region.
void FunctionGenerator::secondUser(Value value) {
  auto use = [&] {
    auto tensor = cast<ShapedType>(value.getType());
    if (tensor.getElementType().isF32() || tensor.getElementType().isBF16())
      arith::NegFOp::create(builder, loc(), value);
    else
      arith::SelectOp::create(
          builder, loc(),
          arith::ConstantOp::create(builder, loc(), builder.getBoolAttr(true)),
          value, value);
  };
  if (random.percent(70))
    return use();
  auto region = scf::ExecuteRegionOp::create(builder, loc(), TypeRange());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&region.getRegion());
  use();
  scf::YieldOp::create(builder, loc());
}

/// Whether `second`, which follows `first`, depends on it.
static bool dependsOn(Operation *second, Operation *first) {
  bool depends = false;
  second->walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      depends |= operand.getDefiningOp() == first;
  });
  return depends;
}

/// Swaps independent neighbors at random.
void FunctionGenerator::shuffle(Block *block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block->without_terminator())
    ops.push_back(&op);
  if (ops.size() < 2)
    return;
  for (unsigned i = random.oneOf<size_t>({0, 3, 20, ops.size() * ops.size()});
       i > 0; --i) {
    unsigned at = random.below(ops.size() - 1);
    if (dependsOn(ops[at + 1], ops[at]))
      continue;
    ops[at + 1]->moveBefore(ops[at]);
    std::swap(ops[at], ops[at + 1]);
  }
}
