//===- PackKernel.h - Pack weights on the device ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CUDA_PACKKERNEL_H
#define FUSE_RUNTIME_CUDA_PACKKERNEL_H

#include "fuse/Runtime/CUDA/CudaDevice.h"

namespace fuse::runtime::cuda {

/// A kernel that does what `packWeights` does for matrices that are on the
/// device, at the speed of its memory. A device loads it once.
class PackKernel {
public:
  explicit PackKernel(const CudaDevice &device) : device(device) {}
  PackKernel(const PackKernel &) = delete;
  PackKernel &operator=(const PackKernel &) = delete;
  ~PackKernel();

  /// Packs `operands` into `output` on the default stream. Returns false if
  /// the CPU has to pack: the recipe is not one of tiles, rows do not consist
  /// of whole aligned chunks of 16 bytes, or the driver does not load the
  /// kernel.
  bool pack(const PackedWeight &packed, const Function &function,
            const std::vector<DevicePtr> &operands, DevicePtr output);

private:
  bool load();

  const CudaDevice &device;
  std::mutex mutex;
  bool isTried = false;
  Module module = nullptr;
  KernelFunction kernel = nullptr;
};

} // namespace fuse::runtime::cuda

#endif // FUSE_RUNTIME_CUDA_PACKKERNEL_H
