//===- RaiseLayersSplit.cpp - Split merged projections --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Some checkpoints store gate and up as one weight, and the model slices the
// result of one linear. A gated MLP has two linears. Each reads its rows of the
// weight in place.
//
//===----------------------------------------------------------------------===//

#include "RaiseLayers.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace fuse;

/// Whether `slice` takes static indices of the last dimension, and all others.
static bool takesFeatures(tensor::ExtractSliceOp slice) {
  auto source = slice.getSourceType(), type = slice.getType();
  int64_t last = source.getRank() - 1;
  if (type.getRank() != source.getRank() ||
      ShapedType::isDynamic(slice.getStaticOffsets()[last]) ||
      ShapedType::isDynamic(slice.getStaticStrides()[last]) ||
      ShapedType::isDynamic(type.getDimSize(last)))
    return false;
  for (int64_t dim = 0; dim < last; ++dim) {
    OpFoldResult size = slice.getMixedSizes()[dim];
    auto value = dyn_cast<Value>(size);
    auto dimOp = value ? value.getDefiningOp<tensor::DimOp>() : tensor::DimOp();
    bool isWhole = dimOp ? dimOp.getConstantIndex() == dim &&
                               getShapeSource(dimOp.getSource()) ==
                                   getShapeSource(slice.getSource())
                         : getConstantIntValue(size) == source.getDimSize(dim);
    if (slice.getStaticOffsets()[dim] != 0 ||
        slice.getStaticStrides()[dim] != 1 || !isWhole)
      return false;
  }
  return true;
}

/// Whether `op` reads a leading size of a tensor.
static bool isTokenSize(Operation *op) {
  auto dim = dyn_cast<tensor::DimOp>(op);
  return dim && dim.getConstantIndex() &&
         *dim.getConstantIndex() + 1 <
             cast<RankedTensorType>(dim.getSource().getType()).getRank();
}

/// The slices of `linear` if they are all of its users, and one is the gate and
/// another the up projection of a gated MLP.
static SmallVector<tensor::ExtractSliceOp> getSlices(LinearOp linear) {
  SmallVector<tensor::ExtractSliceOp> slices;
  for (Operation *user : linear.getY().getUsers()) {
    if (isTokenSize(user))
      continue;
    auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
    if (!slice || slice->getBlock() != linear->getBlock() ||
        !takesFeatures(slice))
      return {};
    slices.push_back(slice);
  }
  auto isUp = [&](Value value) {
    auto slice = value.getDefiningOp<tensor::ExtractSliceOp>();
    return slice && slice.getSource() == linear.getY();
  };
  auto isGate = [&](tensor::ExtractSliceOp slice) {
    return llvm::any_of(slice->getUsers(), [&](Operation *user) {
      return isa<ActivationOp>(user) &&
             llvm::any_of(user->getUsers(), [&](Operation *product) {
               return isa<GatedMulOp>(product) &&
                      llvm::any_of(product->getOperands(), isUp);
             });
    });
  };
  if (llvm::none_of(slices, isGate))
    return {};
  return slices;
}

/// The rows of `tensor`, a weight or a vector, that `slice` needs.
static Value takeRows(OpBuilder &builder, tensor::ExtractSliceOp slice,
                      Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<OpFoldResult> offsets(type.getRank(), builder.getIndexAttr(0));
  SmallVector<OpFoldResult> strides(type.getRank(), builder.getIndexAttr(1));
  SmallVector<OpFoldResult> sizes =
      getAsIndexOpFoldResult(builder.getContext(), type.getShape());
  offsets[0] = slice.getMixedOffsets().back();
  sizes[0] = slice.getMixedSizes().back();
  strides[0] = slice.getMixedStrides().back();
  return tensor::ExtractSliceOp::create(builder, slice.getLoc(), tensor,
                                        offsets, sizes, strides);
}

unsigned fuse::splitMergedLinears(RewriterBase &rewriter, Block &block) {
  unsigned split = 0;
  for (LinearOp linear : llvm::make_early_inc_range(block.getOps<LinearOp>())) {
    // A dequantized weight would no longer be the result of its dequantize.
    if (isa_and_nonnull<DequantizeOp, DequantizeWeightOp>(
            linear.getWeight().getDefiningOp()))
      continue;
    // Only scales per channel have the rows of the weight.
    if (QuantAttr quant = linear.getQuantAttr();
        quant && quant.getWeights() != ScaleGranularity::Channel)
      continue;
    SmallVector<tensor::ExtractSliceOp> slices = getSlices(linear);
    if (slices.empty())
      continue;
    // Users are listed from the last to the first.
    llvm::sort(slices, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
    rewriter.setInsertionPoint(linear);
    for (tensor::ExtractSliceOp slice : slices) {
      IRMapping mapping;
      for (Value rows : SmallVector<Value, 3>{
               linear.getWeight(), linear.getBias(), linear.getChannelScale()})
        if (rows)
          mapping.map(rows, takeRows(rewriter, slice, rows));
      Operation *part = rewriter.clone(*linear, mapping);
      part->setLoc(slice.getLoc());
      auto type = cast<RankedTensorType>(part->getResult(0).getType());
      SmallVector<int64_t> shape(type.getShape());
      shape.back() = slice.getType().getShape().back();
      part->getResult(0).setType(type.clone(shape));
      Value replacement = part->getResult(0);
      if (replacement.getType() != slice.getType())
        replacement = tensor::CastOp::create(rewriter, slice.getLoc(),
                                             slice.getType(), replacement);
      remark::passed(slice.getLoc(),
                     remark::RemarkOpts::name("linear").category("raise"))
          << remark::metric("From", slice->getName().getStringRef());
      rewriter.replaceOp(slice, replacement);
      ++split;
    }
    // Leading sizes of the result are those of the input.
    rewriter.replaceOp(linear, linear.getX());
  }
  return split;
}
