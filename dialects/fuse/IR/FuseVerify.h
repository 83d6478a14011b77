//===- FuseVerify.h - Type rules of layers ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One rule per layer op, for the layer op and for fused ops with such a member.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEVERIFY_H
#define FUSE_IR_FUSEVERIFY_H

#include "fuse/IR/FuseOps.h"

namespace fuse {

/// Starts an error at the op under verification.
using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// A required operand, with its index among the operand groups.
struct RequiredOperand {
  unsigned group;
  llvm::StringRef name;
};

/// Verifies that each required operand is present once. The generic syntax can
/// have any segment sizes, and generated verifiers do not check those of
/// required operands.
template <typename OpTy>
mlir::LogicalResult verifyRequired(OpTy op,
                                   llvm::ArrayRef<RequiredOperand> required) {
  for (RequiredOperand operand : required) {
    int32_t size = op.getProperties().operandSegmentSizes[operand.group];
    if (size != 1)
      return op.emitOpError()
             << "needs one operand '" << operand.name << "', got " << size;
  }
  return mlir::success();
}

/// Verifies that a tensor has a static, positive feature dimension and is
/// addressable.
mlir::LogicalResult verifyTensor(EmitError emitError, llvm::StringRef name,
                                 mlir::RankedTensorType type);

/// Verifies that two tensors have the same shape in dimensions that are static
/// in both, and verifies the second by `verifyTensor`.
mlir::LogicalResult verifySameShape(EmitError emitError,
                                    llvm::StringRef firstName,
                                    mlir::RankedTensorType first,
                                    llvm::StringRef secondName,
                                    mlir::RankedTensorType second);

/// Verifies that a vector has one entry per index of a dimension of size
/// `size`. A null `type` is an absent operand.
mlir::LogicalResult verifyVector(EmitError emitError, llvm::StringRef name,
                                 mlir::RankedTensorType type,
                                 llvm::StringRef sizeName, int64_t size);

mlir::LogicalResult verifyNorm(EmitError emitError, NormKind kind,
                               mlir::RankedTensorType x,
                               mlir::RankedTensorType weight,
                               mlir::RankedTensorType bias, mlir::FloatAttr eps,
                               int64_t offset, mlir::RankedTensorType y);

/// Types of a linear map, and its attribute; null for an absent operand.
struct LinearTypes {
  mlir::RankedTensorType x, weight, bias, channelScale, y;
  QuantAttr quant = {};
};
mlir::LogicalResult verifyLinear(EmitError emitError, const LinearTypes &types);

/// Verifies a weight of 4 bits and its scales, and sets the type of its real
/// values, with elements of type `element`.
mlir::LogicalResult verifyPackedWeight(EmitError emitError, QuantAttr quant,
                                       mlir::RankedTensorType q,
                                       mlir::TypeRange scales,
                                       mlir::Type element,
                                       mlir::RankedTensorType &result);

/// Verifies that a dynamic quantize op can have `quant`: the storage type, and
/// groups that divide the features of `x`.
mlir::LogicalResult verifyDynamicInput(EmitError emitError, QuantAttr quant,
                                       mlir::RankedTensorType x,
                                       mlir::Type storage);

bool isQuantized(mlir::Type elementType);

/// Maximum number of elements of a tensor. Byte offsets then stay far below the
/// limit of 64-bit index arithmetic.
constexpr int64_t kMaxElements = int64_t(1) << 48;
/// Whether the product of the static, nonzero dimensions of a tensor is at most
/// `kMaxElements`.
bool isAddressable(mlir::RankedTensorType type);

} // namespace fuse

#endif // FUSE_IR_FUSEVERIFY_H
