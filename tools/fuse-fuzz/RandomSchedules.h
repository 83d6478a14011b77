//===- RandomSchedules.h - Valid schedules at random ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_RANDOMSCHEDULES_H
#define FUSE_TOOLS_FUSE_FUZZ_RANDOMSCHEDULES_H

#include "ModuleGenerator.h"

namespace fuse {

/// Gives the fused op of a module of one chain a random schedule that fits it,
/// or one for each of two to four ranges of tokens where their number is
/// dynamic, the last of which ends at `tokens`; in one of four modules, none,
/// so that the compiler chooses. Returns the numbers of tokens at which another
/// schedule begins or ends, none where the number is static.
llvm::SmallVector<int64_t>
attachRandomSchedules(mlir::ModuleOp module, Random &random, int64_t tokens);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_RANDOMSCHEDULES_H
