//===- SlotBinding.h - Bind slots to kernels and undo it --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions behind the passes on slots, for callers with a separate registry.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_SLOTBINDING_H
#define FUSE_SLOTS_SLOTBINDING_H

#include "fuse/Slots/KernelRegistry.h"
#include "fuse/Slots/SlotConfig.h"

namespace fuse {

/// The binding of one call of a slot.
struct SlotCallReport {
  /// Name of the model; empty for a function outside of models.
  std::string model;
  std::string path;
  std::string slot;
  std::string op;
  std::string variant;
  /// `eager`, the name of a kernel, or empty if unbound.
  std::string kernel;
  std::string hardware;
  std::string mode;
  /// `eager body`, `generated`, or the file and the name in the file.
  std::string source;
  /// The setting that selected the kernel: `bind rms_norm`, `override
  /// model.layers.0.*`, ...
  std::string reason;
};

/// All slots of a module with their bindings.
struct SlotReport {
  std::string target;
  std::string mode;
  std::vector<SlotCallReport> calls;
  /// Ops and variants of slots without a registered kernel.
  std::vector<std::string> withoutKernels;
  /// Slots without calls.
  std::vector<std::string> unused;

  void print(llvm::raw_ostream &os) const;
  void printJSON(llvm::raw_ostream &os) const;
};

/// Binds the calls of slots according to `config`, to kernels of `registry`, of
/// the module and of its models. Loads the dialects that the bodies need. After
/// a failure, nothing is bound.
mlir::FailureOr<SlotReport> bindSlots(mlir::ModuleOp module,
                                      KernelRegistry registry,
                                      const SlotConfig &config);

/// Returns the bindings of all calls of slots.
SlotReport reportSlots(mlir::ModuleOp module, const KernelRegistry &registry);

/// Removes all bindings of the models in `only`, or of all models if it is
/// empty. Also removes the bound kernels.
mlir::LogicalResult unbindSlots(mlir::ModuleOp module,
                                llvm::ArrayRef<std::string> only = {});

/// The path of a slot call. In a model, it is the path of the enclosing module.
/// In a function outside of models, it is the name in the location of the call,
/// or else the name of the function.
std::string getCallPath(CallSlotOp call);

} // namespace fuse

#endif // FUSE_SLOTS_SLOTBINDING_H
