//===- ListKernels.cpp - Print the kernels of a registry ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/KernelRegistry.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

using namespace mlir;
using namespace fuse;

/// All (op, variant) pairs with a description or a kernel.
static std::set<std::pair<std::string, std::string>>
getVariants(const KernelRegistry &registry) {
  std::set<std::pair<std::string, std::string>> variants;
  for (const SlotOpSpec *op : registry.getOps())
    variants.insert({op->op, op->variant});
  for (const KernelSpec *kernel : registry.getKernels())
    variants.insert({kernel->op, kernel->variant});
  return variants;
}

void KernelRegistry::print(llvm::raw_ostream &os) const {
  for (const auto &[op, variant] : getVariants(*this)) {
    os << "op=" << op << ", variant=" << variant;
    if (const SlotOpSpec *spec = lookupOp(op, variant))
      os << ": " << spec->description;
    os << "\n";
    if (lookupOp(op, variant))
      os << "  eager: the body of the slot, or else the registered one\n";
    else
      os << "  eager: the body of the slot\n";
    std::vector<const KernelSpec *> kernels = getKernels(op, variant);
    if (kernels.empty())
      os << "  no kernel is registered\n";
    for (const KernelSpec *kernel : kernels) {
      os << "  " << kernel->name << " (" << kernel->origin << ")";
      if (!kernel->description.empty())
        os << ": " << kernel->description;
      os << "\n";
      for (const std::string &alias : kernel->aliases)
        os << "    deprecated name " << alias << "\n";
      for (const KernelImplementation &implementation : kernel->implementations)
        os << "    " << implementation.hardware.toText()
           << "; mode=" << stringifyKernelMode(implementation.mode) << "; "
           << implementation.getSourceText() << "\n";
    }
  }
}

static llvm::json::Value toJSON(const KernelSpec &kernel) {
  llvm::json::Array implementations, aliases;
  for (const std::string &alias : kernel.aliases)
    aliases.push_back(alias);
  for (const KernelImplementation &implementation : kernel.implementations) {
    HardwareAttr hardware = implementation.hardware;
    llvm::json::Object entry{
        {"device_type", stringifyDeviceType(hardware.getDevice())},
        {"mode", stringifyKernelMode(implementation.mode)},
        {"source", implementation.getSourceText()}};
    if (hardware.getFrom())
      entry["min_capability"] = hardware.getFrom();
    if (hardware.getTo())
      entry["max_capability"] = hardware.getTo();
    implementations.push_back(std::move(entry));
  }
  return llvm::json::Object{{"name", kernel.name},
                            {"description", kernel.description},
                            {"origin", kernel.origin},
                            {"aliases", std::move(aliases)},
                            {"implementations", std::move(implementations)}};
}

void KernelRegistry::printJSON(llvm::raw_ostream &os) const {
  llvm::json::Array ops;
  for (const auto &[op, variant] : getVariants(*this)) {
    llvm::json::Array kernels;
    for (const KernelSpec *kernel : getKernels(op, variant))
      kernels.push_back(toJSON(*kernel));
    const SlotOpSpec *spec = lookupOp(op, variant);
    ops.push_back(
        llvm::json::Object{{"op", op},
                           {"variant", variant},
                           {"description", spec ? spec->description : ""},
                           {"registered_eager", spec != nullptr},
                           {"kernels", std::move(kernels)}});
  }
  os << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(ops)));
}
