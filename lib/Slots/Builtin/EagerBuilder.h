//===- EagerBuilder.h - Build eager bodies of slots -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Eager bodies are the reference of generated kernels and share no code with
// them. Each PyTorch op is one structured op that computes in f32 and rounds to
// the type of its result.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_BUILTIN_EAGERBUILDER_H
#define FUSE_SLOTS_BUILTIN_EAGERBUILDER_H

#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace fuse {

/// An operand of a structured op and the loop of each of its dimensions. A
/// static size of 1 is broadcast along a longer loop.
struct EagerInput {
  mlir::Value tensor;
  llvm::SmallVector<unsigned> loops;
};

class EagerBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using ScalarFn = llvm::function_ref<mlir::Value(mlir::ImplicitLocOpBuilder &,
                                                  mlir::ValueRange)>;

  EagerBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : ImplicitLocOpBuilder(loc, builder) {}

  /// Builds one op over loops of the given sizes. The result varies along
  /// `loops`. The other loops are reductions with the initial value `init`; the
  /// last argument of the body is the partial result. Floating-point arguments
  /// of the body are f32, and an f32 result is rounded to `element`.
  mlir::Value nest(llvm::ArrayRef<mlir::OpFoldResult> sizes,
                   llvm::ArrayRef<EagerInput> inputs, mlir::Type element,
                   llvm::ArrayRef<unsigned> loops, mlir::TypedAttr init,
                   ScalarFn body);

  /// Builds an elementwise op with broadcasting, aligned at the last dimension.
  /// The first operand has the rank of the result.
  mlir::Value pointwise(mlir::Type element, llvm::ArrayRef<mlir::Value> tensors,
                        ScalarFn body);
  /// The sum or maximum along the last dimension in f32. The dimension keeps
  /// size 1.
  mlir::Value sum(mlir::Value tensor);
  mlir::Value maximum(mlir::Value tensor);
  mlir::Value mean(mlir::Value tensor);

  mlir::Value convert(mlir::Value tensor, mlir::Type element);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs);
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs);
  mlir::Value neg(mlir::Value tensor);
  mlir::Value exp(mlir::Value tensor);
  mlir::Value log(mlir::Value tensor);
  /// `1 / sqrt(tensor + eps)`.
  mlir::Value rsqrt(mlir::Value tensor, double eps);
  mlir::Value activation(Activation kind, mlir::Value tensor);
  /// `x @ weight^T`.
  mlir::Value linear(mlir::Value x, mlir::Value weight);

  /// Extracts `size` elements of dimension `dim`, starting at `offset`.
  mlir::Value slice(mlir::Value tensor, unsigned dim, int64_t offset,
                    int64_t size);
  /// Casts to a type with more or fewer static sizes.
  mlir::Value castTo(mlir::Value tensor, mlir::Type type);
  /// Concatenates tensors along the last dimension, which is static.
  mlir::Value concat(llvm::ArrayRef<mlir::Value> tensors);

  /// A scalar constant in a body.
  static mlir::Value constant(mlir::ImplicitLocOpBuilder &b, double value);

  mlir::OpFoldResult size(mlir::Value tensor, unsigned dim);
  llvm::SmallVector<mlir::OpFoldResult> sizes(mlir::Value tensor);
};

/// The element type of a tensor.
mlir::Type elementOf(mlir::Value tensor);
/// The result type of an op on both types.
mlir::Type promote(mlir::Type lhs, mlir::Type rhs);

} // namespace fuse

#endif // FUSE_SLOTS_BUILTIN_EAGERBUILDER_H
