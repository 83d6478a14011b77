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

/// A kernel in the tile dialect as MLIR bytecode. It belongs to no context, so
/// any thread can compile it at any time.
std::string serializeKernel(tile::KernelOp kernel);

/// PTX of a serialized kernel. A new context with `dialects` compiles it.
llvm::Expected<std::string> compileKernel(llvm::StringRef bytecode,
                                          const mlir::DialectRegistry &dialects,
                                          const ContextObserver &observe);

} // namespace fuse

#endif // FUSE_ARTIFACT_KERNELCODE_H
