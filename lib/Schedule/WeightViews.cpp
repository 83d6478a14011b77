//===- WeightViews.cpp - Weights that are parts of arguments --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Schedule/WeightViews.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "nn/IR/NNOps.h"
#include "tile/IR/TileOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fuse;

/// Limits of a view, far beyond those of models: ops in a chain, which is
/// followed recursively, all ops, and boxes, each of which a host copies.
static constexpr unsigned kMaxDepth = 64, kMaxOps = 4096, kMaxBoxes = 1024;

using Boxes = SmallVector<ViewBox, 1>;

namespace {

/// Follows a view to its sources.
class ViewReader {
public:
  Boxes read(Value value);

private:
  std::optional<Boxes> read(tensor::ExtractSliceOp op);
  std::optional<Boxes> read(linalg::TransposeOp op);
  std::optional<Boxes> read(tensor::ConcatOp op);
  std::optional<Boxes> read(tensor::CollapseShapeOp op);
  std::optional<Boxes> read(tensor::ExpandShapeOp op);
  std::optional<Boxes> read(tensor::CastOp op) { return read(op.getSource()); }

  unsigned depth = 0, ops = 0;
};

} // namespace

static ArrayRef<int64_t> getShape(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

ViewBox fuse::getWholeBox(Value value) {
  ViewBox box;
  box.source = value;
  box.sizes.assign(getShape(value).begin(), getShape(value).end());
  box.at.assign(box.sizes.size(), 0);
  int64_t stride = 1;
  for (int64_t size : llvm::reverse(box.sizes)) {
    box.strides.insert(box.strides.begin(), stride);
    stride *= size;
  }
  return box;
}

bool ViewBox::isWhole() const {
  ViewBox whole = getWholeBox(source);
  return offset == 0 && at == whole.at && sizes == whole.sizes &&
         strides == whole.strides;
}

/// Reorders the dimensions of a box: dimension i of the result is `dims[i]` of
/// the box, or a unit dimension if that is negative.
static void select(ViewBox &box, ArrayRef<int64_t> dims) {
  ViewBox result;
  for (int64_t dim : dims) {
    result.at.push_back(dim < 0 ? 0 : box.at[dim]);
    result.sizes.push_back(dim < 0 ? 1 : box.sizes[dim]);
    result.strides.push_back(dim < 0 ? 0 : box.strides[dim]);
  }
  box.at = result.at;
  box.sizes = result.sizes;
  box.strides = result.strides;
}

/// Restricts a box to `count` indices of a dimension from `first` on, in steps.
/// Returns false if none is in the box.
static bool slice(ViewBox &box, int64_t dim, int64_t first, int64_t count,
                  int64_t step) {
  int64_t begin = box.at[dim], end = begin + box.sizes[dim];
  int64_t low = std::max<int64_t>(
      0, begin > first ? llvm::divideCeilSigned(begin - first, step) : 0);
  int64_t high =
      std::min(count, end > first ? llvm::divideCeilSigned(end - first, step)
                                  : int64_t(0));
  if (low >= high)
    return false;
  box.offset += (first + low * step - begin) * box.strides[dim];
  box.at[dim] = low;
  box.sizes[dim] = high - low;
  box.strides[dim] *= step;
  return true;
}

std::optional<Boxes> ViewReader::read(tensor::ExtractSliceOp op) {
  Boxes boxes = read(op.getSource());
  llvm::SmallBitVector dropped = op.getDroppedDims();
  SmallVector<int64_t> kept;
  for (auto [dim, offset, size, stride] : llvm::enumerate(
           op.getMixedOffsets(), op.getMixedSizes(), op.getMixedStrides())) {
    std::optional<int64_t> first = getConstantIntValue(offset),
                           count = getConstantIntValue(size),
                           step = getConstantIntValue(stride);
    if (!first || !count || !step || *first < 0 || *step < 1)
      return std::nullopt;
    llvm::erase_if(boxes, [&, dim = dim](ViewBox &box) {
      return !slice(box, dim, *first, *count, *step);
    });
    if (!dropped.test(dim))
      kept.push_back(dim);
  }
  for (ViewBox &box : boxes)
    select(box, kept);
  return boxes;
}

std::optional<Boxes> ViewReader::read(linalg::TransposeOp op) {
  Boxes boxes = read(op.getInput());
  for (ViewBox &box : boxes)
    select(box, op.getPermutation());
  return boxes;
}

std::optional<Boxes> ViewReader::read(tensor::ConcatOp op) {
  Boxes boxes;
  int64_t begin = 0, dim = op.getDim();
  for (Value input : op.getInputs()) {
    for (ViewBox &box : read(input)) {
      box.at[dim] += begin;
      boxes.push_back(std::move(box));
    }
    begin += getShape(input)[dim];
  }
  return boxes;
}

/// The dimensions that remain if unit ones are removed so that each group has
/// one.
static std::optional<SmallVector<int64_t>>
getSingles(ArrayRef<ReassociationIndices> groups, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> singles;
  for (const ReassociationIndices &group : groups) {
    int64_t single = group.front();
    for (int64_t dim : group)
      if (shape[dim] != 1) {
        if (shape[single] != 1)
          return std::nullopt;
        single = dim;
      }
    singles.push_back(single);
  }
  return singles;
}

std::optional<Boxes> ViewReader::read(tensor::CollapseShapeOp op) {
  auto singles =
      getSingles(op.getReassociationIndices(), getShape(op.getSrc()));
  if (!singles)
    return std::nullopt;
  Boxes boxes = read(op.getSrc());
  for (ViewBox &box : boxes)
    select(box, *singles);
  return boxes;
}

std::optional<Boxes> ViewReader::read(tensor::ExpandShapeOp op) {
  ArrayRef<int64_t> shape = getShape(op.getResult());
  auto singles = getSingles(op.getReassociationIndices(), shape);
  if (!singles)
    return std::nullopt;
  SmallVector<int64_t> dims(shape.size(), -1);
  for (auto [dim, single] : llvm::enumerate(*singles))
    dims[single] = dim;
  Boxes boxes = read(op.getSrc());
  for (ViewBox &box : boxes)
    select(box, dims);
  return boxes;
}

/// Whether boxes have all elements of a tensor. A slice with constant operands
/// may go past the end of its source.
static bool isFull(const Boxes &boxes, Value value) {
  int64_t elements = 0;
  for (const ViewBox &box : boxes)
    elements += llvm::product_of(box.sizes);
  return elements == llvm::product_of(getShape(value));
}

Boxes ViewReader::read(Value value) {
  Operation *op = value.getDefiningOp();
  std::optional<Boxes> boxes;
  auto isStatic = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor ? tensor.hasStaticShape() : !isa<TensorType>(type);
  };
  if (op && depth < kMaxDepth && ops < kMaxOps &&
      llvm::all_of(op->getOperandTypes(), isStatic)) {
    ++depth;
    ++ops;
    boxes = llvm::TypeSwitch<Operation *, std::optional<Boxes>>(op)
                .Case<tensor::ExtractSliceOp, tensor::ConcatOp,
                      tensor::CollapseShapeOp, tensor::ExpandShapeOp,
                      tensor::CastOp, linalg::TransposeOp>(
                    [&](auto view) { return read(view); })
                .Default([](Operation *) { return std::nullopt; });
    --depth;
  }
  if (boxes && !boxes->empty() && boxes->size() <= kMaxBoxes &&
      isFull(*boxes, value))
    return std::move(*boxes);
  return {getWholeBox(value)};
}

WeightView fuse::getWeightView(Value tensor) {
  if (!cast<RankedTensorType>(tensor.getType()).hasStaticShape())
    return {{getWholeBox(tensor)}};
  return {ViewReader().read(tensor)};
}

bool fuse::isViewOfArguments(const WeightView &view) {
  return llvm::all_of(view.boxes, [](const ViewBox &box) {
    return isa<BlockArgument>(box.source) ||
           box.source.getDefiningOp<GetParameterOp>();
  });
}

ArrayAttr fuse::getBoxes(MLIRContext *context, const WeightView &view,
                         function_ref<int64_t(Value)> number) {
  SmallVector<Attribute> boxes;
  for (const ViewBox &box : view.boxes)
    boxes.push_back(tile::BoxAttr::get(context, number(box.source), box.offset,
                                       box.at, box.sizes, box.strides));
  return ArrayAttr::get(context, boxes);
}
