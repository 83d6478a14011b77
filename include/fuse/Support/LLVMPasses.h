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

/// Runs LLVM passes in the syntax of `opt -passes`.
///
/// The lowerings emit code that is already inlined, blocked, vectorized and
/// folded. The -O3 pipeline would spend two thirds of its time on trying that
/// again, so each caller names the passes that are useful.
llvm::Error runLLVMPasses(llvm::Module &module, llvm::TargetMachine &machine,
                          llvm::StringRef pipeline);

} // namespace fuse

#endif // FUSE_SUPPORT_LLVMPASSES_H
