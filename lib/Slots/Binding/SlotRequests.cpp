//===- SlotRequests.cpp - Select a kernel for each call of a slot ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlotBinder.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Existing slots, calls and models
//===----------------------------------------------------------------------===//

/// The kernel for `rms_norm` or `rms_norm/standard` in `bind`, or null.
static const std::string *lookup(const SlotBindingMap &bind, SlotOp slot) {
  auto it = bind.find((slot.getOp() + "/" + slot.getVariant()).str());
  if (it == bind.end())
    it = bind.find(slot.getOp().str());
  return it == bind.end() ? nullptr : &it->second;
}

/// Whether the key of a binding applies to a slot.
static bool concerns(StringRef key, SlotOp slot) {
  auto [op, variant] = key.split('/');
  return op == slot.getOp() &&
         (!key.contains('/') || variant == slot.getVariant());
}

LogicalResult SlotBinder::collect() {
  if (failed(registry.load(module, "", "the module", config.force)))
    return failure();
  registries.emplace(nullptr, registry);
  SmallVector<StringRef> names;
  for (auto model : module.getOps<ModelOp>()) {
    names.push_back(model.getSymName());
    KernelRegistry own = registry;
    if (failed(own.load(model, "", ("model '" + model.getSymName() + "'").str(),
                        config.force)))
      return failure();
    registries.emplace(model, std::move(own));
  }
  auto checkModel = [&](StringRef name) -> LogicalResult {
    if (llvm::is_contained(names, name))
      return success();
    return module.emitError()
           << "no model '" << name << "'; "
           << (names.empty() ? "there are none" : "there are ")
           << llvm::join(names, ", ");
  };
  for (const std::string &name : config.only)
    if (failed(checkModel(name)))
      return failure();
  for (const auto &[name, request] : config.models)
    if (failed(checkModel(name)))
      return failure();

  module.walk([&](CallSlotOp op) {
    SlotCall call;
    call.op = op;
    call.slot = lookupSlot(tables, op, op.getCallee());
    call.model = dyn_cast<ModelOp>(call.slot->getParentOp());
    call.path = getCallPath(op);
    // Calls inside of a kernel or a slot are bound where that body is used.
    if (!op->getParentOfType<SlotOp>() && !op->getParentOfType<SlotKernelOp>())
      calls.push_back(std::move(call));
  });
  return success();
}

SmallVector<SlotCall *> SlotBinder::getCalls(StringRef model) {
  SmallVector<SlotCall *> result;
  for (SlotCall &call : calls)
    if (model.empty() || call.getModelName() == model)
      result.push_back(&call);
  return result;
}

LogicalResult SlotBinder::parseGlobs(const SlotRequest &request) {
  for (const SlotOverride &entry : request.overrides) {
    llvm::Expected<PathGlob> glob = PathGlob::create(entry.path);
    if (!glob)
      return module.emitError() << llvm::toString(glob.takeError());
    globs.emplace(entry.path, std::move(*glob));
  }
  return success();
}

