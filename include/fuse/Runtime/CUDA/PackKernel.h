//===- PackKernel.h - Pack weights on the device ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CUDA_PACKKERNEL_H
#define FUSE_RUNTIME_CUDA_PACKKERNEL_H

#include "fuse/Runtime/CUDA/CudaDevice.h"

namespace fuse::runtime::cuda {

/// Kernels that do what `packWeights` does for matrices that are on the device,
/// at the speed of its memory. A device loads them once.
class PackKernel {
public:
  explicit PackKernel(const CudaDevice &device) : device(device) {}
  PackKernel(const PackKernel &) = delete;
  PackKernel &operator=(const PackKernel &) = delete;
  ~PackKernel();

  /// Packs `matrices`, which are not views, into `output` on the default
  /// stream. Returns false if the CPU has to pack: the recipe is not one of
  /// tiles, rows do not consist of whole aligned chunks of 16 bytes, or the
  /// driver does not load the kernel.
  bool pack(const PackedWeight &packed, const Function &function,
            const std::vector<DevicePtr> &matrices, DevicePtr output);
  /// Copies the elements of a box of `source` to their places in `matrix`, on
  /// the default stream. Returns false if the CPU has to: elements are not of
  /// 8, 16 or 32 bits, or the driver does not load the kernel.
  bool gather(const ViewBox &box, const TensorSpec &spec, DevicePtr source,
              DevicePtr matrix);

private:
  bool load();
  void launch(KernelFunction kernel, uint64_t blocks, void **parameters,
              const char *name);

  const CudaDevice &device;
  std::mutex mutex;
  bool isTried = false;
  Module module = nullptr;
  KernelFunction kernel = nullptr, gatherKernel = nullptr;
};

} // namespace fuse::runtime::cuda

#endif // FUSE_RUNTIME_CUDA_PACKKERNEL_H
