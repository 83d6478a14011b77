//===- GpuProgram.h - A function on a GPU, or an emulated one ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EXECUTION_GPUPROGRAM_H
#define FUSE_EXECUTION_GPUPROGRAM_H

#include "fuse/Execution/Program.h"

namespace fuse {

/// What code for a GPU is made for and checked on.
struct GpuOptions {
  /// Empty for no GPU.
  std::string chip;
  /// Takes the portable path, also where there is a scheduled one.
  bool isPortable = false;
  /// How often a function runs on the same inputs, on the emulator in another
  /// order of its threads and copies each time.
  unsigned numOrders = 3;
};

/// The code of a function for a GPU.
class GpuProgram {
public:
  /// What it runs on: the emulator, unless the environment names another
  /// library of CUDA.
  static llvm::Expected<std::string> getDeviceName();
  static llvm::Expected<GpuProgram> compile(mlir::func::FuncOp function,
                                            const GpuOptions &options);

  /// Such as `scheduled`.
  llvm::StringRef getPath() const { return path; }
  /// Runs it once from poisoned results and workspaces, on the emulator in the
  /// order that a seed says.
  llvm::Expected<std::vector<HostTensor>> run(llvm::ArrayRef<HostTensor> inputs,
                                              uint64_t order) const;

private:
  std::string artifact, name, path;
  Signature signature;
  /// By argument.
  std::vector<bool> isBound;
};

} // namespace fuse

#endif // FUSE_EXECUTION_GPUPROGRAM_H
