//===- FuseVerify.h - Type rules of layers ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One rule per layer, used by the layer op itself and by every fused op that
// has such a member.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEVERIFY_H
#define FUSE_IR_FUSEVERIFY_H

#include "fuse/IR/FuseOps.h"

namespace fuse {

/// Starts an error at the op under verification.
using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// An operand that is not optional, with its index among the operand groups.
struct RequiredOperand {
  unsigned group;
  llvm::StringRef name;
};

/// The operands that an op can not do without are there, once each. Segment
/// sizes come from outside in the generic syntax, and generated verifiers do
/// not check those of required operands.
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

/// A tensor has a static, positive feature dimension, and no more elements
/// than index arithmetic can address.
mlir::LogicalResult verifyTensor(EmitError emitError, llvm::StringRef name,
                                 mlir::RankedTensorType type);

/// Two tensors have the same shape, as far as both are static, and the second
/// is one that `verifyTensor` accepts.
mlir::LogicalResult verifySameShape(EmitError emitError,
                                    llvm::StringRef firstName,
                                    mlir::RankedTensorType first,
                                    llvm::StringRef secondName,
                                    mlir::RankedTensorType second);

/// A vector has one entry per index of a dimension of size `size`. A null
/// `type` is an absent operand.
mlir::LogicalResult verifyVector(EmitError emitError, llvm::StringRef name,
                                 mlir::RankedTensorType type,
                                 llvm::StringRef sizeName, int64_t size);

mlir::LogicalResult verifyNorm(EmitError emitError, NormKind kind,
                               mlir::RankedTensorType x,
                               mlir::RankedTensorType weight,
                               mlir::RankedTensorType bias, mlir::FloatAttr eps,
                               int64_t offset, mlir::RankedTensorType y);

/// Types of a linear map; null where an operand is absent.
struct LinearTypes {
  mlir::RankedTensorType x, weight, bias, channelScale, y;
};
mlir::LogicalResult verifyLinear(EmitError emitError, const LinearTypes &types);

bool isQuantized(mlir::Type elementType);

/// Byte offsets stay far from the limits of 64-bit index arithmetic.
constexpr int64_t kMaxElements = int64_t(1) << 48;
/// Whether a tensor has no more elements than that, in its static dimensions
/// that are not empty.
bool isAddressable(mlir::RankedTensorType type);

} // namespace fuse

#endif // FUSE_IR_FUSEVERIFY_H
