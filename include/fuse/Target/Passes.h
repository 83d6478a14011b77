//===- Passes.h - Passes that write code ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TARGET_PASSES_H
#define FUSE_TARGET_PASSES_H

#include "mlir/Pass/Pass.h"

namespace fuse {

#define GEN_PASS_DECL
#include "fuse/Target/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fuse/Target/Passes.h.inc"

} // namespace fuse

#endif // FUSE_TARGET_PASSES_H
