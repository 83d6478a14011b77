//===- RandomSchedules.h - Random valid schedules ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_RANDOMSCHEDULES_H
#define FUSE_TOOLS_FUSE_FUZZ_RANDOMSCHEDULES_H

#include "ModuleGenerator.h"
#include "fuse/Schedule/Chip.h"

namespace fuse {

/// Gives the fused op of a module with one chain a random schedule that fits
/// it and the chip. If the number of tokens is dynamic, there is one for each
/// of two to four ranges, of which the last ends at `tokens`. One of four
/// modules gets none, so that the compiler chooses. Returns the numbers of
/// tokens at which a schedule begins or ends, or none if the number is static.
llvm::SmallVector<int64_t> attachRandomSchedules(mlir::ModuleOp module,
                                                 Random &random, int64_t tokens,
                                                 const Chip &chip);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_RANDOMSCHEDULES_H
