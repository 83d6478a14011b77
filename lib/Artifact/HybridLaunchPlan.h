//===- HybridLaunchPlan.h - Plans with both kinds of kernels ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function with both paths: the scheduled path lowers some of its ops, the
// portable path the ops around them. In the portable path each scheduled op is
// one placeholder launch. The launches for all ranges of tokens replace it when
// the plan is written.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_HYBRIDLAUNCHPLAN_H
#define FUSE_ARTIFACT_HYBRIDLAUNCHPLAN_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <string>

namespace fuse {

/// A launch of a scheduled op.
struct MixedLaunch {
  std::string kernel;
  mlir::DictionaryAttr plan;
  /// The launch's operands, as indices of the op's operands.
  llvm::SmallVector<unsigned> operands;
};

/// The launches of a scheduled op up to a number of tokens.
struct HybridRange {
  int64_t upTo;
  llvm::SmallVector<MixedLaunch> launches;
};

/// A scheduled op. The first operand has one row per token.
struct HybridOp {
  mlir::Location loc;
  size_t numOperands;
  llvm::SmallVector<HybridRange> ranges;
};

/// Replaces tile launches and dispatches in a function on tensors by one launch
/// on buffers per op. Its attribute `fuse.tile_plan` is the index in `ops`, to
/// which the op is added. Its operands are those of the op, the results, and
/// the number of tokens. Returns false and changes nothing if the launches
/// cannot be placed among others, for example if packed weights are not
/// arguments.
bool lowerHybridOps(mlir::func::FuncOp function,
                    llvm::SmallVectorImpl<HybridOp> &ops);

/// Replaces the launches of `plan` that have an index `tile`, and returns the
/// plan in the form of the manifest. Its buffers and launches are in one
/// alternative per range, or directly in the plan if there is one range.
/// `getModule` returns the number of the module that contains a scheduled
/// kernel.
llvm::Expected<llvm::json::Object>
writeHybridPlan(const llvm::json::Object &plan, llvm::ArrayRef<HybridOp> ops,
                llvm::function_ref<size_t(llvm::StringRef)> getModule);

} // namespace fuse

#endif // FUSE_ARTIFACT_HYBRIDLAUNCHPLAN_H
