//===- DeviceCode.h - Code for GPUs in an artifact --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_DEVICECODE_H
#define FUSE_ARTIFACT_DEVICECODE_H

#include "fuse/Artifact/Compiler.h"

namespace fuse {

/// Kernels that a driver loads together.
struct DeviceModule {
  /// Empty for a file that is a cubin.
  std::string ptx;
  /// Empty if the module was not assembled.
  std::string cubin;
  /// Name of a file that a user registered; empty for generated code.
  std::string source;
  /// Result of `serializeKernel` if there is no PTX yet.
  std::string kernel;
  /// PTX version of such a kernel, times ten.
  int64_t ptxVersion = 0;
};

/// A function with code for a GPU.
struct DeviceFunction {
  std::string name;
  /// The function's entry `cuda` in the manifest, without modules.
  llvm::json::Object cuda;
  /// Modules that the field `module` of a launch indexes.
  std::vector<size_t> modules;
};

/// GPU code of several functions.
struct DeviceProgram {
  std::vector<DeviceModule> modules;
  std::vector<DeviceFunction> functions;
  /// Contents of the constants that kernels read. The field `constants` of a
  /// function has their offsets and sizes.
  std::string constants;
};

/// Compiles the functions of a module for a chip. The scheduled path compiles
/// the ops that it supports, the portable path all others. `descriptions` are
/// those of `describeFunction`, in the same order. Scheduled kernels then have
/// plans but no PTX.
llvm::Expected<DeviceProgram>
compileForDevice(mlir::ModuleOp module,
                 llvm::ArrayRef<mlir::func::FuncOp> functions,
                 llvm::ArrayRef<llvm::json::Object> descriptions,
                 const CompileOptions &options);

/// Runs `task` with each number below `count` on several threads. Returns the
/// error with the lowest number, if any.
llvm::Error runTasks(size_t count,
                     llvm::function_ref<llvm::Error(size_t)> task);

/// Compiles modules without PTX, and assembles if the options require it.
/// Modules are independent of each other, so several threads compile them.
llvm::Error compileModules(DeviceProgram &program,
                           const mlir::DialectRegistry &dialects,
                           const CompileOptions &options);

/// Assembles PTX with the program `ptxas`, and adds the resource usage that it
/// prints to the launches of the kernels.
llvm::Error assemble(DeviceModule &module, llvm::StringRef chip,
                     llvm::StringRef ptxas,
                     llvm::ArrayRef<llvm::json::Object *> launches);

/// Warns about each kernel for which ptxas reported spilled registers. Such a
/// kernel works, but is slow. Schedules of the cost model seldom spill;
/// schedules that are written in an op may.
void reportSpills(mlir::ModuleOp module, DeviceProgram &program);

/// The path of ptxas: that of the options, or else the one in PATH.
llvm::Expected<std::string> findPtxas(const CompileOptions &options);

/// Ten times the version that PTX text declares.
llvm::Expected<int64_t> getPTXVersion(llvm::StringRef ptx);

/// Ten times the lowest PTX version that supports the target and all
/// instructions of a text. Returns `version` if the text has an unknown
/// instruction.
int64_t getMinimalPTXVersion(llvm::StringRef ptx, int64_t version);

} // namespace fuse

#endif // FUSE_ARTIFACT_DEVICECODE_H
