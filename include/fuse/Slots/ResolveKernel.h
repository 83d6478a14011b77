//===- ResolveKernel.h - Find the kernel that a name means ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_RESOLVEKERNEL_H
#define FUSE_SLOTS_RESOLVEKERNEL_H

#include "fuse/Slots/KernelRegistry.h"
#include "fuse/Slots/SlotConfig.h"

namespace fuse {

/// A kernel and the implementation of it that will run; null for `eager`.
struct KernelChoice {
  const KernelSpec *kernel = nullptr;
  const KernelImplementation *implementation = nullptr;
};

/// Finds what `name` means for an op and variant: `eager` first, then whether
/// there is such a kernel, then the hardware, then the mode. Of the
/// implementations that are left, the one with the smallest interval of
/// capabilities wins, and then the one for the closest mode. The text of an
/// error lists what would do instead. `warn` gets deprecations.
llvm::Expected<KernelChoice>
resolveKernel(const KernelRegistry &registry, llvm::StringRef op,
              llvm::StringRef variant, llvm::StringRef name,
              const SlotTarget &target,
              llvm::function_ref<void(const llvm::Twine &)> warn);

/// How well an implementation for `offered` serves `wanted`: the lower the
/// closer, or nothing when it cannot. Without gradients a kernel for training
/// will do, and what can be compiled can also run as it is; not the reverse.
std::optional<unsigned> getModeDistance(KernelMode wanted, KernelMode offered);

/// Whether the code of an implementation can be launched for a slot: its file
/// and what it refers to. The text of an error says what is wrong.
llvm::Error checkCode(mlir::Attribute code, SlotOp slot,
                      const SlotTarget &target);

/// The operand from whose sizes those of a dynamic result are taken, or
/// nothing: the first one of the same rank that is dynamic where the result is.
std::optional<unsigned> getShapeOperand(SlotOp slot, unsigned result);

} // namespace fuse

#endif // FUSE_SLOTS_RESOLVEKERNEL_H
