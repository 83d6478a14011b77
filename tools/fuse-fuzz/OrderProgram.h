//===- OrderProgram.h - Run programs from any stage -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_ORDERPROGRAM_H
#define FUSE_TOOLS_FUSE_FUZZ_ORDERPROGRAM_H

#include "fuse/Execution/Program.h"

namespace fuse {

/// A function compiled from tensors, buffers or loops. Sums have the order of
/// the operands.
class StageProgram {
public:
  /// Lowers `module` and compiles its public function `name`. The function may
  /// be on buffers by now; `signature` is that of the function on tensors.
  static llvm::Expected<StageProgram> compile(mlir::ModuleOp module,
                                              llvm::StringRef name,
                                              const Signature &signature);

  /// Calls the function on copies of `inputs`.
  ///
  /// Leaks memory: buffers of the function may be arguments, constants or part
  /// of others.
  llvm::Expected<std::vector<HostTensor>>
  run(llvm::ArrayRef<HostTensor> inputs) const;

private:
  std::unique_ptr<CPUJIT> jit;
  PackedFunction entry = nullptr;
  Signature signature;
};

/// Whether the function still has the signature, on tensors or on buffers. A
/// function in the LLVM dialect has it if it had it before.
bool hasSignature(mlir::ModuleOp module, llvm::StringRef name,
                  const Signature &signature);

/// Whether the function is on buffers or in the LLVM dialect.
bool isOnBuffers(mlir::ModuleOp module, llvm::StringRef name);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_ORDERPROGRAM_H
