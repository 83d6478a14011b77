//===- ChainMatch.h - Match chains of layer ops -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Matches chains of layer ops to kernel families without changing the IR. The
// result is a match, or a refusal with the first predicate that failed.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_CHAINMATCH_H
#define FUSE_ANALYSIS_CHAINMATCH_H

#include "fuse/Analysis/Refusal.h"
#include "fuse/IR/FuseOps.h"

#include <variant>

namespace fuse {

/// A chain of layer ops that one fused op can replace.
struct ChainMatch {
  struct Member {
    ChainMember name;
    mlir::Operation *op;
  };

  KernelFamily family;
  /// In the canonical order of the family's decomposition.
  llvm::SmallVector<Member> members;
  /// The member that the kernel replaces in the block: the first one after all
  /// operands of the kernel and all asserts among the members.
  mlir::Operation *anchor = nullptr;

  ResidualAddOp residual;
  /// RMSNormOp or LayerNormOp.
  mlir::Operation *norm = nullptr;
  QuantizeOp quantizeInput, quantizeHidden;
  /// The same with scales that are measured at run time, and the contract that
  /// all members share.
  DynamicQuantizeOp measureInput, measureHidden;
  QuantAttr quant;
  /// In the order of the family: gate, up, down; up, down; or all.
  llvm::SmallVector<LinearOp> linears;
  ActivationOp activation;
  GatedMulOp product;
  ResidualAddOp thenAdd;
  /// The other operand of `thenAdd` is the result of `residual`.
  bool addStream = false;
  bool qdq = false;
  /// Weights are stored, and nothing is quantized. Those of 4 bits have
  /// `quant`.
  bool weightOnly = false;
  /// Place of the bias add, the same for all linears with a bias.
  BiasPlace biasPlace = BiasPlace::BeforeRounding;
  /// The members whose operands are not in canonical order.
  llvm::SmallVector<ChainMember> commuted;
  /// Intermediates that have users outside of the chain: rounding point and
  /// value.
  llvm::SmallVector<std::pair<RoundingPoint, mlir::Value>> extras;
  /// Refusal of a longer chain: why the norm or the residual add before the
  /// kernel is not a member, or why no larger family matched.
  std::optional<Refusal> limit;

  /// Whether members dequantize the weights.
  bool dequantizesWeights() const { return qdq || weightOnly; }
  /// The input of the kernel, which its first member reads.
  mlir::Value getInput() const;
  /// The member with the role `name`, or null.
  mlir::Operation *getMember(ChainMember name) const;
  /// A user of a result that precedes the anchor, or null. Such a user, which
  /// may be a kernel formed after the match was made, prevents placing the
  /// kernel at the anchor.
  mlir::Operation *getUserBeforeAnchor() const;
  /// The values that the results of the kernel replace, extras last.
  llvm::SmallVector<mlir::Value> getResults() const;
};

using MatchOrRefusal = std::variant<ChainMatch, Refusal>;

/// Matches chains in one function. Members of a match are claimed: they cannot
/// be members of a later match.
class ChainMatcher {
public:
  /// Matches an MLP around an activation, or else an act_quantize.
  MatchOrRefusal matchAt(ActivationOp activation);
  /// Matches a norm_linear that starts at a norm, or else a norm_quantize.
  MatchOrRefusal matchAt(RMSNormOp norm) { return matchNorm(norm); }
  MatchOrRefusal matchAt(LayerNormOp norm) { return matchNorm(norm); }
  /// Matches a fused_linear, after all other chains are claimed. A linear
  /// without other members is not a site and has no refusal.
  std::optional<ChainMatch> matchAt(LinearOp linear);

  /// Refuses the function between `down` and the linears before it, if layer
  /// ops do not have it. Returns the op of that function which is nearest to
  /// `down`.
  std::optional<std::pair<mlir::Operation *, Refusal>>
  refuseUnknown(LinearOp down) const;

  void claim(const ChainMatch &match);
  bool isClaimed(mlir::Operation *op) const { return claimed.contains(op); }

private:
  MatchOrRefusal matchNorm(mlir::Operation *norm);

  llvm::DenseSet<mlir::Operation *> claimed;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_CHAINMATCH_H
