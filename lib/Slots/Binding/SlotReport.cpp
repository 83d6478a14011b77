//===- SlotReport.cpp - Report the bindings of slots ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/SlotBinding.h"
#include "nn/IR/NNModules.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace fuse;

/// The name of a slot in reports: `m/norm (op=rms_norm, variant=standard)`.
static std::string describe(SlotOp slot) {
  std::string text;
  if (auto model = dyn_cast<ModelOp>(slot->getParentOp()))
    text = ("model '" + model.getSymName() + "', ").str();
  return text + slot.toText();
}

SlotReport fuse::reportSlots(ModuleOp module, const KernelRegistry &registry) {
  SlotReport report;
  SymbolTableCollection tables;
  llvm::DenseSet<Operation *> called;
  module.walk([&](CallSlotOp call) {
    if (call->getParentOfType<SlotOp>() ||
        call->getParentOfType<SlotKernelOp>())
      return;
    SlotOp slot = lookupSlot(tables, call, call.getCallee());
    if (!slot)
      return;
    called.insert(slot);
    SlotCallReport entry;
    if (auto model = dyn_cast<ModelOp>(slot->getParentOp()))
      entry.model = model.getSymName().str();
    entry.path = getCallPath(call);
    entry.slot = slot.getSymName().str();
    entry.op = slot.getOp().str();
    entry.variant = slot.getVariant().str();
    entry.kernel = call.getBound().value_or("").str();
    auto kernel = entry.kernel.empty()
                      ? BoundKernelOp()
                      : dyn_cast_or_null<BoundKernelOp>(tables.lookupSymbolIn(
                            slot, call.getBoundAttr().getAttr()));
    if (entry.kernel == kEagerName) {
      entry.source = kernel ? "registered eager body" : "eager body";
    } else if (kernel) {
      KernelImplementation implementation{
          kernel.getHardware(), kernel.getMode().value_or(KernelMode::Any),
          nullptr, kernel.getCodeAttr()};
      entry.hardware = implementation.hardware.toText();
      entry.mode = stringifyKernelMode(implementation.mode);
      entry.source = implementation.getSourceText();
    }
    report.calls.push_back(std::move(entry));
  });
  module.walk([&](SlotOp slot) {
    if (!called.contains(slot))
      report.unused.push_back(describe(slot));
    // A model may declare its own kernels.
    auto matches = [&](SlotKernelOp kernel) {
      return kernel.getOp() == slot.getOp() &&
             kernel.getVariant() == slot.getVariant();
    };
    bool hasOwn =
        llvm::any_of(slot->getParentRegion()->getOps<SlotKernelOp>(), matches);
    if (!hasOwn && registry.getKernels(slot.getOp(), slot.getVariant()).empty())
      report.withoutKernels.push_back(describe(slot));
  });
  return report;
}

void SlotReport::print(llvm::raw_ostream &os) const {
  if (!target.empty())
    os << "target: " << target << "; mode=" << mode << "\n";
  for (const SlotCallReport &call : calls) {
    if (!call.model.empty())
      os << call.model << " ";
    os << "'" << call.path << "' " << call.slot << " (op=" << call.op
       << ", variant=" << call.variant << "): ";
    if (call.kernel.empty()) {
      os << "unbound\n";
      continue;
    }
    os << call.kernel << ", " << call.source;
    if (!call.hardware.empty())
      os << ", " << call.hardware << ", mode=" << call.mode;
    if (!call.reason.empty())
      os << "; by " << call.reason;
    os << "\n";
  }
  for (const std::string &slot : withoutKernels)
    os << "no kernel is registered for " << slot << "\n";
  for (const std::string &slot : unused)
    os << "no call of " << slot << "\n";
  size_t unbound = llvm::count_if(
      calls, [](const SlotCallReport &call) { return call.kernel.empty(); });
  size_t eager = llvm::count_if(calls, [](const SlotCallReport &call) {
    return call.kernel == kEagerName;
  });
  os << calls.size() << " calls: " << calls.size() - unbound - eager
     << " of kernels, " << eager << " eager, " << unbound << " unbound\n";
}

void SlotReport::printJSON(llvm::raw_ostream &os) const {
  llvm::json::Array entries;
  for (const SlotCallReport &call : calls) {
    llvm::json::Object entry{{"model", call.model},
                             {"path", call.path},
                             {"slot", call.slot},
                             {"op", call.op},
                             {"variant", call.variant}};
    if (call.kernel.empty()) {
      entry["kernel"] = nullptr;
    } else {
      entry["kernel"] = call.kernel;
      entry["source"] = call.source;
      entry["hardware"] = call.hardware;
      entry["mode"] = call.mode;
      entry["because"] = call.reason;
    }
    entries.push_back(std::move(entry));
  }
  llvm::json::Object report{{"target", target},
                            {"mode", mode},
                            {"calls", std::move(entries)},
                            {"without_kernels", withoutKernels},
                            {"unused", unused}};
  os << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(report)));
}
