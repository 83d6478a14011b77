//===- ResolveKernel.cpp - Resolve the name of a kernel -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/ResolveKernel.h"
#include "nn/IR/NNModules.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;

std::optional<unsigned> fuse::getModeDistance(KernelMode wanted,
                                              KernelMode offered) {
  constexpr KernelMode inference = KernelMode::Inference;
  constexpr KernelMode training = KernelMode::Training;
  constexpr KernelMode compile = KernelMode::Compile;
  SmallVector<KernelMode> chain;
  bool isCompiled = bitEnumContainsAll(wanted, compile);
  if (bitEnumContainsAll(wanted, inference)) {
    if (!isCompiled)
      chain.push_back(inference);
    chain.push_back(inference | compile);
  }
  if (!isCompiled)
    chain.push_back(training);
  chain.push_back(training | compile);
  chain.push_back(KernelMode::Any);
  auto *it = llvm::find(chain, offered);
  if (it == chain.end())
    return std::nullopt;
  return it - chain.begin();
}

/// The best implementation for a target. Sets `hardware` if any of them
/// supports the device.
static const KernelImplementation *
choose(const KernelSpec &kernel, const SlotTarget &target, bool &hardware) {
  const KernelImplementation *best = nullptr;
  hardware = false;
  for (const KernelImplementation &candidate : kernel.implementations) {
    if (!candidate.hardware.isMetBy(target.device, target.capability))
      continue;
    hardware = true;
    std::optional<unsigned> distance =
        getModeDistance(target.mode, candidate.mode);
    if (!distance)
      continue;
    auto rank = [&](const KernelImplementation &implementation) {
      return std::make_pair(implementation.hardware.getSize(),
                            *getModeDistance(target.mode, implementation.mode));
    };
    if (!best || rank(candidate) < rank(*best))
      best = &candidate;
  }
  return best;
}

/// The names of all kernels, or of those that could run: `eager, fuse, mine`.
static std::string listKernels(const KernelRegistry &registry, StringRef op,
                               StringRef variant, const SlotTarget *target) {
  std::string text = kEagerName.str();
  for (const KernelSpec *kernel : registry.getKernels(op, variant)) {
    bool hardware;
    if (!target || choose(*kernel, *target, hardware))
      text += ", " + kernel->name;
  }
  return text;
}

llvm::Expected<KernelChoice>
fuse::resolveKernel(const KernelRegistry &registry, StringRef op,
                    StringRef variant, StringRef name, const SlotTarget &target,
                    llvm::function_ref<void(const Twine &)> warn) {
  if (name == kEagerName)
    return KernelChoice();
  std::string key = ("op=" + op + ", variant=" + variant).str();
  const KernelSpec *kernel = registry.lookup(op, variant, name);
  if (!kernel) {
    kernel = registry.lookupAlias(op, variant, name);
    if (kernel)
      warn("kernel name '" + name + "' for " + key + " is deprecated; use '" +
           kernel->name + "'");
  }
  if (!kernel) {
    std::vector<std::string> others = registry.getVariantsWith(op, name);
    std::string available = listKernels(registry, op, variant, nullptr);
    if (!others.empty())
      return createStringError(
          "kernel '" + name + "' for op=" + op + " is of variant " +
          llvm::join(others, ", ") + ", the slot of variant " + variant +
          "; kernels can stand for each other only within one variant; "
          "available: " +
          available);
    return createStringError("unknown kernel '" + name + "' for " + key +
                             "; available: " + available);
  }
  bool hardware;
  const KernelImplementation *implementation =
      choose(*kernel, target, hardware);
  if (implementation)
    return KernelChoice{kernel, implementation};
  std::string alternatives = listKernels(registry, op, variant, &target);
  SmallVector<std::string> offers;
  for (const KernelImplementation &candidate : kernel->implementations) {
    if (!hardware)
      offers.push_back(candidate.hardware.toText());
    else if (candidate.hardware.isMetBy(target.device, target.capability))
      offers.push_back(stringifyKernelMode(candidate.mode));
  }
  if (!hardware)
    return createStringError("kernel '" + kernel->name + "' for " + key +
                             " requires " + llvm::join(offers, " or ") +
                             ", but the target is " + target.toText() +
                             "; available for it: " + alternatives);
  return createStringError("kernel '" + kernel->name + "' for " + key +
                           " is for mode " + llvm::join(offers, ", ") +
                           ", not for " + stringifyKernelMode(target.mode) +
                           "; available for it: " + alternatives);
}
