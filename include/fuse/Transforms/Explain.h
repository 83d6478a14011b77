//===- Explain.h - Explain the fusion of each site --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TRANSFORMS_EXPLAIN_H
#define FUSE_TRANSFORMS_EXPLAIN_H

#include "fuse/Analysis/Refusal.h"
#include "mlir/IR/Operation.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>
#include <vector>

namespace fuse {

/// Savings of a kernel over one launch per member.
struct SiteGain {
  int64_t launches = 0;
  /// Bytes that the members read and write, minus those of the kernel.
  int64_t bytes = 0;
  /// Floating-point operations of the linears, which fusion does not change.
  /// Unknown without bodies.
  std::optional<int64_t> flops;

  SiteGain &operator+=(const SiteGain &other);
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
  /// Gain, or for a refused site the predicted gain. The prediction is exact if
  /// the bodies of the members form kernels; otherwise it is the traffic
  /// between members or ops. Unknown for declared kernels and for sites that
  /// are not a chain.
  std::optional<SiteGain> gain;
  /// Tied parameters of the members: `name = owner`.
  std::vector<std::string> tied;
  /// Recipes of the weights that the kernel stores in place of parameters.
  std::vector<std::string> weights;
};

struct Explanation {
  std::vector<SiteReport> sites;
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
};

/// Fuses a copy of `root` and reports on every site.
llvm::FailureOr<Explanation> explain(mlir::Operation *root,
                                     const ExplainOptions &options);

void printText(const Explanation &explanation, llvm::raw_ostream &os);
llvm::json::Value toJSON(const Explanation &explanation);
/// Prints one self-contained page without external links.
void printHTML(const Explanation &explanation, llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_TRANSFORMS_EXPLAIN_H
