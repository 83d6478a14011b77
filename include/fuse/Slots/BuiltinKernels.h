//===- BuiltinKernels.h - Kernels that fuse generates -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There is one function per op, which describes the variants with their eager
// bodies and adds the kernels. See docs/tutorials/write-a-kernel.md.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_BUILTINKERNELS_H
#define FUSE_SLOTS_BUILTINKERNELS_H

#include "fuse/Slots/KernelRegistry.h"

namespace fuse {

void registerActivationKernels(KernelRegistry &registry);
void registerCrossEntropyKernels(KernelRegistry &registry);
void registerGatedMLPKernels(KernelRegistry &registry);
void registerLayerNormKernels(KernelRegistry &registry);
void registerMoEExpertsKernels(KernelRegistry &registry);
/// Has only an eager body.
void registerMoELoadBalancingLoss(KernelRegistry &registry);
void registerRMSNormKernels(KernelRegistry &registry);
void registerRotaryKernels(KernelRegistry &registry);

/// Registers all of them.
void registerBuiltinKernels(KernelRegistry &registry);

} // namespace fuse

#endif // FUSE_SLOTS_BUILTINKERNELS_H