/// Checks that every binding and override applies to a call. Otherwise, a
/// typing error would silently leave a slot unbound.
LogicalResult SlotBinder::checkRequest(const SlotRequest &request,
                                       StringRef model) {
  SmallVector<SlotCall *> all = getCalls(model);
  auto where = [&](InFlightDiagnostic &diag) {
    if (!model.empty())
      diag << " in model '" << model << "'";
  };
  auto checkKey = [&](StringRef key) -> LogicalResult {
    if (llvm::any_of(all,
                     [&](SlotCall *call) { return concerns(key, call->slot); }))
      return success();
    std::set<std::string> ops;
    for (SlotCall *call : all)
      ops.insert((call->slot.getOp() + "/" + call->slot.getVariant()).str());
    InFlightDiagnostic diag = module.emitError();
    diag << "no call of a slot of op '" << key << "'";
    where(diag);
    return diag << (ops.empty() ? "; there are no calls of slots"
                                : "; there are " + llvm::join(ops, ", "));
  };
  for (const auto &[key, kernel] : request.bind)
    if (failed(checkKey(key)))
      return failure();
  for (const SlotOverride &entry : request.overrides) {
    const PathGlob &glob = globs.find(entry.path)->second;
    for (const auto &[key, kernel] : entry.bind) {
      if (failed(checkKey(key)))
        return failure();
      llvm::SetVector<StringRef> paths;
      bool matches = false;
      for (SlotCall *call : all) {
        if (!concerns(key, call->slot))
          continue;
        paths.insert(call->path);
        matches |= glob.match(call->path);
      }
      if (matches)
        continue;
      InFlightDiagnostic diag = module.emitError();
      diag << "override '" << entry.path << "': no call of a slot of op '"
           << key << "' is at such a path";
      where(diag);
      return diag << "; they are at " << llvm::join(paths.getArrayRef(), ", ");
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Requested kernels
//===----------------------------------------------------------------------===//

/// Resolves all kernels of the preset. A part of it that cannot run on the
/// target is an error, even if no model has such a slot.
LogicalResult SlotBinder::resolvePreset() {
  if (config.preset.empty())
    return success();
  auto it = config.presets.find(config.preset);
  if (it != config.presets.end()) {
    preset = it->second;
  } else if (config.preset == "fuse") {
    for (const KernelSpec *kernel : registry.getKernels())
      if (kernel->name == "fuse")
        preset[kernel->op + "/" + kernel->variant] = kernel->name;
  } else {
    SmallVector<StringRef> names = {"fuse"};
    for (const auto &[name, bind] : config.presets)
      names.push_back(name);
    return module.emitError() << "no preset '" << config.preset
                              << "'; there are " << llvm::join(names, ", ");
  }
  for (const auto &[key, kernel] : preset) {
    auto [op, variant] = StringRef(key).split('/');
    std::vector<std::string> variants;
    if (StringRef(key).contains('/'))
      variants.push_back(variant.str());
    else
      variants = registry.getVariantsWith(op, kernel);
    // Use the variant of a slot in the error, if there is one.
    if (variants.empty())
      for (SlotCall &call : calls)
        if (call.slot.getOp() == op)
          variants.push_back(call.slot.getVariant().str());
    if (variants.empty())
      variants.push_back("standard");
    for (const std::string &name : variants) {
      llvm::Expected<KernelChoice> choice = resolveKernel(
          registry, op, name, kernel, target, [](const Twine &) {});
      if (!choice)
        return module.emitError()
               << "preset '" << config.preset
               << "' fails: " << llvm::toString(choice.takeError());
    }
  }
  return success();
}

bool SlotBinder::decide(SlotCall &call, const SlotRequest &request,
                        StringRef prefix) {
  for (const SlotOverride &entry : llvm::reverse(request.overrides)) {
    const std::string *name = lookup(entry.bind, call.slot);
    if (!name || !globs.find(entry.path)->second.match(call.path))
      continue;
    call.name = *name;
    call.reason = (prefix + "override " + entry.path).str();
    return true;
  }
  const std::string *name = lookup(request.bind, call.slot);
  if (!name)
    return false;
  call.name = *name;
  call.reason = (prefix + "bind " + call.slot.getOp()).str();
  return true;
}

void SlotBinder::decide(SlotCall &call) {
  StringRef model = call.getModelName();
  if (!config.only.empty() && !llvm::is_contained(config.only, model))
    return;
  auto it = config.models.find(model.str());
  if (it != config.models.end() &&
      decide(call, it->second, ("model " + model + " ").str()))
    return;
  if (decide(call, config.request, ""))
    return;
  if (const std::string *name = lookup(preset, call.slot)) {
    call.name = *name;
    call.reason = "preset " + config.preset;
  } else if (!config.otherwise.empty()) {
    call.name = config.otherwise;
    call.reason = "default";
  }
}
