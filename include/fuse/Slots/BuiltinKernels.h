//===- BuiltinKernels.h - Kernels that fuse generates -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function per op: it describes the variants with their eager bodies and
// adds the kernels. docs/tutorials/write-a-kernel.md says how to write one.
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
/// An eager body only.
void registerMoELoadBalancingLoss(KernelRegistry &registry);
void registerRMSNormKernels(KernelRegistry &registry);
void registerRotaryKernels(KernelRegistry &registry);

/// All of them.
void registerBuiltinKernels(KernelRegistry &registry);

} // namespace fuse

#endif // FUSE_SLOTS_BUILTINKERNELS_H
