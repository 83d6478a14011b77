//===- HostCall.h - Call compiled functions on host tensors -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EXECUTION_HOSTCALL_H
#define FUSE_EXECUTION_HOSTCALL_H

#include "fuse/IO/HostTensor.h"

#include <vector>

namespace fuse {

/// A public function of the CPU pipeline, behind an array of pointers to its
/// arguments.
using PackedFunction = void (*)(void **);

/// Calls `function` on tensors. The caller must check the shapes: the function
/// does not.
llvm::Expected<std::vector<HostTensor>>
callHostFunction(PackedFunction function, llvm::ArrayRef<HostTensor> inputs,
                 llvm::ArrayRef<TensorSpec> results);

} // namespace fuse

#endif // FUSE_EXECUTION_HOSTCALL_H
