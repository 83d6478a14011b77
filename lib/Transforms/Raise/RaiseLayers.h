//===- RaiseLayers.h - What the matchers of layers share --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A matcher looks at the expression of one tensor, the root, and builds the
// layer op that computes it, or says why it could not although the formula is
// nearly that of a layer. One file per family of layers.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_RAISE_RAISELAYERS_H
#define FUSE_TRANSFORMS_RAISE_RAISELAYERS_H

#include "fuse/Analysis/Refusal.h"
#include "fuse/Analysis/TensorAlgebra.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"

namespace fuse {

/// A tensor that may be the result of a layer.
struct LayerRoot {
  mlir::OpResult value;
  mlir::RankedTensorType type;
  ExprIndex index;
  const Expr *expr;
  /// `expr` without the rounding to the element type of `type`.
  const Expr *body;

  mlir::Operation *op() const { return value.getOwner(); }
  mlir::Location loc() const { return op()->getLoc(); }
  int lastDim() const { return int(type.getRank()) - 1; }
  int64_t features() const { return type.getShape().back(); }
  mlir::Type element() const { return type.getElementType(); }
  /// Whether `tensor` is there where the root is computed. One that holds the
  /// same as an operand may be made behind it.
  bool sees(mlir::Value tensor) const;
};

/// Why a formula that is nearly a layer was left alone.
struct LayerMiss {
  /// Mnemonic of the layer op.
  llvm::StringRef layer;
  RefusalKind kind;
  /// The op at which the predicate failed; it may be replaced later.
  llvm::StringRef at;
  mlir::Location loc;
  /// The values that disagree; may be empty.
  std::string detail;
  mlir::Operation *root;
};

class LayerRaiser {
public:
  LayerRaiser(TensorExprs &exprs, mlir::OpBuilder &builder)
      : exprs(exprs), builder(builder) {}

  /// A tensor of the root's shape that holds `expr` in a type that layer ops
  /// take, or null.
  mlir::Value getTensor(const LayerRoot &root, const Expr *expr) const;

  /// A vector that holds `expr`, which varies with dimension `dim` of the
  /// root only; null when there is none of `size` entries. Unit dimensions
  /// are collapsed, which may create an op.
  mlir::Value getVector(const LayerRoot &root, const Expr *expr, int dim,
                        int64_t size);

  /// Records why the formula around `anchor`, the op that gives it away, is
  /// not a layer. The first reason for an anchor stays. Returns null.
  mlir::Value miss(const LayerRoot &root, const Expr *anchor,
                   llvm::StringRef layer, RefusalKind kind, const Expr *at,
                   std::string detail = {});

  TensorExprs &exprs;
  mlir::OpBuilder &builder;
  llvm::MapVector<mlir::Operation *, LayerMiss> misses;
  /// Collapsed vectors, some of which may be unused.
  llvm::SmallVector<mlir::Operation *> collapsed;
};

/// The shortest number that is `value` in f32: what was written, where
/// constants were converted to f32.
double getShortest(double value);

/// Each returns the value that replaces the root, or null.
mlir::Value raiseNorm(LayerRaiser &raiser, const LayerRoot &root);
mlir::Value raiseActivation(LayerRaiser &raiser, const LayerRoot &root);
mlir::Value raiseLinear(LayerRaiser &raiser, const LayerRoot &root);
mlir::Value raiseQuantize(LayerRaiser &raiser, const LayerRoot &root);
mlir::Value raiseDequantize(LayerRaiser &raiser, const LayerRoot &root);
/// Residual adds, gated products, and biases of linear layers; after the
/// others, since these are told from other arithmetic by their neighbours.
mlir::Value raiseBinary(LayerRaiser &raiser, const LayerRoot &root);

/// Lets a layer whose f32 result is only rounded do that itself.
mlir::Value raiseRounding(LayerRaiser &raiser, const LayerRoot &root);

/// Lets layers read what was widened to f32 for them.
void absorbWideningCasts(mlir::Block &block);

/// How many operands of `op` carry the dimensions of its result, those of a
/// layer op that are not parameters. They come first.
unsigned getNumTokenOperands(mlir::Operation *op);

/// Moves reshapes of leading dimensions out of chains of layer ops.
void sinkReshapes(mlir::Operation *function);

} // namespace fuse

#endif // FUSE_TRANSFORMS_RAISE_RAISELAYERS_H
