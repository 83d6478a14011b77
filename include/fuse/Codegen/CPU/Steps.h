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

/// Work of a CPU kernel on every token in one pass. It is either `problem` or
/// `maps`. The former is a fused op, a norm or a linear. The latter are
/// elementwise ops on values of one width.
struct CPUStep {
  MlpProblem problem;
  llvm::SmallVector<mlir::Operation *> maps;
};

/// Describes the body of a function, or states in `reason` why it is not
/// supported. The result is empty without a reason if there is no fused op:
/// such functions are not meant for kernels.
std::vector<CPUStep> describeSteps(mlir::func::FuncOp function,
                                   std::string &reason);

/// The value with the same elements in the same order: follows reshapes of all
/// dimensions but the last.
mlir::Value getFlatSource(mlir::Value value);

/// The argument that `weight` of `[out, in]` is, or whose transpose it is. Null
/// for any other value.
mlir::BlockArgument getStoredWeight(mlir::Value weight);

/// Whether `weight` is an argument, or made of slices, transposes and
/// concatenations of arguments.
bool isMadeOfArguments(mlir::Value weight);

} // namespace fuse

#endif // FUSE_CODEGEN_CPU_STEPS_H
