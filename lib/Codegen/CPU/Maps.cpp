//===- Maps.cpp - Elementwise ops on a CPU --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Consecutive elementwise ops become one pass over the rows. Vectors between
// them stay in registers and are rounded as each op defines.
//
//===----------------------------------------------------------------------===//

#include "fuse/Codegen/CPU/KernelBuilder.h"
#include "fuse/Codegen/ElementMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fuse;

void CPUKernelBuilder::buildMaps(ArrayRef<Operation *> maps) {
  // Inputs and results of the phase, in order.
  SmallVector<Value> sources, targets;
  for (Operation *op : maps) {
    for (Value operand : op->getOperands()) {
      Value source = getFlatSource(operand);
      bool isInside = llvm::is_contained(maps, source.getDefiningOp());
      bool isRows = isa<BlockArgument>(source) || places.contains(source);
      if (!isInside && isRows && !llvm::is_contained(sources, source))
        sources.push_back(source);
    }
    if (places.contains(op->getResult(0)))
      targets.push_back(op->getResult(0));
  }
  SmallVector<Value> buffers(sources.size() + targets.size());
  for (auto [slot, source] : llvm::zip(buffers, sources))
    addOperand(slot, source);
  for (auto [slot, target] :
       llvm::zip(MutableArrayRef(buffers).drop_front(sources.size()), targets))
    addResult(slot, target);
  int64_t width = cast<RankedTensorType>(maps.front()->getResult(0).getType())
                      .getShape()
                      .back();
  buildRowTasks("map", [&](Value row) {
    Value start = times(row, width);
    forColumns(width, {}, [&](Value column, Value mask, ValueRange) -> Values {
      Value at = plus(start, column);
      DenseMap<Value, Value> elements;
      for (auto [buffer, source] : llvm::zip(buffers, sources))
        elements[source] = loadRaw(buffer, at, mask);
      for (Operation *op : maps)
        buildMap(op, elements);
      for (auto [buffer, target] :
           llvm::zip(ArrayRef(buffers).drop_front(sources.size()), targets))
        store(widen(b, elements.at(target)), buffer, at, mask);
      return {};
    });
  });
}

/// Computes the elements of a result from those of the op's operands.
void CPUKernelBuilder::buildMap(Operation *op,
                                DenseMap<Value, Value> &elements) {
  auto get = [&](Value value) { return elements.at(getFlatSource(value)); };
  Value result = op->getResult(0);
  Type element = getElementTypeOrSelf(result);
  if (auto sum = dyn_cast<ResidualAddOp>(op)) {
    Value lhs = widen(b, get(sum.getLhs())), rhs = widen(b, get(sum.getRhs()));
    elements[result] = roundTo(b, add(b, lhs, rhs), element);
    return;
  }
  if (auto activation = dyn_cast<ActivationOp>(op)) {
    Value value =
        activate(b, activation.getKind(), widen(b, get(activation.getX())));
    elements[result] = roundTo(b, value, element);
    return;
  }
  auto generic = cast<linalg::GenericOp>(op);
  IRMapping mapping;
  for (auto [argument, input] :
       llvm::zip(generic.getBody()->getArguments(), generic.getDpsInputs()))
    mapping.map(argument, get(input));
  auto lookup = [&](Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    TypedAttr constant;
    matchPattern(value, m_Constant(&constant));
    auto type = vectorOf(value.getType());
    Value splat =
        arith::ConstantOp::create(b, DenseElementsAttr::get(type, constant));
    mapping.map(value, splat);
    return splat;
  };
  for (Operation &inner : generic.getBody()->without_terminator()) {
    SmallVector<Value> operands =
        llvm::map_to_vector(inner.getOperands(), lookup);
    OperationState state(b.getLoc(), inner.getName(), operands,
                         vectorOf(inner.getResult(0).getType()),
                         inner.getAttrs());
    mapping.map(inner.getResult(0), b.create(state)->getResult(0));
  }
  elements[result] = lookup(generic.getBody()->getTerminator()->getOperand(0));
}
