//===- RaiseLayers.h - Shared declarations of the matchers ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A matcher inspects the expression of one tensor, the root, and builds the
// layer op that computes it. If the formula is nearly a layer, it records a
// refusal instead. Each family of layers has one file.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_RAISE_RAISELAYERS_H
#define FUSE_TRANSFORMS_RAISE_RAISELAYERS_H

#include "fuse/Analysis/Refusal.h"
#include "fuse/Analysis/TensorAlgebra.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/IR/PatternMatch.h"
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
  /// Whether `tensor` is defined before the root. A tensor with the value of an
  /// operand may be defined after it.
  bool sees(mlir::Value tensor) const;
};

/// Why a formula that is nearly a layer was refused.
struct LayerRefusal {
  /// Mnemonic of the layer op.
  llvm::StringRef layer;
  RefusalKind kind;
  /// The op at which the predicate failed; it may be replaced later.
  llvm::StringRef at;
  mlir::Location loc;
  /// The values that disagree; may be empty.
  std::string detail;
  mlir::Operation *root;
  /// The op that identifies the formula.
  mlir::Operation *anchor;
};

class LayerRaiser {
public:
  LayerRaiser(TensorExprs &exprs, mlir::RewriterBase &builder)
      : exprs(exprs), builder(builder) {}

  /// A tensor of the root's shape that holds `expr` in an element type that
  /// layer ops support, or null.
  mlir::Value getTensor(const LayerRoot &root, const Expr *expr) const;

  /// A vector of `size` entries that holds `expr`, which varies only with
  /// dimension `dim` of the root, or null. Unit dimensions are collapsed, which
  /// may create an op.
  mlir::Value getVector(const LayerRoot &root, const Expr *expr, int dim,
                        int64_t size);

  /// Records why the formula around `anchor`, the op that identifies it, is not
  /// a layer. Only the first refusal of an anchor is kept. Returns null.
  mlir::Value refuse(const LayerRoot &root, const Expr *anchor,
                     llvm::StringRef layer, RefusalKind kind, const Expr *at,
                     std::string detail = {});

  TensorExprs &exprs;
  mlir::RewriterBase &builder;
  llvm::MapVector<mlir::Operation *, LayerRefusal> refusals;
  /// Bounds of refused activations, which are not activations themselves.
  llvm::DenseSet<const Expr *> partsOfRefused;
  /// The transposes of weights that are stored as [in, out].
  llvm::DenseMap<mlir::Value, mlir::Value> transposed;
  /// Reshapes that collapse vectors; some may be unused.
  llvm::SmallVector<mlir::Operation *> collapsed;
};

/// The shortest decimal number that rounds to `value` in f32. This is the
/// number in the source, if its constants were converted to f32.
double getShortest(double value);

/// Matchers. Each returns the value that replaces the root, or null.
mlir::Value raiseNorm(LayerRaiser &raiser, const LayerRoot &root);
mlir::Value raiseActivation(LayerRaiser &raiser, const LayerRoot &root);
mlir::Value raiseLinear(LayerRaiser &raiser, const LayerRoot &root);
mlir::Value raiseQuantize(LayerRaiser &raiser, const LayerRoot &root);
mlir::Value raiseDequantize(LayerRaiser &raiser, const LayerRoot &root);
/// Matches residual adds, gated products, and biases of linear layers. Runs
/// after the other matchers, because only adjacent layers distinguish these
/// from other arithmetic.
mlir::Value raiseBinary(LayerRaiser &raiser, const LayerRoot &root);

/// Merges a rounding into the layer whose f32 result it rounds.
mlir::Value raiseRounding(LayerRaiser &raiser, const LayerRoot &root);

/// Merges casts to f32 into the layers that read them. Returns whether anything
/// changed.
bool absorbWideningCasts(mlir::RewriterBase &rewriter, mlir::Block &block);

/// Transposes stored values in place of dequantized ones, so that the
/// dequantize op of a weight precedes its linear. Returns whether anything
/// changed.
bool transposeStoredValues(mlir::RewriterBase &rewriter, mlir::Block &block);

/// Splits linears whose results are sliced into gate and up, and returns the
/// number of new linears.
unsigned splitMergedLinears(mlir::RewriterBase &rewriter, mlir::Block &block);

/// Number of leading operands of the layer op `op` that have the dimensions of
/// its result. The others are parameters.
unsigned getNumTokenOperands(mlir::Operation *op);

/// The input of the chain of layer ops that produces `value`. It has the same
/// leading dimensions.
mlir::Value getShapeSource(mlir::Value value);

/// Moves reshapes of leading dimensions out of chains of layer ops. Returns
/// whether anything changed.
bool sinkReshapes(mlir::RewriterBase &rewriter, mlir::Operation *function);

} // namespace fuse

#endif // FUSE_TRANSFORMS_RAISE_RAISELAYERS_H
