//===- KernelRegistry.h - Registry of kernels for slots ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A registry is a value that belongs to a context. Every context starts with
// the kernels that fuse generates. A binder of slots may copy the registry of
// its context and add kernels to the copy. Kernels are built, and files of code
// are opened, only when a slot is bound to them.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_KERNELREGISTRY_H
#define FUSE_SLOTS_KERNELREGISTRY_H

#include "fuse/IR/FuseOps.h"
#include "mlir/IR/Builders.h"
#include "nn/IR/NNOps.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <map>
#include <memory>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fuse {

/// Builds the computation of a slot at the insertion point. `args` are the
/// operands of the slot; returns the results. For an unsupported slot, emits an
/// error at the slot and returns failure.
using SlotBodyBuilder =
    std::function<mlir::FailureOr<llvm::SmallVector<mlir::Value>>(
        mlir::OpBuilder &builder, SlotOp slot, mlir::ValueRange args)>;

/// Description of an op and a variant, as text and as code.
struct SlotOpSpec {
  std::string op;
  std::string variant;
  /// The formula, and the params that a slot requires.
  std::string description;
  /// Does not share code with kernels, so that it can be their reference.
  SlotBodyBuilder eager;
};

/// Code of a kernel for some hardware and modes: either `build` or `code` is
/// set.
struct KernelImplementation {
  HardwareAttr hardware;
  KernelMode mode = KernelMode::Any;
  SlotBodyBuilder build;
  /// `#nn.gpu_code` or `#nn.cpu_code`, with a resolved path.
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
  /// Former names.
  std::vector<std::string> aliases;
  std::vector<KernelImplementation> implementations;
  /// The registrant: `fuse`, or a file.
  std::string origin = "fuse";

  void addGenerated(HardwareAttr hardware, SlotBodyBuilder build,
                    KernelMode mode = KernelMode::Any);
};

/// Key of a kernel: op, variant, name.
using KernelKey = std::tuple<std::string, std::string, std::string>;

class KernelRegistry {
public:
  explicit KernelRegistry(mlir::MLIRContext *context) : context(context) {}

  mlir::MLIRContext *getContext() const { return context; }
  HardwareAttr getHardware(DeviceType device, unsigned from = 0,
                           unsigned to = 0) const {
    return HardwareAttr::get(context, device, from, to);
  }

  /// Adds the description of an op and variant, once for each.
  void addOp(SlotOpSpec spec);
  /// Returns null if there is no such op and variant.
  const SlotOpSpec *lookupOp(llvm::StringRef op, llvm::StringRef variant) const;

  /// Adds a kernel. A second kernel with the same key is an error, unless
  /// `force` is set. In this case, it replaces the first one and sets
  /// `replaced`.
  llvm::Error add(KernelSpec spec, bool force = false,
                  bool *replaced = nullptr);
  /// Finds a kernel by its name, not by an alias.
  const KernelSpec *lookup(llvm::StringRef op, llvm::StringRef variant,
                           llvm::StringRef name) const;
  /// Finds a kernel by a former name.
  const KernelSpec *lookupAlias(llvm::StringRef op, llvm::StringRef variant,
                                llvm::StringRef alias) const;

  /// All kernels of an op and variant, sorted by name.
  std::vector<const KernelSpec *> getKernels(llvm::StringRef op,
                                             llvm::StringRef variant) const;
  /// Variants of `op` with a kernel called `name`.
  std::vector<std::string> getVariantsWith(llvm::StringRef op,
                                           llvm::StringRef name) const;
  /// All kernels, sorted by key.
  std::vector<const KernelSpec *> getKernels() const;
  std::vector<const SlotOpSpec *> getOps() const;

  /// Adds the `nn.slot_kernel` ops directly in `container`, which need not
  /// outlive the registry. Relative paths start at `directory`. A kernel that
  /// replaces another one causes a remark.
  mlir::LogicalResult load(mlir::Operation *container,
                           llvm::StringRef directory, llvm::StringRef origin,
                           bool force = false);
  /// Adds the kernels of a file of fuse IR. Emits errors at locations in the
  /// file.
  mlir::LogicalResult loadFile(llvm::StringRef path, bool force = false);

  /// Prints ops, variants, kernels and their implementations.
  void print(llvm::raw_ostream &os) const;
  void printJSON(llvm::raw_ostream &os) const;

private:
  mlir::MLIRContext *context;
  /// Shared, because every pass copies the registry.
  std::map<KernelKey, std::shared_ptr<const KernelSpec>> kernels;
  std::map<std::pair<std::string, std::string>,
           std::shared_ptr<const SlotOpSpec>>
      ops;
};

/// Adds the kernels that fuse generates to every context of `registry`.
void registerKernels(mlir::DialectRegistry &registry);

/// The registry of a context, to copy or to extend. Adding a kernel is not
/// thread-safe while passes run in the same context.
KernelRegistry &getKernelRegistry(mlir::MLIRContext *context);

} // namespace fuse

#endif // FUSE_SLOTS_KERNELREGISTRY_H
