//===- CPUObject.h - Object files for a CPU ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TARGET_CPUOBJECT_H
#define FUSE_TARGET_CPUOBJECT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace fuse {

/// A function and the symbol through which it is called. The symbol's argument
/// is an array of pointers to descriptors: one for all results as a struct, if
/// there are any, and one per argument.
struct CPUEntry {
  std::string function;
  std::string symbol;
  /// A phase of a kernel, whose arguments are pointers to first elements.
  bool isKernel = false;
};

/// The vector instructions of a CPU for which kernels are generated.
struct CPUFeatures {
  /// Number of f32 elements per vector register, and number of registers.
  int64_t lanes = 4, registers = 16;
  /// Fused multiply-add instructions.
  bool fma = false;
  /// AVX512-BF16.
  bool dot = false;
  /// AMX for bf16.
  bool tiles = false;
};

/// The features of `cpu`, a name as in `emitCPUObject`.
llvm::Expected<CPUFeatures> getCPUFeatures(llvm::StringRef cpu);

/// Calls a function with each number below a count, on several threads.
using TaskRunner = llvm::function_ref<llvm::Error(
    size_t, llvm::function_ref<llvm::Error(size_t)>)>;

/// Compiles `portable`, the output of `fuse-cpu-pipeline`, and `kernels`, the
/// output of `fuse-cpu-kernels-pipeline`. Returns an ELF relocatable object, or
/// an archive of several if there is enough work for several threads. Either
/// module may be null; both are consumed. Only the entries are visible symbols.
///
/// `cpu` is an LLVM name of a CPU, or "native" for this one with all of its
/// instructions.
llvm::Expected<std::string> emitCPUObject(mlir::ModuleOp portable,
                                          mlir::ModuleOp kernels,
                                          llvm::StringRef cpu,
                                          llvm::ArrayRef<CPUEntry> entries,
                                          TaskRunner runTasks);

/// Links the result of `emitCPUObject` to a shared object with LLVM's linker,
/// which must be in `directories` or in PATH.
llvm::Expected<std::string>
linkCPUObject(llvm::StringRef object, llvm::ArrayRef<std::string> directories);

} // namespace fuse

#endif // FUSE_TARGET_CPUOBJECT_H
