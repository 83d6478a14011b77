//===- Refusal.h - Reasons why sites are not fused --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_REFUSAL_H
#define FUSE_ANALYSIS_REFUSAL_H

#include "mlir/IR/Operation.h"

namespace fuse {

/// The predicates that a site can fail.
enum class RefusalKind {
#define FUSE_REFUSAL(enumerator, id, name, reason, suggestion) enumerator,
#include "fuse/Analysis/Refusals.def"
};

/// The texts of a predicate, the same in all reports.
struct RefusalText {
  /// Stable id, `FUSE-Nxxx`.
  llvm::StringLiteral id;
  /// Stable name in dashes.
  llvm::StringLiteral name;
  llvm::StringLiteral reason;
  llvm::StringLiteral suggestion;
};

const RefusalText &getText(RefusalKind kind);

/// The first predicate that a site failed, and the op at which it failed.
struct Refusal {
  Refusal(RefusalKind kind, mlir::Operation *op)
      : kind(kind), at(op->getName()) {}

  RefusalKind kind;
  /// Name of the op, which may be erased before the refusal is reported.
  mlir::OperationName at;
};

} // namespace fuse

#endif // FUSE_ANALYSIS_REFUSAL_H
