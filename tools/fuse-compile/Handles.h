//===- Handles.h - Owners of handles of the C interface ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_COMPILE_HANDLES_H
#define FUSE_TOOLS_FUSE_COMPILE_HANDLES_H

#include "fuse-c/Compiler.h"
#include "llvm/Support/Error.h"

#include <memory>

namespace fuse {

template <auto Destroy>
struct HandleDeleter {
  template <typename T>
  void operator()(T *handle) const {
    Destroy(handle);
  }
};

template <typename T, auto Destroy>
using Handle = std::unique_ptr<T, HandleDeleter<Destroy>>;

using Context = Handle<fuse_context, fuse_context_destroy>;
using Module = Handle<fuse_module, fuse_module_destroy>;
using ArtifactHandle = Handle<fuse_artifact, fuse_artifact_destroy>;
using DeviceHandle = Handle<fuse_device, fuse_device_destroy>;
using ProgramHandle = Handle<fuse_program, fuse_program_destroy>;
using CacheHandle = Handle<fuse_cache, fuse_cache_destroy>;
using InstanceHandle = Handle<fuse_instance, fuse_instance_destroy>;

/// Calls `make` with a pointer to a handle, and owns the result.
template <typename Owner, typename Make>
llvm::Expected<Owner> own(Make make) {
  typename Owner::pointer handle = nullptr;
  if (make(&handle) != FUSE_OK)
    return llvm::createStringError(fuse_last_error());
  return Owner(handle);
}

inline llvm::Error check(fuse_status status) {
  if (status == FUSE_OK)
    return llvm::Error::success();
  return llvm::createStringError(fuse_last_error());
}

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_COMPILE_HANDLES_H
