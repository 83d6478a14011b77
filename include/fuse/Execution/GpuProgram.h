//===- GpuProgram.h - A function on a GPU, or an emulated one ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EXECUTION_GPUPROGRAM_H
#define FUSE_EXECUTION_GPUPROGRAM_H

#include "fuse/Execution/Program.h"

namespace fuse {

/// Target of GPU code, and how it is checked.
struct GpuOptions {
  /// Empty for no GPU.
  std::string chip;
  /// Uses the portable path even if there is a scheduled one.
  bool isPortable = false;
  /// Number of runs on the same inputs. On the emulator, each uses another
  /// interleaving of threads and copies.
  unsigned numOrders = 3;
};

/// The code of a function for a GPU.
class GpuProgram {
public:
  /// Name of the device: the emulator, unless the environment names another
  /// CUDA library.
  static llvm::Expected<std::string> getDeviceName();
  static llvm::Expected<GpuProgram> compile(mlir::func::FuncOp function,
                                            const GpuOptions &options);

  /// The compiled path, such as `scheduled`.
  llvm::StringRef getPath() const { return path; }
  /// Runs the function once, with results and workspaces poisoned before.
  /// `order` selects the interleaving on the emulator.
  llvm::Expected<std::vector<HostTensor>> run(llvm::ArrayRef<HostTensor> inputs,
                                              uint64_t order) const;

private:
  std::string artifact, name, path;
  Signature signature;
  /// Whether each argument is bound.
  std::vector<bool> isBound;
};

} // namespace fuse

#endif // FUSE_EXECUTION_GPUPROGRAM_H
