//===- StageLowering.cpp - The layer ops of a graph of stages -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product with its `stage.finish` is a `fuse.linear`. If K-slices are kept,
// each slice is a linear with an f32 result, and residual adds in f32 add them
// in the order of the reduce.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseVerify.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "stage/IR/StageOps.h"

using namespace mlir;
using namespace fuse;
using namespace stage;

namespace {

/// A sum that an epilogue reads: the operands of its product, or its value.
struct Sum {
  SumOperands operands;
  Value total;
};

/// The sums of the slices of a product with one weight.
struct SlicedSum {
  SumOperands operands;
  SmallVector<Value> parts;
};

class GraphLowering {
public:
  GraphLowering(GraphOp graph, OpBuilder &builder, Slices slices)
      : graph(graph), builder(builder), slices(slices) {}

  SmallVector<Value> lower();

private:
  void lowerProduct(ProductOp op);
  void lowerReduce(ReduceOp op);
  void lowerBody(Operation *op, Block &body, ArrayRef<Sum> sums,
                 ValueRange inputs);
  SmallVector<Value> multiplySlices(ProductOp op, SumOperands operands);
  Value cut(Location loc, Value tensor, int64_t first, int64_t size);
  Value add(Location loc, Value lhs, Value rhs) {
    return ResidualAddOp::create(builder, loc, lhs.getType(), lhs, rhs);
  }
  Value addAll(Location loc, SmallVector<Value> parts, SumOrder order);

  GraphOp graph;
  OpBuilder &builder;
  Slices slices;
  IRMapping values;
  DenseMap<Value, SlicedSum> sliced;
};

} // namespace

/// Copies the ops of a body. A finish of a sum that has no value becomes a
/// linear.
void GraphLowering::lowerBody(Operation *op, Block &body, ArrayRef<Sum> sums,
                              ValueRange inputs) {
  IRMapping inner;
  for (auto [argument, sum] : llvm::zip(body.getArguments(), sums))
    if (sum.total)
      inner.map(argument, sum.total);
  for (auto [argument, input] :
       llvm::zip_equal(body.getArguments().drop_front(sums.size()), inputs))
    inner.map(argument, values.lookup(input));
  auto lookup = [&](Value value) {
    return value ? inner.lookup(value) : Value();
  };
  for (Operation &member : body.without_terminator()) {
    auto finish = dyn_cast<FinishOp>(member);
    if (!finish || inner.contains(finish.getSum())) {
      builder.clone(member, inner);
      continue;
    }
    unsigned number = cast<BlockArgument>(finish.getSum()).getArgNumber();
    auto linear = LinearOp::create(
        builder, finish.getLoc(), finish.getY().getType(),
        sums[number].operands.x, sums[number].operands.weight,
        lookup(finish.getBias()), lookup(finish.getChannelScale()),
        lookup(finish.getDynamicScale()), finish.getInputScaleAttr(),
        finish.getWeightScaleAttr(), finish.getBiasPlaceAttr(),
        finish.getQuantAttr());
    linear->setDiscardableAttrs(finish->getDiscardableAttrDictionary());
    inner.map(finish.getY(), linear.getY());
  }
  for (auto [result, value] :
       llvm::zip_equal(op->getResults(), body.getTerminator()->getOperands()))
    values.map(result, inner.lookup(value));
}

/// A range of the last dimension of a tensor.
Value GraphLowering::cut(Location loc, Value tensor, int64_t first,
                         int64_t size) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0)),
      strides(type.getRank(), builder.getIndexAttr(1)),
      sizes = tensor::getMixedSizes(builder, loc, tensor);
  offsets.back() = builder.getIndexAttr(first);
  sizes.back() = builder.getIndexAttr(size);
  return tensor::ExtractSliceOp::create(builder, loc, tensor, offsets, sizes,
                                        strides);
}

