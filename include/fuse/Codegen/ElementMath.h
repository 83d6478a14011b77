//===- ElementMath.h - Arithmetic of layers on single elements --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the arithmetic of layer ops on scalars or vectors, for every path that
// lowers through upstream dialects.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_ELEMENTMATH_H
#define FUSE_CODEGEN_ELEMENTMATH_H

#include "fuse/IR/FuseAttrs.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace fuse {

mlir::Value constantF32(mlir::ImplicitLocOpBuilder &b, float value);
/// Widens a value to f32, which is exact.
mlir::Value widen(mlir::ImplicitLocOpBuilder &b, mlir::Value value);
/// Rounds an f32 value to f16, bf16 or f32.
mlir::Value roundTo(mlir::ImplicitLocOpBuilder &b, mlir::Value value,
                    mlir::Type element);
/// Converts an f32 value to f8E4M3FN, f8E5M2 or i8, with saturation.
mlir::Value saturateTo(mlir::ImplicitLocOpBuilder &b, mlir::Value value,
                       mlir::Type element);

/// The f32 value of a code of 4 bits, which is in the low bits of an i32. The
/// type is f4E2M1FN, i4 or ui4.
mlir::Value decodeFourBits(mlir::ImplicitLocOpBuilder &b, mlir::Value code,
                           mlir::Type type);
/// The f32 value `2^(byte - 127)` of the byte of an f8E8M0FNU in an i32.
mlir::Value decodeExponent(mlir::ImplicitLocOpBuilder &b, mlir::Value byte);

mlir::Value mul(mlir::ImplicitLocOpBuilder &b, mlir::Value lhs,
                mlir::Value rhs);
mlir::Value mul(mlir::ImplicitLocOpBuilder &b, mlir::Value lhs, float rhs);
mlir::Value add(mlir::ImplicitLocOpBuilder &b, mlir::Value lhs,
                mlir::Value rhs);
mlir::Value addOne(mlir::ImplicitLocOpBuilder &b, mlir::Value value);
/// Applies an activation function to an f32 value.
mlir::Value activate(mlir::ImplicitLocOpBuilder &b, Activation kind,
                     mlir::Value x);

/// `1 / sqrt(sum / count + eps)` of a scalar.
mlir::Value reciprocalRoot(mlir::ImplicitLocOpBuilder &b, mlir::Value sum,
                           int64_t count, float eps);
/// The f32 value of an RMS norm before its last rounding. `x` and `weight` have
/// the types of the op's operands. `weight` may be null.
mlir::Value normalizeRMS(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                         mlir::Value scale, mlir::Value weight, NormCast cast,
                         int64_t offset);
/// The f32 value of a layer norm before its last rounding. `centered` is the
/// input minus its mean. `weight` and `bias` may be null.
mlir::Value normalizeLayer(mlir::ImplicitLocOpBuilder &b, mlir::Value centered,
                           mlir::Value scale, mlir::Value weight,
                           mlir::Value bias);

} // namespace fuse

#endif // FUSE_CODEGEN_ELEMENTMATH_H
