//===- KernelCode.h - Code of one scheduled kernel --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_KERNELCODE_H
#define FUSE_ARTIFACT_KERNELCODE_H

#include "fuse/Artifact/Compiler.h"
#include "tile/IR/TileOps.h"

namespace fuse {

/// A kernel in the tile dialect as bytecode of MLIR. It belongs to no context,
/// so that any thread can compile it at any time.
std::string serializeKernel(tile::KernelOp kernel);

/// PTX of a kernel that was serialized. It is made in a context of its own with
/// `dialects`.
llvm::Expected<std::string> compileKernel(llvm::StringRef bytecode,
                                          const mlir::DialectRegistry &dialects,
                                          const ContextObserver &observe);

} // namespace fuse

#endif // FUSE_ARTIFACT_KERNELCODE_H
