//===- SlotChecks.h - Random modules with slots -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_SLOTCHECKS_H
#define FUSE_TOOLS_FUSE_FUZZ_SLOTCHECKS_H

#include "Checks.h"

namespace fuse {

/// Binds calls by random configurations, prints, parses and unbinds. Each time,
/// and also after an error, the result must be the original module.
llvm::StringRef checkSlots(mlir::ModuleOp module, Random &random,
                           CheckCounts &counts);

/// Binds all calls, to eager bodies and to kernels, and runs the functions.
/// Their results must be within the contracts of the functions without slots.
llvm::StringRef runSlots(mlir::ModuleOp module, Random &random,
                         CheckCounts &counts);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_SLOTCHECKS_H
