//===- Explain.h - Which sites are fused, which not, and why ----*- C++ -*-===//
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

/// What a kernel saves over one launch per member.
struct SiteGain {
  int64_t launches = 0;
  /// Bytes that members read and write, less those that the kernel does.
  int64_t bytes = 0;
  /// Floating-point operations of the linears; they are the same fused.
  /// Unknown where there are no bodies.
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
  /// Why the site is not fused, and at which op.
  std::optional<RefusalKind> refusal;
  std::string detail, at, location;
  /// Of a refused site, what it would gain: exactly, where the bodies of its
  /// members make kernels, otherwise what is between members or ops. Unknown
  /// for kernels from outside and for sites that are no chain.
  std::optional<SiteGain> gain;
  /// Parameters of members that are other names of a tensor: `name = owner`.
  std::vector<std::string> tied;
  /// What the kernel stores in place of parameters.
  std::vector<std::string> weights;
};

struct Explanation {
  std::vector<SiteReport> sites;
  /// The program before and after fusion.
  std::string before, after;
};

struct ExplainOptions {
  /// As in `fuse-match-modules`; without any, only ops are fused.
  std::vector<std::string> patterns;
  std::string target;
  /// Files with patterns and kernels, as in `fuse-match-modules`.
  std::vector<std::string> libraries = {};
  /// What dynamic dimensions count as, up to what two of them can be of a
  /// tensor whose bytes are counted.
  int64_t tokens = 1;
  static constexpr int64_t kMaxTokens = int64_t(1) << 20;
};

/// Fuses a copy of `root` and reports on every site.
llvm::FailureOr<Explanation> explain(mlir::Operation *root,
                                     const ExplainOptions &options);

void printText(const Explanation &explanation, llvm::raw_ostream &os);
llvm::json::Value toJSON(const Explanation &explanation);
/// One page without links to anything outside.
void printHTML(const Explanation &explanation, llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_TRANSFORMS_EXPLAIN_H
