//===- CompileCache.h - Compile each module once ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_COMPILECACHE_H
#define FUSE_ARTIFACT_COMPILECACHE_H

#include "fuse/Artifact/Compiler.h"
#include "fuse/Runtime/Core/Cache.h"

namespace fuse {

/// All inputs that the bytes of an artifact depend on.
struct CacheIngredients {
  /// The module with its locations, which the artifact contains.
  std::string ir;
  /// All of `CompileOptions`.
  std::string options;
  /// Build ids of the compiler and of LLVM and MLIR, as loaded.
  std::string build;
  /// Version of the compiler and of LLVM.
  std::string version;
  /// Version of the artifact format.
  uint32_t format = 0;
  /// The CPU and its features if the options say "native".
  std::string host;
  /// The assembler and its version if the options require one.
  std::string assembler;

  runtime::Digest getKey() const;
};

CacheIngredients getIngredients(mlir::ModuleOp module,
                                const CompileOptions &options);

/// Origin of an artifact.
enum class CacheResult { Compiled, Found, Shared };

/// Finds the artifact of a module in `cache`, or compiles and stores it. If
/// several threads request the same artifact, one compiles it and all others
/// wait for the result.
llvm::Expected<std::string> compileCached(const runtime::Cache &cache,
                                          mlir::ModuleOp module,
                                          const CompileOptions &options,
                                          CacheResult &result);

} // namespace fuse

#endif // FUSE_ARTIFACT_COMPILECACHE_H
