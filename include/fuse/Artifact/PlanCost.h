//===- PlanCost.h - Launches and bytes of plans -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_PLANCOST_H
#define FUSE_ARTIFACT_PLANCOST_H

#include "fuse/Artifact/Compiler.h"
#include "fuse/Transforms/Explain.h"

namespace fuse {

/// Counts what one call of each public function of a module costs, in the plans
/// that an artifact for this target would have. No code is generated, and the
/// module does not change. The options name a GPU or a CPU, not both.
///
/// `tokens` is the value of each dynamic dimension. On a GPU, a launch is a
/// kernel. On a CPU, it is a phase of the scheduled path, or a structured op of
/// the portable path, which becomes one loop nest.
llvm::Expected<std::vector<FunctionCost>>
countPlans(mlir::ModuleOp module, const CompileOptions &options,
           int64_t tokens);

/// Makes `fuse::explain` count savings on a GPU, or on a CPU if `chip` is
/// empty. Both are in the form of `CompileOptions`. Has no effect if both are
/// empty; fails if both are given or one is unknown.
llvm::Error setTarget(ExplainOptions &options, llvm::StringRef chip,
                      llvm::StringRef cpu);

} // namespace fuse

#endif // FUSE_ARTIFACT_PLANCOST_H
