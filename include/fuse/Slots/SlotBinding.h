//===- SlotBinding.h - Bind slots to kernels and undo it --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the passes on slots do, for callers that have a registry of their own.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_SLOTBINDING_H
#define FUSE_SLOTS_SLOTBINDING_H

#include "fuse/Slots/KernelRegistry.h"
#include "fuse/Slots/SlotConfig.h"

namespace fuse {

/// What one call of a slot is bound to.
struct SlotCallReport {
  /// Name of the model; empty for a function that belongs to none.
  std::string model;
  std::string path;
  std::string slot;
  std::string op;
  std::string variant;
  /// `eager`, the name of a kernel, or empty when unbound.
  std::string kernel;
  std::string hardware;
  std::string mode;
  /// `eager body`, `generated`, or the file and the name in it.
  std::string source;
  /// What asked for it: `bind rms_norm`, `override model.layers.0.*`, ...
  std::string reason;
};

/// All slots of a module and what they are bound to.
struct SlotReport {
  std::string target;
  std::string mode;
  std::vector<SlotCallReport> calls;
  /// Slots of an op and variant without a registered kernel.
  std::vector<std::string> withoutKernels;
  /// Slots that nothing calls.
  std::vector<std::string> unused;

  void print(llvm::raw_ostream &os) const;
  void printJSON(llvm::raw_ostream &os) const;
};

/// Binds the calls of slots as `config` says, to kernels of `registry`, of the
/// module and of its models, and loads the dialects that their bodies are built
/// of. When anything fails nothing is bound.
mlir::FailureOr<SlotReport> bindSlots(mlir::ModuleOp module,
                                      KernelRegistry registry,
                                      const SlotConfig &config);

/// Says what the calls of slots are bound to.
SlotReport reportSlots(mlir::ModuleOp module, const KernelRegistry &registry);

/// Removes all bindings of the models in `only`, of all when it is empty, and
/// with them the bound kernels.
mlir::LogicalResult unbindSlots(mlir::ModuleOp module,
                                llvm::ArrayRef<std::string> only = {});

/// The path at which a slot is called: that of the module around the call; in
/// a function beside models the name in the location of the call, or else the
/// name of the function.
std::string getCallPath(CallSlotOp call);

} // namespace fuse

#endif // FUSE_SLOTS_SLOTBINDING_H
