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
// Expands to a name and a parameter list, so parentheses would change the
// meaning. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define FUSE_CUDA_MEMBER(NAME, VERSION, PARAMETERS) int(*NAME) PARAMETERS;
  FUSE_CUDA_FUNCTIONS(FUSE_CUDA_MEMBER)
#undef FUSE_CUDA_MEMBER
  /// As 1000 * major + 10 * minor.
  int version = 0;

  /// Loads the driver on the first call. Throws `Failure` if no working driver
  /// is found; the next call tries again.
  static const Driver &get();

  /// The driver's description of a status code.
  std::string describe(int code) const;
};

/// A function that is not in this list, for programs that measure. Throws
/// `Failure` if the driver does not have it.
void *findFunction(const char *name, int version);

/// Maps a driver code to a status.
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
