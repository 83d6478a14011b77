//===- LaunchSizes.h - Sizes as affine expressions --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_LOWERING_LAUNCHSIZES_H
#define FUSE_TRANSFORMS_LOWERING_LAUNCHSIZES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

namespace fuse {

/// Evaluates index values in the host code of one function to affine
/// expressions over the sizes of its arguments. If a value is not such an
/// expression, its defining op emits an error.
class LaunchSizes {
public:
  /// Argument number and dimension.
  using Symbol = std::pair<int64_t, int64_t>;

  /// Sizes that `fuse.equal_sizes` of the function calls equal have one symbol.
  explicit LaunchSizes(mlir::func::FuncOp function);

  llvm::FailureOr<mlir::AffineExpr> evaluate(mlir::Value value);
  llvm::FailureOr<mlir::AffineExpr> evaluateDim(mlir::Value buffer,
                                                unsigned dim);
  /// The product of sizes `[from, to)` of a buffer.
  llvm::FailureOr<mlir::AffineExpr> multiplySizes(mlir::Value buffer,
                                                  int64_t from, int64_t to);
  /// The symbols of all expressions so far; the position is the symbol's
  /// number.
  const llvm::SetVector<Symbol> &getSymbols() const { return symbols; }

private:
  llvm::FailureOr<mlir::AffineExpr> evaluate(mlir::OpFoldResult value);
  llvm::FailureOr<mlir::AffineExpr> evaluateStride(mlir::Value buffer,
                                                   unsigned dim);
  llvm::FailureOr<mlir::AffineExpr> evaluateOffset(mlir::Value buffer);
  llvm::FailureOr<mlir::AffineExpr>
  evaluateMetadata(mlir::memref::ExtractStridedMetadataOp op,
                   mlir::Value result);
  mlir::AffineExpr getSymbol(Symbol symbol);
  llvm::LogicalResult emitHidden(mlir::BlockArgument argument,
                                 llvm::StringRef what);

  mlir::func::FuncOp function;
  mlir::Builder builder;
  llvm::SetVector<Symbol> symbols;
  /// The representative of each size that has equal ones.
  llvm::DenseMap<Symbol, Symbol> equal;
};

/// Whether an expression of sizes is certainly not negative. Signed and
/// unsigned arithmetic agree on such values.
bool isNonNegative(mlir::AffineExpr expr);

} // namespace fuse

#endif // FUSE_TRANSFORMS_LOWERING_LAUNCHSIZES_H
