//===- ChainMatch.h - Find chains that make a kernel ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads chains of layer ops and says which kernel they make, or which
// predicate they fail. Changes nothing.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_CHAINMATCH_H
#define FUSE_ANALYSIS_CHAINMATCH_H

#include "fuse/Analysis/Refusal.h"
#include "fuse/IR/FuseOps.h"

#include <variant>

namespace fuse {

enum class KernelFamily {
  GatedMLP,
  MLP,
  NormLinear,
  NormQuantize,
  ActQuantize
};

/// Name of a family, the mnemonic of its op: `gated_mlp`, ...
llvm::StringLiteral getName(KernelFamily family);

/// A chain of layer ops that one fused op can replace.
struct ChainMatch {
  struct Member {
    llvm::StringLiteral name;
    mlir::Operation *op;
  };

  KernelFamily family;
  /// In the canonical order of the family's decomposition.
  llvm::SmallVector<Member> members;
  /// The member whose place in the block the kernel takes: the first one that
  /// all operands of the kernel precede.
  mlir::Operation *anchor = nullptr;

  ResidualAddOp residual;
  /// RMSNormOp or LayerNormOp.
  mlir::Operation *norm = nullptr;
  QuantizeOp quantizeInput, quantizeHidden;
  /// In the order of the family: gate, up, down; up, down; or all.
  llvm::SmallVector<LinearOp> linears;
  ActivationOp activation;
  GatedMulOp product;
  ResidualAddOp thenAdd;
  /// The other operand of `thenAdd` is the result of `residual`.
  bool addStream = false;
  bool qdq = false;
  /// Weights are stored, and nothing is quantized.
  bool weightOnly = false;
  /// Where all linears with a bias add it.
  BiasPlace biasPlace = BiasPlace::BeforeRounding;
  /// Names of the members whose operands are not in canonical order.
  llvm::SmallVector<llvm::StringLiteral> commuted;
  /// Intermediates that have users outside of the chain: rounding point and
  /// value.
  llvm::SmallVector<std::pair<llvm::StringLiteral, mlir::Value>> extras;
  /// Where a longer chain stopped: why the norm or the residual add in front
  /// of the kernel stayed outside, or why no larger family matched.
  std::optional<Refusal> limit;

  /// Members dequantize the weights.
  bool dequantizesWeights() const { return qdq || weightOnly; }
  /// The input of the kernel: what its first member reads.
  mlir::Value getInput() const;
  /// The member called `name`, or null.
  mlir::Operation *getMember(llvm::StringRef name) const;
  /// A user of a result that stands before the anchor, or null. A kernel can
  /// stand there only when there is none; another kernel that was formed since
  /// the match was made may be one.
  mlir::Operation *getUserBeforeAnchor() const;
  /// The values that the results of the kernel replace, extras last.
  llvm::SmallVector<mlir::Value> getResults() const;
};

using MatchOrRefusal = std::variant<ChainMatch, Refusal>;

/// Matches kernels in one function. Members of a match are claimed: no later
/// match takes them.
class ChainMatcher {
public:
  /// The MLP, or failing that the act_quantize, around an activation.
  MatchOrRefusal matchAt(ActivationOp activation);
  /// The norm_linear, or failing that the norm_quantize, behind a norm.
  MatchOrRefusal matchAt(RMSNormOp norm) { return matchNorm(norm); }
  MatchOrRefusal matchAt(LayerNormOp norm) { return matchNorm(norm); }

  void claim(const ChainMatch &match);
  bool isClaimed(mlir::Operation *op) const { return claimed.contains(op); }

private:
  MatchOrRefusal matchNorm(mlir::Operation *norm);

  llvm::DenseSet<mlir::Operation *> claimed;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_CHAINMATCH_H
