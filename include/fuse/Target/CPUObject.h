//===- CPUObject.h - Machine code for a CPU as a file -----------*- C++ -*-===//
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

/// A function and the symbol that calls it through an array of pointers to
/// descriptors: of all results as one struct, if there are any, and of each
/// argument.
struct CPUEntry {
  std::string function;
  std::string symbol;
  /// A phase of a kernel, which takes pointers to first elements.
  bool isKernel = false;
};

/// The vector instructions of a processor that kernels are written for.
struct CPUFeatures {
  /// Numbers in f32 per register, and registers.
  int64_t lanes = 4, registers = 16;
  /// Multiplication and addition with one rounding.
  bool fma = false;
  /// AVX512-BF16.
  bool dot = false;
  /// AMX for bf16.
  bool tiles = false;
};

/// What `cpu` has, as `emitCPUObject` names it.
llvm::Expected<CPUFeatures> getCPUFeatures(llvm::StringRef cpu);

/// Runs a task with each number below a count, on several threads.
using TaskRunner = llvm::function_ref<llvm::Error(
    size_t, llvm::function_ref<llvm::Error(size_t)>)>;

/// Compiles `portable`, in the state in which `fuse-cpu-pipeline` leaves it,
/// and `kernels`, that in which `fuse-cpu-kernels-pipeline` does, to an ELF
/// relocatable object, or an archive of several where there is enough for
/// several threads. Either module may be null; neither is of use afterwards.
/// Nothing but the entries can be seen from the outside.
///
/// `cpu` is a processor as LLVM names it, or "native" for this one with all of
/// its instructions.
llvm::Expected<std::string> emitCPUObject(mlir::ModuleOp portable,
                                          mlir::ModuleOp kernels,
                                          llvm::StringRef cpu,
                                          llvm::ArrayRef<CPUEntry> entries,
                                          TaskRunner runTasks);

/// Links what `emitCPUObject` made to a shared object by LLVM's linker, which
/// is looked for in `directories` and in PATH.
llvm::Expected<std::string>
linkCPUObject(llvm::StringRef object, llvm::ArrayRef<std::string> directories);

} // namespace fuse

#endif // FUSE_TARGET_CPUOBJECT_H
