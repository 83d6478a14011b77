//===- DeviceCode.h - Code for GPUs in an artefact --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_COMPILER_DEVICECODE_H
#define FUSE_COMPILER_DEVICECODE_H

#include "fuse/Compiler/Compiler.h"

#include <optional>

namespace fuse {

/// Kernels of some functions.
struct DeviceModule {
  std::string ptx;
  /// Empty when it was not assembled.
  std::string cubin;
  /// The entry `cuda` of the manifest for each function that has code here, by
  /// name. Sections are left to the caller.
  std::vector<std::pair<std::string, llvm::json::Object>> functions;
};

/// Compiles the functions of a module for a chip, by the scheduled path where
/// that takes all of a function and by the portable path otherwise.
/// `descriptions` are those of `describeFunction`, in the same order.
llvm::Expected<std::vector<DeviceModule>>
compileForDevice(mlir::ModuleOp module,
                 llvm::ArrayRef<mlir::func::FuncOp> functions,
                 llvm::ArrayRef<llvm::json::Object> descriptions,
                 const CompileOptions &options);

/// Assembles PTX by ptxas, which is looked for in PATH, and adds what it says
/// about kernels to their launches.
llvm::Error assemble(DeviceModule &module, llvm::StringRef chip);

/// Whether there is a ptxas.
bool canAssemble();

} // namespace fuse

#endif // FUSE_COMPILER_DEVICECODE_H
