//===- KernelFiles.cpp - Load kernels from files --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/KernelRegistry.h"
#include "fuse/Support/ReadModule.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "nn/IR/NNModules.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace fuse;

#define DEBUG_TYPE "fuse-kernel-registry"

static std::string resolvePath(StringRef path, StringRef directory) {
  if (directory.empty() || llvm::sys::path::is_absolute(path))
    return path.str();
  llvm::SmallString<128> resolved(directory);
  llvm::sys::path::append(resolved, path);
  return resolved.str().str();
}

/// The same code with its path resolved against `directory`.
static Attribute resolveCode(Attribute code, StringRef directory) {
  if (auto gpu = dyn_cast_or_null<GPUCodeAttr>(code))
    return GPUCodeAttr::get(code.getContext(), gpu.getFormat(),
                            resolvePath(gpu.getFile(), directory),
                            gpu.getEntry(), gpu.getGrid(), gpu.getBlock(),
                            gpu.getShared(), gpu.getSizes(), gpu.getArgs());
  if (auto host = dyn_cast_or_null<CPUCodeAttr>(code))
    return CPUCodeAttr::get(code.getContext(),
                            resolvePath(host.getLibrary(), directory),
                            host.getSymbol(), host.getSizes(), host.getArgs());
  return code;
}

/// Copies the function of an implementation, which has one signature.
static FailureOr<SmallVector<Value>> cloneBody(FunctionOpInterface body,
                                               OpBuilder &builder, SlotOp slot,
                                               ValueRange args) {
  auto type = cast<FunctionType>(slot.getSignature());
  if (body.getArgumentTypes() != type.getInputs() ||
      body.getResultTypes() != type.getResults())
    return slot.emitError() << slot.toText() << " has type " << type
                            << ", the kernel is for " << body.getFunctionType();
  IRMapping mapping;
  Block &block = body.getFunctionBody().front();
  mapping.map(block.getArguments(), args);
  for (Operation &op : block.without_terminator())
    builder.clone(op, mapping);
  SmallVector<Value> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(mapping.lookup(value));
  return results;
}

LogicalResult KernelRegistry::load(Operation *container, StringRef directory,
                                   StringRef origin, bool force) {
  for (auto kernel : container->getRegion(0).getOps<SlotKernelOp>()) {
    KernelSpec spec;
    spec.name = kernel.getName().str();
    spec.op = kernel.getOp().str();
    spec.variant = kernel.getVariant().str();
    spec.description = kernel.getDescription().value_or("").str();
    spec.origin = origin.str();
    if (kernel.getAliases())
      for (auto alias : kernel.getAliasesAttr().getAsRange<StringAttr>())
        spec.aliases.push_back(alias.str());
    // The bodies must not depend on the module from which they were read.
    auto copy = std::make_shared<OwningOpRef<SlotKernelOp>>(kernel.clone());
    for (auto op : (**copy).getBody().getOps<ImplementationOp>()) {
      KernelImplementation implementation;
      implementation.hardware = op.getHardware();
      implementation.mode = op.getMode().value_or(KernelMode::Any);
      implementation.code = resolveCode(op.getCodeAttr(), directory);
      if (Operation *body = op.getBodyFunction())
        implementation.build = [copy, body](OpBuilder &builder, SlotOp slot,
                                            ValueRange args) {
          return cloneBody(cast<FunctionOpInterface>(body), builder, slot,
                           args);
        };
      spec.implementations.push_back(std::move(implementation));
    }
    bool replaced = false;
    const KernelSpec *old = lookup(spec.op, spec.variant, spec.name);
    std::string oldOrigin = old ? old->origin : "";
    if (llvm::Error error = add(std::move(spec), force, &replaced))
      return kernel.emitError() << llvm::toString(std::move(error));
    if (replaced)
      remark::analysis(kernel.getLoc(),
                       remark::RemarkOpts::name(kernel.getNameAttr())
                           .category("fuse")
                           .subCategory(DEBUG_TYPE))
          << remark::reason("replaces kernel op={0}, variant={1}, name={2} of "
                            "{3}",
                            kernel.getOp().str(), kernel.getVariant().str(),
                            kernel.getName().str(), oldOrigin);
  }
  return success();
}

LogicalResult KernelRegistry::loadFile(StringRef path, bool force) {
  Location loc = UnknownLoc::get(context);
  llvm::SourceMgr sources;
  auto read = readModule(*context, path, sources);
  if (!read)
    return emitError(loc) << "kernels: " << llvm::toString(read.takeError());
  OwningOpRef<ModuleOp> module = std::move(*read);
  if (module->getOps<SlotKernelOp>().empty())
    return emitError(loc) << "kernels: " << path
                          << " has no nn.slot_kernel to register";
  return load(*module, llvm::sys::path::parent_path(path), path, force);
}
