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

/// Prints one line per check and returns whether all hold:
/// - V0: undoing every fusion of the IR in the file gives the layers that the
///   file was made from;
/// - V1: the code for the CPU in the file and those layers, compiled now, give
///   the same bits on random tensors;
/// - V2: code for the CPU that sums in another order, and with `emulates` the
///   code for a GPU, on the emulator, gives what these layers give otherwise.
llvm::Expected<bool> verifyArtifact(llvm::StringRef path, bool emulates,
                                    llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_COMPILE_VERIFY_H
