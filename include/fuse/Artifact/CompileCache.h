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

/// Everything that the bytes of an artifact depend on.
struct CacheIngredients {
  /// The module with its locations, which are in the artifact.
  std::string ir;
  /// All of `CompileOptions`.
  std::string options;
  /// Build ids of the compiler and of LLVM and MLIR, as loaded.
  std::string build;
  /// Version of the compiler and of LLVM.
  std::string version;
  /// Of the format of artifacts.
  uint32_t format = 0;
  /// The processor and its features where options say "native".
  std::string host;
  /// The assembler, where options want one.
  std::string assembler;

  runtime::Digest getKey() const;
};

CacheIngredients getIngredients(mlir::ModuleOp module,
                                const CompileOptions &options);

/// How an artifact was come by.
enum class CacheResult { Compiled, Found, Shared };

/// Gives the artifact of a module from `cache`, or compiles it and stores it.
/// When several threads ask for the same one, one compiles and the others get
/// what it made.
llvm::Expected<std::string> compileCached(const runtime::Cache &cache,
                                          mlir::ModuleOp module,
                                          const CompileOptions &options,
                                          CacheResult &result);

} // namespace fuse

#endif // FUSE_ARTIFACT_COMPILECACHE_H
