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
  /// Empty when it was not assembled.
  std::string cubin;
  /// The name of a file that a user registered; empty for generated code.
  std::string source;
  /// What `serializeKernel` gave where there is no PTX yet.
  std::string kernel;
};

/// A function with code for a GPU.
struct DeviceFunction {
  std::string name;
  /// Its entry `cuda` in the manifest, without modules.
  llvm::json::Object cuda;
  /// The modules that `module` of a launch counts.
  std::vector<size_t> modules;
};

/// Code of some functions.
struct DeviceProgram {
  std::vector<DeviceModule> modules;
  std::vector<DeviceFunction> functions;
};

/// Compiles the functions of a module for a chip, by the scheduled path what it
/// takes of them and by the portable path all else. `descriptions` are those of
/// `describeFunction`, in the same order. Scheduled kernels have their plans
/// then, and no PTX.
llvm::Expected<DeviceProgram>
compileForDevice(mlir::ModuleOp module,
                 llvm::ArrayRef<mlir::func::FuncOp> functions,
                 llvm::ArrayRef<llvm::json::Object> descriptions,
                 const CompileOptions &options);

/// Runs `task` with each number below `count`, on several threads, and gives
/// the first error of those that failed.
llvm::Error runTasks(size_t count,
                     llvm::function_ref<llvm::Error(size_t)> task);

/// Compiles what has no PTX yet, and assembles if the options want that.
/// Modules are independent of each other, so that this takes several threads.
llvm::Error compileModules(DeviceProgram &program,
                           const mlir::DialectRegistry &dialects,
                           const CompileOptions &options);

/// Assembles PTX by ptxas, which is looked for in PATH, and adds what it says
/// about kernels to their launches.
llvm::Error assemble(DeviceModule &module, llvm::StringRef chip,
                     llvm::ArrayRef<llvm::json::Object *> launches);

/// Warns of each kernel that spills registers, as far as ptxas has been asked:
/// it works, but slowly. Schedules of the cost model seldom do; those in
/// the text of an op may.
void reportSpills(mlir::ModuleOp module, DeviceProgram &program);

/// Whether there is a ptxas.
bool canAssemble();

/// Ten times the version in the text of PTX.
llvm::Expected<int64_t> getPTXVersion(llvm::StringRef ptx);

/// The lowest version, times ten, that has the target and all instructions of a
/// text. It is that of the text where this finds a word that it does not know.
int64_t getMinimalPTXVersion(llvm::StringRef ptx, int64_t version);

} // namespace fuse

#endif // FUSE_ARTIFACT_DEVICECODE_H
