//===- SlotBinder.h - Bind calls of slots to kernels ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_BINDING_SLOTBINDER_H
#define FUSE_SLOTS_BINDING_SLOTBINDER_H

#include "fuse/Analysis/PathGlob.h"
#include "fuse/Slots/ResolveKernel.h"
#include "fuse/Slots/SlotBinding.h"
#include "mlir/IR/OwningOpRef.h"
#include "nn/IR/NNModules.h"
#include "llvm/ADT/MapVector.h"

#include <map>
#include <set>

namespace fuse {

/// A call of a slot and its selected kernel.
struct SlotCall {
  CallSlotOp op;
  SlotOp slot;
  /// The model that contains the slot, or null.
  ModelOp model;
  std::string path;

  /// The requested kernel name; empty if no setting selects the call.
  std::string name;
  std::string reason;
  KernelChoice choice;

  llvm::StringRef getModelName() const {
    return model ? ModelOp(model).getSymName() : llvm::StringRef();
  }
  std::string toText() const {
    return SlotOp(slot).toText() + " at '" + path + "'";
  }
};

/// A new kernel for calls of one slot, which share it.
struct NewKernel {
  mlir::OwningOpRef<BoundKernelOp> op;
  /// The existing kernel of this name in the slot, which is erased.
  BoundKernelOp replaced;
};

class SlotBinder {
public:
  SlotBinder(mlir::ModuleOp module, KernelRegistry registry,
             const SlotConfig &config)
      : module(module), registry(std::move(registry)), config(config) {}

  llvm::FailureOr<SlotReport> run();

private:
  llvm::LogicalResult collect();
  llvm::LogicalResult parseGlobs(const SlotRequest &request);
  llvm::LogicalResult checkRequest(const SlotRequest &request,
                                   llvm::StringRef model);
  llvm::LogicalResult resolvePreset();
  void decide(SlotCall &call);
  bool decide(SlotCall &call, const SlotRequest &request,
              llvm::StringRef prefix);
  llvm::LogicalResult resolve(SlotCall &call);
  llvm::LogicalResult checkRebinding(SlotCall &call);
  llvm::LogicalResult build(SlotCall &call);
  void apply();

  const KernelRegistry &getRegistry(ModelOp model) {
    return registries.find(model)->second;
  }
  /// All calls to which a request for `model` applies.
  llvm::SmallVector<SlotCall *> getCalls(llvm::StringRef model);

  mlir::ModuleOp module;
  KernelRegistry registry;
  const SlotConfig &config;
  SlotTarget target;
  mlir::SymbolTableCollection tables;
  std::vector<SlotCall> calls;
  /// The registry of each model, including the kernels declared in the model.
  std::map<mlir::Operation *, KernelRegistry> registries;
  std::map<std::string, PathGlob> globs;
  SlotBindingMap preset;
  llvm::MapVector<std::pair<mlir::Operation *, mlir::StringAttr>, NewKernel>
      kernels;
  std::set<std::string> warned;
};

} // namespace fuse

#endif // FUSE_SLOTS_BINDING_SLOTBINDER_H
