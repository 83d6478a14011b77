//===- CudaDriverApi.h - The used part of the CUDA driver API ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declarations of the driver functions that the runtime calls and the emulator
// defines, so that building needs no CUDA toolkit. Their layout is part of the
// driver's stable ABI.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CUDA_CUDADRIVERAPI_H
#define FUSE_RUNTIME_CUDA_CUDADRIVERAPI_H

#include <cstddef>
#include <cstdint>

namespace fuse::runtime::cuda {

using DevicePtr = unsigned long long;
struct ContextTag;
struct ModuleTag;
struct FunctionTag;
struct StreamTag;
struct EventTag;
using Context = ContextTag *;
using Module = ModuleTag *;
using KernelFunction = FunctionTag *;
using Stream = StreamTag *;
using Event = EventTag *;

struct alignas(64) TensorMap {
  uint64_t words[16];
};

struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    unsigned numbers[16];
    char bytes[64];
  } value;
};

struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned numAttributes;
};

enum : int {
  kAttributeCooperative = 2,
  kAttributeCluster = 4,
  kAttributeProgrammatic = 6,
  kDeviceMultiprocessors = 16,
  kDeviceMajor = 75,
  kDeviceMinor = 76,
  kFunctionMaxDynamicShared = 8,
  kFunctionPreferredCarveout = 9,
  kEventDisableTiming = 2,
  kJitErrorLog = 5,
  kJitErrorLogBytes = 6,
  kSuccess = 0,
  kNotReady = 600,
};

/// All driver functions that are called. Each entry has a name, the requested
/// version and the parameters.
#define FUSE_CUDA_FUNCTIONS(F)                                                 \
  F(cuInit, 2000, (unsigned))                                                  \
  F(cuDriverGetVersion, 2020, (int *))                                         \
  F(cuGetErrorString, 6000, (int, const char **))                              \
  F(cuDeviceGetCount, 2000, (int *))                                           \
  F(cuDeviceGet, 2000, (int *, int))                                           \
  F(cuDeviceGetAttribute, 2000, (int *, int, int))                             \
  F(cuDevicePrimaryCtxRetain, 7000, (Context *, int))                          \
  F(cuDevicePrimaryCtxRelease, 11000, (int))                                   \
  F(cuCtxPushCurrent, 4000, (Context))                                         \
  F(cuCtxPopCurrent, 4000, (Context *))                                        \
  F(cuCtxSynchronize, 2000, ())                                                \
  F(cuModuleLoadDataEx, 2010,                                                  \
    (Module *, const void *, unsigned, int *, void **))                        \
  F(cuModuleUnload, 2000, (Module))                                            \
  F(cuModuleGetFunction, 2000, (KernelFunction *, Module, const char *))       \
  F(cuFuncSetAttribute, 9000, (KernelFunction, int, int))                      \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050,                         \
    (int *, KernelFunction, int, size_t))                                      \
  F(cuMemAlloc, 3020, (DevicePtr *, size_t))                                   \
  F(cuMemFree, 3020, (DevicePtr))                                              \
  F(cuMemcpyHtoD, 3020, (DevicePtr, const void *, size_t))                     \
  F(cuMemcpyDtoH, 3020, (void *, DevicePtr, size_t))                           \
  F(cuMemsetD8, 3020, (DevicePtr, unsigned char, size_t))                      \
  F(cuEventCreate, 2000, (Event *, unsigned))                                  \
  F(cuEventRecord, 2000, (Event, Stream))                                      \
  F(cuEventQuery, 2000, (Event))                                               \
  F(cuEventDestroy, 4000, (Event))                                             \
  F(cuStreamIsCapturing, 10000, (Stream, int *))                               \
  F(cuTensorMapEncodeTiled, 12000,                                             \
    (TensorMap *, int, unsigned, void *, const uint64_t *, const uint64_t *,   \
     const unsigned *, const unsigned *, int, int, int, int))                  \
  F(cuLaunchKernelEx, 11060,                                                   \
    (const LaunchConfig *, KernelFunction, void **, void **))

} // namespace fuse::runtime::cuda

#endif // FUSE_RUNTIME_CUDA_CUDADRIVERAPI_H
