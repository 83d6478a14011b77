//===- LLVMPasses.h - LLVM's optimizations for generated code ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_LLVMPASSES_H
#define FUSE_SUPPORT_LLVMPASSES_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace fuse {

/// Runs passes of LLVM's, written as for `opt -passes`.
///
/// What the lowerings write is inlined, blocked and vectorized, and MLIR has
/// folded it. The pipeline of -O3 spends two thirds of its time on trying all
/// of that again, so each caller names the passes that find something.
llvm::Error runLLVMPasses(llvm::Module &module, llvm::TargetMachine &machine,
                          llvm::StringRef pipeline);

} // namespace fuse

#endif // FUSE_SUPPORT_LLVMPASSES_H
