//===- CudaDriver.h - The CUDA driver, found at run time --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads the driver on first use, so that building and starting need neither a
// CUDA toolkit nor a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CUDA_CUDADRIVER_H
#define FUSE_RUNTIME_CUDA_CUDADRIVER_H

#include "fuse-c/Status.h"
#include "fuse/Runtime/CUDA/CudaDriverApi.h"

#include <string>

namespace fuse::runtime::cuda {

/// The functions of libcuda.so.1.
struct Driver {
// A name and a list of parameters: parentheses would change what they mean.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define FUSE_CUDA_MEMBER(NAME, VERSION, PARAMETERS) int(*NAME) PARAMETERS;
  FUSE_CUDA_FUNCTIONS(FUSE_CUDA_MEMBER)
#undef FUSE_CUDA_MEMBER
  /// As 1000 * major + 10 * minor.
  int version = 0;

  /// Loads the driver when it is first called. Throws `Failure` when there is
  /// none that works; the next call tries again.
  static const Driver &get();

  /// What the driver says about a code.
  std::string describe(int code) const;
};

/// A function that is not among them, for programs that measure. Throws
/// `Failure` when the driver does not have it.
void *findFunction(const char *name, int version);

/// The status of a code of the driver.
fuse_status getStatus(int code);
/// Whether no later call can succeed in this process.
bool isSticky(int code);

/// Text such as `12.4`.
std::string printVersion(int version);

/// Names a range on the calling thread for profilers, if NVTX is installed.
class ProfilerRange {
public:
  explicit ProfilerRange(const std::string &name);
  ProfilerRange(const ProfilerRange &) = delete;
  ProfilerRange &operator=(const ProfilerRange &) = delete;
  ~ProfilerRange();
};

} // namespace fuse::runtime::cuda

#endif // FUSE_RUNTIME_CUDA_CUDADRIVER_H
