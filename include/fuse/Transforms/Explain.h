//===- Explain.h - Explain the fusion of each site --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_EXPLAIN_H
#define FUSE_TRANSFORMS_EXPLAIN_H

#include "fuse/Analysis/Refusal.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fuse {

/// The layer ops of a site. This does not depend on a target, so it says
/// nothing about savings.
struct SiteChain {
  int64_t layers = 0;
  /// Bytes that layers write for other layers of the site, and that these read.
  int64_t bytes = 0;
  /// Floating-point operations of the linears. Unknown without bodies.
  std::optional<int64_t> flops;

  SiteChain &operator+=(const SiteChain &other);
};

/// What a call costs, counted in the plan for a target.
struct PlanCost {
  int64_t launches = 0;
  /// Bytes of the buffers that launches take. A launch counts a buffer once.
  int64_t bytes = 0;

  PlanCost &operator+=(const PlanCost &other) {
    launches += other.launches;
    bytes += other.bytes;
    return *this;
  }
  PlanCost operator-(const PlanCost &other) const {
    return {launches - other.launches, bytes - other.bytes};
  }
};

/// The cost of one call of a public function.
struct FunctionCost {
  std::string name;
  PlanCost cost;
};

/// What one rank of tensor parallelism has of a kernel.
struct RankShare {
  std::string axis;
  int64_t count = 0;
  /// Bytes of the parameters on one rank and on all, a whole parameter once.
  int64_t localBytes = 0, wholeBytes = 0;
  /// Bytes of the partial results in f32 that a rank adds to those of others.
  int64_t reducedBytes = 0;

  RankShare &operator+=(const RankShare &other);
  std::string toText() const;
};

/// One candidate site.
struct SiteReport {
  std::string id;
  /// `modules` or `ops`.
  std::string level;
  /// Kernel of a fused site.
  std::string kernel;
  std::vector<std::string> members;
  /// Reason why the site is not fused, and the op that failed the predicate.
  std::optional<RefusalKind> refusal;
  std::string detail, at, location;
  /// The layer ops of the kernel, or for a refused site those that a kernel
  /// would have. They are exact if the bodies of the members form kernels;
  /// otherwise the members or ops count. Unknown for declared kernels and for
  /// sites that are not a chain.
  std::optional<SiteChain> chain;
  /// What a call costs less than without this kernel. Unknown without a target.
  std::optional<PlanCost> saved;
  /// Unknown without tensor parallelism.
  std::optional<RankShare> share;
  /// Tied parameters of the members: `name = owner`.
  std::vector<std::string> tied;
  /// Recipes of the weights that the kernel stores in place of parameters.
  std::vector<std::string> weights;
};

/// The costs of a function on the target.
struct FunctionReport {
  std::string name;
  PlanCost unfused, fused;
};

struct Explanation {
  std::vector<SiteReport> sites;
  /// The target whose plans were counted; empty without one.
  std::string target;
  std::vector<FunctionReport> functions;
  /// Why the plans could not be counted.
  std::string problem;
  /// The program before and after fusion.
  std::string before, after;
};

struct ExplainOptions {
  /// Patterns, as in `fuse-match-modules`. Without patterns, only ops are
  /// fused.
  std::vector<std::string> patterns;
  std::string target;
  /// Files with patterns and kernels, as in `fuse-match-modules`.
  std::vector<std::string> libraries = {};
  /// Size assumed for dynamic dimensions. The maximum keeps the byte count of a
  /// tensor with two dynamic dimensions from overflowing.
  int64_t tokens = 1;
  static constexpr int64_t kMaxTokens = int64_t(1) << 20;
  /// Counts the cost of each public function on the target `countedFor`, see
  /// `fuse/Artifact/PlanCost.h`. Savings are unknown without it.
  std::function<llvm::Expected<std::vector<FunctionCost>>(mlir::ModuleOp)>
      countPlans = nullptr;
  std::string countedFor;
};

/// Raises and fuses a copy of `module`, and reports on every site.
llvm::FailureOr<Explanation> explain(mlir::ModuleOp module,
                                     const ExplainOptions &options);

void printText(const Explanation &explanation, llvm::raw_ostream &os);
llvm::json::Value toJSON(const Explanation &explanation);
/// Prints one self-contained page without external links.
void printHTML(const Explanation &explanation, llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_TRANSFORMS_EXPLAIN_H
