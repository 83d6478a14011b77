//===- Program.h - A compiled function for the CPU --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EXECUTION_PROGRAM_H
#define FUSE_EXECUTION_PROGRAM_H

#include "fuse/Execution/HostCall.h"
#include "fuse/Target/CPUJIT.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fuse {

/// The types of a function on tensors.
struct Signature {
  std::vector<TensorSpec> inputs, results;
};

/// Finds the only public function of a module, or the one called `name`. The
/// error message lists the public functions.
llvm::Expected<mlir::func::FuncOp> findFunction(mlir::ModuleOp module,
                                                llvm::StringRef name);
/// Replaces scalars among arguments and results by tensors of rank 0; index
/// becomes i64. Fails if that would change calls.
llvm::Error liftScalars(mlir::func::FuncOp function);
llvm::Expected<Signature> getSignature(mlir::func::FuncOp function);

/// Copies the module with `function` as the only public symbol, and drops
/// unused symbols.
mlir::OwningOpRef<mlir::ModuleOp> isolate(mlir::func::FuncOp function);

/// Where to write the IR after each phase; an empty directory disables it.
struct PhaseDump {
  std::string directory;

  /// Writes `<number>.<name>.mlir`.
  llvm::Error write(mlir::ModuleOp module, unsigned number,
                    llvm::StringRef name) const;
};

/// A function compiled for this machine.
class Program {
public:
  /// Compiles `function` in a copy of its module. Without `optLevel`, LLVM
  /// optimizes at level 3, and the reference at level 1.
  static llvm::Expected<Program>
  compile(mlir::func::FuncOp function, bool reference,
          const PhaseDump &dump = {},
          std::optional<unsigned> optLevel = std::nullopt);

  llvm::Expected<std::vector<HostTensor>>
  run(llvm::ArrayRef<HostTensor> inputs) const {
    return callHostFunction(entry, inputs, signature.results);
  }

private:
  std::unique_ptr<CPUJIT> jit;
  PackedFunction entry = nullptr;
  Signature signature;
};

/// Lowers a copy of the function's module through the CPU pipeline, up to the
/// phase `last`.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
lowerForCPU(mlir::func::FuncOp function, bool reference, llvm::StringRef last,
            const PhaseDump &dump = {});

} // namespace fuse

#endif // FUSE_EXECUTION_PROGRAM_H
