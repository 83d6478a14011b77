//===- GeneratedKernel.h - A kernel and its eager body ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_REGISTRY_GENERATEDKERNEL_H
#define FUSE_SLOTS_REGISTRY_GENERATEDKERNEL_H

#include "../Builtin/EagerBuilder.h"
#include "fuse/Slots/BuiltinKernels.h"

namespace fuse {

using SlotResults = mlir::FailureOr<llvm::SmallVector<mlir::Value>>;

/// What a slot of one op and variant looks like, and its two bodies.
struct GeneratedKernel {
  std::string op;
  std::string variant;
  /// The formula and the params.
  std::string description;
  /// Names of the arguments. Those after the first `numRequired` may be
  /// missing.
  std::vector<std::string> args;
  unsigned numRequired;
  unsigned numResults = 1;
  std::vector<std::string> params;
  /// The ops of the fuse dialect. What their verifiers accept is what a slot
  /// may be; they have not run yet.
  std::function<SlotResults(mlir::ImplicitLocOpBuilder &, SlotOp,
                            mlir::ValueRange)>
      kernel;
  /// The body in ops of other dialects. Runs for slots that fit only, and
  /// gives results whose sizes may be known better or worse.
  std::function<SlotResults(EagerBuilder &, SlotOp, mlir::ValueRange)> eager;
};

/// Registers the op with its eager body and a kernel called `fuse`.
void registerGeneratedKernel(KernelRegistry &registry,
                             const GeneratedKernel &kernel);

/// The slot has the arguments, results and params that it should have.
mlir::LogicalResult checkSlot(SlotOp slot, const GeneratedKernel &kernel);

/// A param, or `fallback` where there is one. Reports an error at the slot.
mlir::FailureOr<double> getNumber(SlotOp slot, llvm::StringRef name);
mlir::FailureOr<int64_t>
getInteger(SlotOp slot, llvm::StringRef name,
           std::optional<int64_t> fallback = std::nullopt);
mlir::FailureOr<Activation> getActivation(SlotOp slot, llvm::StringRef name,
                                          Activation fallback);

/// Type of a result, and its element type.
mlir::Type getResultType(SlotOp slot, unsigned index = 0);
mlir::Type getResultElement(SlotOp slot, unsigned index = 0);

} // namespace fuse

#endif // FUSE_SLOTS_REGISTRY_GENERATEDKERNEL_H