SmallVector<Value> GraphLowering::multiplySlices(ProductOp op,
                                                 SumOperands operands) {
  auto weight = cast<RankedTensorType>(operands.weight.getType());
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(operands.x.getType()).getShape());
  shape.back() = weight.getDimSize(0);
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  // Scales follow the total.
  FloatAttr scale;
  if (isQuantized(weight.getElementType()))
    scale = builder.getF64FloatAttr(1.0);
  SmallVector<Value> parts;
  for (int64_t first = 0; first < weight.getDimSize(1);
       first += *op.getSlice()) {
    int64_t size =
        std::min<int64_t>(*op.getSlice(), weight.getDimSize(1) - first);
    parts.push_back(LinearOp::create(
        builder, op.getLoc(), type, cut(op.getLoc(), operands.x, first, size),
        cut(op.getLoc(), operands.weight, first, size), Value(), Value(), scale,
        scale));
  }
  return parts;
}

void GraphLowering::lowerProduct(ProductOp op) {
  Value x = values.lookup(op.getX());
  SmallVector<Sum> sums;
  for (auto [number, weight] : llvm::enumerate(op.getWeights())) {
    SumOperands operands = {x, values.lookup(weight)};
    if (!op.getSlice()) {
      sums.push_back({operands, Value()});
      continue;
    }
    SlicedSum &sum = sliced[op->getResult(number)];
    sum.operands = operands;
    if (slices == Slices::Keep)
      sum.parts = multiplySlices(op, operands);
  }
  if (!op.getSlice())
    lowerBody(op, op.getEpilogue().front(), sums, op.getInputs());
}

Value GraphLowering::addAll(Location loc, SmallVector<Value> parts,
                            SumOrder order) {
  if (order == SumOrder::Ascending) {
    Value total = parts.front();
    for (Value part : llvm::drop_begin(parts))
      total = add(loc, total, part);
    return total;
  }
  while (parts.size() > 1) {
    SmallVector<Value> pairs;
    for (size_t i = 0; i < parts.size(); i += 2)
      pairs.push_back(i + 1 < parts.size() ? add(loc, parts[i], parts[i + 1])
                                           : parts[i]);
    parts = std::move(pairs);
  }
  return parts.front();
}

void GraphLowering::lowerReduce(ReduceOp op) {
  SmallVector<Sum> sums;
  for (Value partial : op.getPartials()) {
    const SlicedSum &sum = sliced.at(partial);
    Value total;
    if (slices == Slices::Keep)
      total = addAll(op.getLoc(), sum.parts, op.getOrder());
    sums.push_back({sum.operands, total});
  }
  lowerBody(op, op.getEpilogue().front(), sums, op.getInputs());
}

SmallVector<Value> GraphLowering::lower() {
  Block &body = graph.getBody().front();
  values.map(body.getArguments(), graph.getInputs());
  for (Operation &op : body.without_terminator()) {
    if (auto rows = dyn_cast<RowsOp>(op))
      lowerBody(rows, rows.getBody().front(), {}, rows.getInputs());
    else if (auto product = dyn_cast<ProductOp>(op))
      lowerProduct(product);
    else
      lowerReduce(cast<ReduceOp>(op));
  }
  return llvm::map_to_vector(body.getTerminator()->getOperands(),
                             [&](Value value) { return values.lookup(value); });
}

SmallVector<Value> stage::lowerGraph(GraphOp graph, OpBuilder &builder,
                                     Slices slices) {
  return GraphLowering(graph, builder, slices).lower();
}

unsigned stage::lowerGraphs(Operation *root) {
  SmallVector<GraphOp> graphs;
  root->walk([&](GraphOp graph) {
    if (graph != root)
      graphs.push_back(graph);
  });
  for (GraphOp graph : graphs) {
    OpBuilder builder(graph);
    graph->replaceAllUsesWith(lowerGraph(graph, builder, Slices::Keep));
    graph->erase();
  }
  return graphs.size();
}
