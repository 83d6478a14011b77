//===- CPUJIT.h - Compile for the CPU of this process -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TARGET_CPUJIT_H
#define FUSE_TARGET_CPUJIT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace mlir {
class DialectRegistry;
class ExecutionEngine;
class ModuleOp;
} // namespace mlir

namespace fuse {

/// Registers the translations that `CPUJIT` needs.
void registerCPUTranslations(mlir::DialectRegistry &registry);

/// A library function that a module declares by name.
struct LibraryFunction {
  llvm::StringRef library;
  llvm::StringRef name;
};

/// Machine code in this process. It uses all instructions of its CPU.
class CPUJIT {
public:
  /// Compiles the output of `fuse-cpu-pipeline` at an LLVM optimization level
  /// from 0 to 3. Level 0 compiles in a quarter of the time. Declared functions
  /// are resolved to those in `functions`, or else to symbols of this process.
  static llvm::Expected<std::unique_ptr<CPUJIT>>
  create(mlir::ModuleOp module, unsigned optLevel = 3,
         llvm::ArrayRef<LibraryFunction> functions = {});
  ~CPUJIT();

  /// A function that calls the C interface of the public function `name`. Its
  /// argument is an array of pointers to the arguments.
  llvm::Expected<void (*)(void **)> lookup(llvm::StringRef name) const;

private:
  explicit CPUJIT(std::unique_ptr<mlir::ExecutionEngine> engine);

  std::unique_ptr<mlir::ExecutionEngine> engine;
};

/// Prints the LLVM IR of the output of `fuse-cpu-pipeline`, before LLVM's
/// optimizations.
llvm::Error printLLVMIR(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_TARGET_CPUJIT_H
