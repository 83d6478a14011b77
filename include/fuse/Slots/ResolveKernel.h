//===- ResolveKernel.h - Resolve the name of a kernel -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_RESOLVEKERNEL_H
#define FUSE_SLOTS_RESOLVEKERNEL_H

#include "fuse/Slots/KernelRegistry.h"
#include "fuse/Slots/SlotConfig.h"

namespace fuse {

/// A kernel and its selected implementation; null for `eager`.
struct KernelChoice {
  const KernelSpec *kernel = nullptr;
  const KernelImplementation *implementation = nullptr;
};

/// Resolves `name` for an op and variant. Checks for `eager`, then the
/// existence of the kernel, then the hardware, then the mode. Among the
/// remaining implementations, prefers the one with the smallest interval of
/// capabilities, and then the one with the closest mode. The error text lists
/// alternatives. `warn` is called for deprecated names.
llvm::Expected<KernelChoice>
resolveKernel(const KernelRegistry &registry, llvm::StringRef op,
              llvm::StringRef variant, llvm::StringRef name,
              const SlotTarget &target,
              llvm::function_ref<void(const llvm::Twine &)> warn);

/// Distance between an implementation's mode `offered` and the mode `wanted`,
/// or nothing if it is not usable. Lower is closer. A kernel for training can
/// replace one for inference, and a compilable kernel can also run without
/// compilation, but not the reverse.
std::optional<unsigned> getModeDistance(KernelMode wanted, KernelMode offered);

/// Checks that the code of an implementation can be launched for a slot: its
/// file exists and contains the names that it refers to. The error text states
/// the problem.
llvm::Error checkCode(mlir::Attribute code, SlotOp slot,
                      const SlotTarget &target);

/// The operand that provides the sizes of a dynamic result. It is the first one
/// of the same rank that is dynamic in all dynamic dimensions of the result, or
/// nothing.
std::optional<unsigned> getShapeOperand(SlotOp slot, unsigned result);

} // namespace fuse

#endif // FUSE_SLOTS_RESOLVEKERNEL_H
