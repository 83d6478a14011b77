//===- CPUJIT.h - Compile for the machine this runs on ----------*- C++ -*-===//
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

/// A function of a library that a module declares by its name.
struct LibraryFunction {
  llvm::StringRef library;
  llvm::StringRef name;
};

/// Machine code in this process, for the CPU it runs on with all of its
/// instructions.
class CPUJIT {
public:
  /// Compiles a module in the state in which `fuse-cpu-pipeline` leaves it, at
  /// an optimization level of LLVM from 0 to 3. Functions that it declares are
  /// those of `functions`, others are looked up in this process.
  static llvm::Expected<std::unique_ptr<CPUJIT>>
  create(mlir::ModuleOp module, unsigned optLevel = 3,
         llvm::ArrayRef<LibraryFunction> functions = {});
  ~CPUJIT();

  /// The C interface of the public function `name`, behind an array of
  /// pointers to its arguments.
  llvm::Expected<void (*)(void **)> lookup(llvm::StringRef name) const;

private:
  explicit CPUJIT(std::unique_ptr<mlir::ExecutionEngine> engine);

  std::unique_ptr<mlir::ExecutionEngine> engine;
};

/// Prints the LLVM IR of a module in the state in which `fuse-cpu-pipeline`
/// leaves it, before LLVM's own optimizations.
llvm::Error printLLVMIR(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace fuse

#endif // FUSE_TARGET_CPUJIT_H
