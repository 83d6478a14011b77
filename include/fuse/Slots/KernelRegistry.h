//===- KernelRegistry.h - Kernels that slots can be bound to ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A registry is a value that belongs to a context. Every context starts with
// the kernels that fuse generates; a binder of slots may copy its registry
// and add kernels to the copy. Nothing is built, and no file of code opened,
// before a slot is bound to it.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_KERNELREGISTRY_H
#define FUSE_SLOTS_KERNELREGISTRY_H

#include "fuse/IR/FuseOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <map>
#include <memory>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fuse {

/// Builds what a slot computes where the builder stands. `args` are the
/// operands of the slot; returns the results. For a slot that it cannot serve
/// it reports an error at the slot and returns failure.
using SlotBodyBuilder =
    std::function<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(
        mlir::OpBuilder &builder, SlotOp slot, mlir::ValueRange args)>;

/// An op and a variant: what they compute, in words and as code.
struct SlotOpSpec {
  std::string op;
  std::string variant;
  /// The formula, and the params that a slot needs.
  std::string description;
  /// Written without the kernels, so that it can be their reference.
  SlotBodyBuilder eager;
};

/// A kernel's code for some hardware and modes: `build` or `code`.
struct KernelImplementation {
  HardwareAttr hardware;
  KernelMode mode = KernelMode::Any;
  SlotBodyBuilder build;
  /// `#fuse.gpu_code` or `#fuse.cpu_code`, with paths that can be opened.
  mlir::Attribute code;

  /// `generated`, `ptx rms_norm.ptx:rms_norm`, ...
  std::string getSourceText() const;
};

/// A kernel. Its key is (op, variant, name).
struct KernelSpec {
  std::string name;
  std::string op;
  std::string variant;
  std::string description;
  /// Names that it had before.
  std::vector<std::string> aliases;
  std::vector<KernelImplementation> implementations;
  /// Who registered it: `fuse`, or a file.
  std::string origin = "fuse";

  void addGenerated(HardwareAttr hardware, SlotBodyBuilder build,
                    KernelMode mode = KernelMode::Any);
};

/// What the passes name a kernel by.
using KernelKey = std::tuple<std::string, std::string, std::string>;

class KernelRegistry {
public:
  explicit KernelRegistry(mlir::MLIRContext *context) : context(context) {}

  mlir::MLIRContext *getContext() const { return context; }
  HardwareAttr getHardware(DeviceType device, unsigned from = 0,
                           unsigned to = 0) const {
    return HardwareAttr::get(context, device, from, to);
  }

  /// Says what an op and variant compute; once for each.
  void addOp(SlotOpSpec spec);
  /// Null for an op or variant without a description.
  const SlotOpSpec *lookupOp(llvm::StringRef op, llvm::StringRef variant) const;

  /// Adds a kernel. A second one of the same key is an error, unless `force`
  /// is set; then it replaces the first, and `replaced` says so.
  llvm::Error add(KernelSpec spec, bool force = false,
                  bool *replaced = nullptr);
  /// Finds a kernel by its name. Aliases are not names.
  const KernelSpec *lookup(llvm::StringRef op, llvm::StringRef variant,
                           llvm::StringRef name) const;
  /// Finds a kernel by a name that it had before.
  const KernelSpec *lookupAlias(llvm::StringRef op, llvm::StringRef variant,
                                llvm::StringRef alias) const;

  /// All kernels of an op and variant, by name.
  std::vector<const KernelSpec *> getKernels(llvm::StringRef op,
                                             llvm::StringRef variant) const;
  /// Variants of `op` that have a kernel called `name`.
  std::vector<std::string> getVariantsWith(llvm::StringRef op,
                                           llvm::StringRef name) const;
  /// Everything, by key.
  std::vector<const KernelSpec *> getKernels() const;
  std::vector<const SlotOpSpec *> getOps() const;

  /// Adds the `fuse.slot_kernel` ops that stand directly in `container`, which
  /// need not outlive the registry. Relative paths start at `directory`.
  /// A kernel that replaces another one yields a remark.
  mlir::LogicalResult load(mlir::Operation *container,
                           llvm::StringRef directory, llvm::StringRef origin,
                           bool force = false);
  /// Adds the kernels of a file of fuse IR. Reports errors at its place.
  mlir::LogicalResult loadFile(llvm::StringRef path, bool force = false);

  /// Lists ops, variants, kernels and their implementations.
  void print(llvm::raw_ostream &os) const;
  void printJSON(llvm::raw_ostream &os) const;

private:
  mlir::MLIRContext *context;
  /// Shared, because copies of a registry are made for every pass.
  std::map<KernelKey, std::shared_ptr<const KernelSpec>> kernels;
  std::map<std::pair<std::string, std::string>,
           std::shared_ptr<const SlotOpSpec>>
      ops;
};

/// Gives every context of `registry` the kernels that fuse generates.
void registerKernels(mlir::DialectRegistry &registry);

/// The registry of a context, to copy or to add to. Adding must not run beside
/// passes of the same context.
KernelRegistry &getKernelRegistry(mlir::MLIRContext *context);

} // namespace fuse

#endif // FUSE_SLOTS_KERNELREGISTRY_H
