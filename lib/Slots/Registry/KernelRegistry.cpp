//===- KernelRegistry.cpp - Registry of kernels for slots -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/KernelRegistry.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;

std::string KernelImplementation::getSourceText() const {
  if (auto gpu = dyn_cast_or_null<GPUCodeAttr>(code))
    return (stringifyCodeFormat(gpu.getFormat()) + " " + gpu.getFile() + ":" +
            gpu.getEntry())
        .str();
  if (auto host = dyn_cast_or_null<CPUCodeAttr>(code))
    return ("library " + host.getLibrary() + ":" + host.getSymbol()).str();
  return "generated";
}

void KernelSpec::addGenerated(HardwareAttr hardware, SlotBodyBuilder build,
                              KernelMode mode) {
  implementations.push_back({hardware, mode, std::move(build), Attribute()});
}

void KernelRegistry::addOp(SlotOpSpec spec) {
  auto key = std::make_pair(spec.op, spec.variant);
  ops[key] = std::make_shared<const SlotOpSpec>(std::move(spec));
}

const SlotOpSpec *KernelRegistry::lookupOp(StringRef op,
                                           StringRef variant) const {
  auto it = ops.find({op.str(), variant.str()});
  return it == ops.end() ? nullptr : it->second.get();
}

/// The name of a kernel in messages.
static std::string describe(const KernelSpec &spec) {
  return "op=" + spec.op + ", variant=" + spec.variant + ", name=" + spec.name;
}

llvm::Error KernelRegistry::add(KernelSpec spec, bool force, bool *replaced) {
  KernelKey key(spec.op, spec.variant, spec.name);
  auto it = kernels.find(key);
  if (replaced)
    *replaced = it != kernels.end();
  if (it != kernels.end() && !force)
    return createStringError(
        "duplicate kernel registration: " + describe(spec) +
        "; it is registered by " + it->second->origin);
  // Otherwise, one name could refer to two kernels.
  std::vector<std::string> names = spec.aliases;
  names.push_back(spec.name);
  for (const KernelSpec *other : getKernels(spec.op, spec.variant)) {
    if (other->name == spec.name)
      continue;
    for (const std::string &name : names)
      if (name == other->name || llvm::is_contained(other->aliases, name))
        return createStringError("kernel " + describe(spec) + ": the name '" +
                                 name + "' is already that of kernel '" +
                                 other->name + "' or an alias of it");
  }
  kernels[key] = std::make_shared<const KernelSpec>(std::move(spec));
  return llvm::Error::success();
}

const KernelSpec *KernelRegistry::lookup(StringRef op, StringRef variant,
                                         StringRef name) const {
  auto it = kernels.find({op.str(), variant.str(), name.str()});
  return it == kernels.end() ? nullptr : it->second.get();
}

const KernelSpec *KernelRegistry::lookupAlias(StringRef op, StringRef variant,
                                              StringRef alias) const {
  for (const KernelSpec *kernel : getKernels(op, variant))
    if (llvm::is_contained(kernel->aliases, alias))
      return kernel;
  return nullptr;
}

std::vector<const KernelSpec *>
KernelRegistry::getKernels(StringRef op, StringRef variant) const {
  std::vector<const KernelSpec *> result;
  for (auto it = kernels.lower_bound({op.str(), variant.str(), ""});
       it != kernels.end() && it->second->op == op &&
       it->second->variant == variant;
       ++it)
    result.push_back(it->second.get());
  return result;
}

std::vector<std::string> KernelRegistry::getVariantsWith(StringRef op,
                                                         StringRef name) const {
  std::vector<std::string> result;
  for (const auto &[key, kernel] : kernels)
    if (kernel->op == op &&
        (kernel->name == name || llvm::is_contained(kernel->aliases, name)))
      result.push_back(kernel->variant);
  return result;
}

std::vector<const KernelSpec *> KernelRegistry::getKernels() const {
  std::vector<const KernelSpec *> result;
  for (const auto &[key, kernel] : kernels)
    result.push_back(kernel.get());
  return result;
}

std::vector<const SlotOpSpec *> KernelRegistry::getOps() const {
  std::vector<const SlotOpSpec *> result;
  for (const auto &[key, op] : ops)
    result.push_back(op.get());
  return result;
}
