//===- TensorExpr.h - Tensors as scalar expressions -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Represents one element of a tensor as a scalar expression over elements of
// other tensors. The producers can be arith and math on tensors, linalg.generic
// or named linalg ops, casts, broadcasts, reshapes that only add or remove unit
// dimensions, or reductions of one dimension.
//
// Every expression is a real number held in f32; narrower types appear only as
// `Round` nodes. A widening cast has no node. An op on a narrow type is the op
// in f32 followed by a rounding (the same bits for +, -, *, / and sqrt). Equal
// expressions are the same node, so that equality is pointer equality.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_TENSOREXPR_H
#define FUSE_ANALYSIS_TENSOREXPR_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/FoldingSet.h"

namespace fuse {

enum class ExprKind {
  /// An element of a tensor or a scalar whose producer is opaque.
  Leaf,
  Constant,
  Neg,
  Abs,
  Add,
  Sub,
  Mul,
  Div,
  /// Maximum and minimum that are NaN when an operand is.
  Max,
  Min,
  /// Maximum and minimum that replace NaN by the other operand.
  MaxNum,
  MinNum,
  Pow,
  Exp,
  Log,
  Log1p,
  Tanh,
  Erf,
  Erfc,
  Sqrt,
  Rsqrt,
  /// Rounding to an integral value: ties to even, or ties away from zero.
  RoundEven,
  RoundAway,
  /// Conversion to the narrower float type `type`.
  Round,
  /// Conversion to the integer type `type`, towards zero.
  ToInt,
  /// Sum of operand 0 over `variable` with the initial value operand 1. Every
  /// partial sum is rounded to `type`.
  Sum,
  /// Operand 1 where the comparison operand 0 holds, operand 2 elsewhere.
  Select,
  /// Operand of a select, with the predicate as `value`.
  Compare,
  /// Exists only while an expression is built.
  Accumulator
};

/// The index of each dimension of a tensor: a dimension of the tensor from
/// which an expression is viewed (0, 1, ...), `kZero` for a unit dimension, or
/// the variable of an enclosing sum.
using ExprIndex = llvm::SmallVector<int, 4>;
constexpr int kZeroIndex = -1;
constexpr int getSumVariable(unsigned depth) { return -2 - int(depth); }
constexpr bool isSumVariable(int index) { return index <= -2; }

/// A node of an expression. Nodes live as long as their TensorExprs.
struct Expr : llvm::FoldingSetNode {
  ExprKind kind;
  /// Element type of a leaf, target type of Round, ToInt and Sum.
  mlir::Type type;
  /// The value of a constant, or the predicate of a comparison.
  double value = 0.0;
  mlir::Value leaf;
  ExprIndex index;
  llvm::SmallVector<const Expr *, 2> operands;
  /// The variable that a sum binds.
  int variable = 0;

  /// Narrow types that represent the value exactly, one bit each.
  unsigned exactIn = 0;
  bool usesAccumulator = false;
  /// The op on tensors that computes this node; null for arguments.
  mlir::Operation *owner = nullptr;
  /// Tensors that hold this value, with its index in them. Those nearest to the
  /// leaves come first.
  llvm::SmallVector<std::pair<mlir::Value, ExprIndex>, 2> origins;

  const Expr *operand(unsigned i) const { return operands[i]; }
  bool isConstant() const { return kind == ExprKind::Constant; }
  bool isConstant(double number) const {
    return isConstant() && value == number;
  }
  void Profile(llvm::FoldingSetNodeID &id) const;
};

/// Builds and owns expressions. Valid until one of the viewed ops is erased.
class TensorExprs {
public:
  TensorExprs() = default;
  TensorExprs(const TensorExprs &) = delete;
  TensorExprs &operator=(const TensorExprs &) = delete;
  ~TensorExprs();

  /// The expression of one element of `tensor`, indexed by its dimensions.
  const Expr *get(mlir::Value tensor);
  const Expr *get(mlir::Value tensor, llvm::ArrayRef<int> index);

  /// The indices of all dimensions of `type`: 0, 1, ...
  static ExprIndex getIdentity(mlir::RankedTensorType type);

  /// A tensor of the shape `shape` that holds `expr` at index `index`, or
  /// null. Only tensors for which `accepts` returns true are considered.
  static mlir::Value findTensor(const Expr *expr, llvm::ArrayRef<int> index,
                                llvm::ArrayRef<int64_t> shape,
                                llvm::function_ref<bool(mlir::Value)> accepts);

private:
  const Expr *build(mlir::Value tensor, llvm::ArrayRef<int> index);
  const Expr *buildReshape(mlir::Operation *op, llvm::ArrayRef<int> index);
  const Expr *buildLinalg(mlir::OpResult result, llvm::ArrayRef<int> index);
  const Expr *buildScalar(mlir::Value scalar);
  const Expr *buildOp(mlir::Operation *op, mlir::Operation *owner,
                      llvm::ArrayRef<const Expr *> operands);
  const Expr *buildSelect(llvm::ArrayRef<const Expr *> operands,
                          mlir::Operation *owner);
  const Expr *buildSum(const Expr *body, const Expr *init, int variable,
                       mlir::Operation *owner);
  const Expr *getLeaf(mlir::Value value, llvm::ArrayRef<int> index);
  const Expr *getConstant(double value, mlir::Operation *owner);
  const Expr *getRound(mlir::Type type, const Expr *operand,
                       mlir::Operation *owner);
  const Expr *getNode(ExprKind kind, llvm::ArrayRef<const Expr *> operands,
                      mlir::Operation *owner, mlir::Type type = {},
                      double value = 0.0, int variable = 0);
  Expr *intern(Expr &&node);

  llvm::FoldingSet<Expr> nodes;
  llvm::SpecificBumpPtrAllocator<Expr> allocator;
  llvm::DenseMap<mlir::Value,
                 llvm::SmallVector<std::pair<ExprIndex, const Expr *>, 2>>
      views;
  unsigned depth = 0;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_TENSOREXPR_H
