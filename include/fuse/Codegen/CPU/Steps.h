//===- Steps.h - A function as steps on tokens ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_CPU_STEPS_H
#define FUSE_CODEGEN_CPU_STEPS_H

#include "fuse/Schedule/MlpProblem.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace fuse {

/// What a kernel for a CPU does to every token in one go: either `problem`,
/// which is a fused op, a norm or a linear, or `maps`, which are elementwise
/// ops of values of one width.
struct CPUStep {
  MlpProblem problem;
  llvm::SmallVector<mlir::Operation *> maps;
};

/// Describes the body of a function, or says in `reason` what it cannot be made
/// of. Empty without a reason if there is no fused op: such functions are not
/// meant for kernels.
std::vector<CPUStep> describeSteps(mlir::func::FuncOp function,
                                   std::string &reason);

/// The value whose elements `value` has, in the same order: reshapes of the
/// dimensions before the last one do not move them.
mlir::Value getFlatSource(mlir::Value value);

/// The argument that a weight of `[out, in]` is, or is the transposition of.
/// Null for any other value.
mlir::BlockArgument getStoredWeight(mlir::Value weight);

} // namespace fuse

#endif // FUSE_CODEGEN_CPU_STEPS_H
