//===- Verify.h - Check an artifact against its own IR ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_COMPILE_VERIFY_H
#define FUSE_TOOLS_FUSE_COMPILE_VERIFY_H

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace fuse {

/// Prints one line per check and returns whether all hold.
/// - V0: Undoing all fusions of the IR in the file gives the original layers.
/// - V1: The code for the CPU in the file and these layers, compiled now, give
///   the same bits on random tensors.
/// - V2: Code for the CPU that sums in another order gives close results. With
///   `emulates`, so does the code for a GPU on the emulator.
llvm::Expected<bool> verifyArtifact(llvm::StringRef path, bool emulates,
                                    llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_COMPILE_VERIFY_H
