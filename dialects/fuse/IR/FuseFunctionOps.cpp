//===- FuseFunctionOps.cpp - Verifiers of function ops --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseVerify.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fuse;

/// Verifies that two operands have the same element type.
static LogicalResult verifySameElements(EmitError emitError,
                                        StringRef firstName,
                                        RankedTensorType first,
                                        StringRef secondName,
                                        RankedTensorType second) {
  if (first.getElementType() != second.getElementType())
    return emitError() << "'" << firstName << "' and '" << secondName
                       << "' must have the same element type, got "
                       << first.getElementType() << " and "
                       << second.getElementType();
  return success();
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

LogicalResult RotaryOp::verify() {
  auto emitError = [&] { return emitOpError(); };
  RankedTensorType x = getX().getType(), cos = getCos().getType();
  RankedTensorType sin = getSin().getType();
  if (failed(verifyTensor(emitError, "x", x)) ||
      failed(verifyTensor(emitError, "cos", cos)) ||
      failed(verifySameShape(emitError, "cos", cos, "sin", sin)) ||
      failed(verifySameElements(emitError, "cos", cos, "sin", sin)) ||
      failed(verifySameShape(emitError, "x", x, "y", getY().getType())))
    return failure();
  if (cos.getRank() != x.getRank() - 1)
    return emitOpError("'cos' must have all dimensions of 'x' except 'heads', "
                       "got ")
           << x << " and " << cos;
  int64_t heads = getHeads(), last = x.getRank() - 1;
  if (heads < 0 || heads >= last)
    return emitOpError("'heads' must be a dimension of 'x' before the last, "
                       "which is ")
           << last << ", got " << heads;
  int64_t turned = cos.getShape().back(), features = x.getShape().back();
  if (turned % 2 != 0)
    return emitOpError("'cos' must have an even number of features, got ")
           << turned;
  if (turned > features)
    return emitOpError("'cos' has ")
           << turned << " features, 'x' has " << features;
  for (int64_t dim = 0; dim + 1 < cos.getRank(); ++dim) {
    int64_t dimOfX = dim < heads ? dim : dim + 1;
    int64_t size = cos.getDimSize(dim), sizeOfX = x.getDimSize(dimOfX);
    if (size == 1 || ShapedType::isDynamic(size) ||
        ShapedType::isDynamic(sizeOfX) || size == sizeOfX)
      continue;
    return emitOpError("dimension ")
           << dim << " of 'cos' must be 1 or equal dimension " << dimOfX
           << " of 'x', got " << size << " and " << sizeOfX;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Cross entropy
//===----------------------------------------------------------------------===//

LogicalResult CrossEntropyOp::verify() {
  auto emitError = [&] { return emitOpError(); };
  RankedTensorType logits = getLogits().getType();
  RankedTensorType labels = getLabels().getType();
  if (failed(verifyTensor(emitError, "logits", logits)))
    return failure();
  if (labels.getRank() == 0 ||
      failed(verifyCompatibleShape(logits.getShape().drop_back(),
                                   labels.getShape())))
    return emitOpError("'labels' must have the dimensions of 'logits' except "
                       "the last, and at least one, got ")
           << logits << " and " << labels;
  int64_t ignored = getIgnoreIndex();
  if (labels.getElementType().isInteger(32) &&
      ignored != static_cast<int32_t>(ignored))
    return emitOpError("'ignore_index' must be an i32 like the labels, got ")
           << ignored;
  if (getItems() && getItems().getType().getRank() != 0)
    return emitOpError("'items' must be one number, got ")
           << getItems().getType();
  if (getItems() && getReduction() == LossReduction::Mean)
    return emitOpError("supports 'items' only with 'sum'");
  if (getLoss().getType().getRank() != 0)
    return emitOpError("'loss' must be one number, got ")
           << getLoss().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

LogicalResult MoEExpertsOp::verify() {
  auto emitError = [&] { return emitOpError(); };
  RankedTensorType x = getX().getType(), index = getIndex().getType();
  RankedTensorType gateUp = getGateUp().getType(), down = getDown().getType();
  if (x.getRank() != 2)
    return emitOpError("'x' must be a [token, feature] matrix, got ") << x;
  if (failed(verifyTensor(emitError, "x", x)) ||
      failed(verifySameShape(emitError, "x", x, "y", getY().getType())))
    return failure();
  if (index.getRank() != 2 ||
      failed(verifyCompatibleShape(x.getShape().drop_back(),
                                   index.getShape().drop_back())))
    return emitOpError("'index' must be a matrix with a row per token, got ")
           << x << " and " << index;
  if (failed(verifyTensor(emitError, "index", index)) ||
      failed(verifySameShape(emitError, "index", index, "weights",
                             getWeights().getType())) ||
      failed(verifySameElements(emitError, "x", x, "gate_up", gateUp)) ||
      failed(verifySameElements(emitError, "x", x, "down", down)))
    return failure();
  if (down.getRank() != 3 || !down.hasStaticShape() ||
      down.getDimSize(1) != x.getDimSize(1))
    return emitOpError("'down' must be a static [expert, ")
           << x.getDimSize(1) << ", hidden] tensor, got " << down;
  if (failed(verifyTensor(emitError, "down", down)))
    return failure();
  SmallVector<int64_t> expected = {down.getDimSize(0), 2 * down.getDimSize(2),
                                   x.getDimSize(1)};
  if (gateUp.getShape() != ArrayRef<int64_t>(expected))
    return emitOpError("'gate_up' must be ")
           << RankedTensorType::get(expected, x.getElementType())
           << " to match 'down', got " << gateUp;
  if (gateUp.getDimSize(0) == 0)
    return emitOpError("needs at least one expert, got ") << gateUp;
  return verifyTensor(emitError, "gate_up", gateUp);
}
