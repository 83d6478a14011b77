//===- SlotChecks.h - Random modules with slots -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_SLOTCHECKS_H
#define FUSE_TOOLS_FUSE_FUZZ_SLOTCHECKS_H

#include "Checks.h"

#include <string>

namespace fuse {

/// The text of a module with slots of registered ops and of its own, with eager
/// bodies and without, with kernels beside it, and with calls in functions and
/// in the forwards of models. For each function `@f0` that calls slots there is
/// one `@g0` with what the slots mean written out.
std::string generateSlots(uint64_t seed);

/// Binds calls as random configurations say, prints, parses and unbinds. Each
/// time the module must be the one it was; after an error, too.
llvm::StringRef checkSlots(mlir::ModuleOp module, Random &random,
                           CheckCounts &counts);

/// Binds all calls, to eager bodies and to kernels, and runs the functions.
/// Their results have to be what the interpreter says of those without slots.
llvm::StringRef runSlots(mlir::ModuleOp module, Random &random,
                         CheckCounts &counts);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_SLOTCHECKS_H
