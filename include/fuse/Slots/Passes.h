//===- Passes.h - Passes on slots -------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_PASSES_H
#define FUSE_SLOTS_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fuse {

#define GEN_PASS_DECL
#include "fuse/Slots/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fuse/Slots/Passes.h.inc"

} // namespace fuse

#endif // FUSE_SLOTS_PASSES_H
