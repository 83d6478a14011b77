//===- GeneratedKernel.h - Generated kernels with eager bodies --*- C++ -*-===//
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

/// The signature of a slot of one op and variant, and its two bodies.
struct GeneratedKernel {
  std::string op;
  std::string variant;
  /// The formula and the params.
  std::string description;
  /// Names of the arguments. Those after the first `numRequired` are optional.
  std::vector<std::string> args;
  unsigned numRequired;
  unsigned numResults = 1;
  std::vector<std::string> params;
  /// Builds the ops of the fuse dialect. The verifiers of these ops, which run
  /// later, determine whether the slot is valid.
  std::function<SlotResults(mlir::ImplicitLocOpBuilder &, SlotOp,
                            mlir::ValueRange)>
      kernel;
  /// Builds the body with ops of other dialects. Called only for valid slots.
  /// The result types may have more or fewer static sizes than the slot.
  std::function<SlotResults(EagerBuilder &, SlotOp, mlir::ValueRange)> eager;
};

/// Registers the op with its eager body and a kernel called `fuse`.
void registerGeneratedKernel(KernelRegistry &registry,
                             const GeneratedKernel &kernel);

/// Checks the arguments, results and params of a slot.
mlir::LogicalResult checkSlot(SlotOp slot, const GeneratedKernel &kernel);

/// The value of a param, or `fallback` if it is given. Emits an error at the
/// slot.
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
