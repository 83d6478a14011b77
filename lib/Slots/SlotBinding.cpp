//===- SlotBinding.cpp - Bind calls of slots to kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything is resolved and built before the first call changes, so that a
// configuration is applied as a whole or not at all.
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/SlotBinding.h"
#include "fuse/Analysis/PathGlob.h"
#include "fuse/IR/FuseModules.h"
#include "fuse/Registry/ResolveKernel.h"
#include "fuse/Support/Inject.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;
using namespace fuse;

#define DEBUG_TYPE "fuse-bind-slots"

std::string fuse::getCallPath(CallSlotOp call) {
  if (Operation *module = getEnclosingModule(call))
    return getModulePath(module);
  if (auto name = call.getLoc()->findInstanceOf<NameLoc>())
    return name.getName().str();
  if (auto function = call->getParentOfType<FunctionOpInterface>())
    return function.getName().str();
  return "";
}

namespace {

/// A call of a slot and what was decided for it.
struct SlotCall {
  CallSlotOp op;
  SlotOp slot;
  /// The model that the slot belongs to, or null.
  ModelOp model;
  std::string path;

  /// What was asked for; empty when nothing was.
  std::string name;
  std::string reason;
  KernelChoice choice;

  StringRef getModelName() const {
    return model ? ModelOp(model).getSymName() : StringRef();
  }
  std::string toText() const {
    return SlotOp(slot).toText() + " at '" + path + "'";
  }
};

/// A kernel that calls of one slot will be bound to. It is shared by them.
struct NewKernel {
  OwningOpRef<BoundKernelOp> op;
  /// The kernel of this name that the slot has and that goes.
  BoundKernelOp replaced;
};

class SlotBinder {
public:
  SlotBinder(ModuleOp module, KernelRegistry registry, const SlotConfig &config)
      : module(module), registry(std::move(registry)), config(config) {}

  FailureOr<SlotReport> run();

private:
  LogicalResult collect();
  LogicalResult parseGlobs(const SlotRequest &request);
  LogicalResult checkRequest(const SlotRequest &request, StringRef model);
  LogicalResult resolvePreset();
  void decide(SlotCall &call);
  bool decide(SlotCall &call, const SlotRequest &request, StringRef prefix);
  LogicalResult resolve(SlotCall &call);
  LogicalResult checkRebinding(SlotCall &call);
  LogicalResult build(SlotCall &call);
  void apply();

  const KernelRegistry &getRegistry(ModelOp model) {
    return registries.find(model)->second;
  }
  /// All calls that a request for `model` is about.
  SmallVector<SlotCall *> getCalls(StringRef model);

  ModuleOp module;
  KernelRegistry registry;
  const SlotConfig &config;
  SlotTarget target;
  SymbolTableCollection tables;
  std::vector<SlotCall> calls;
  /// With the kernels that each model has for itself.
  std::map<Operation *, KernelRegistry> registries;
  std::map<std::string, PathGlob> globs;
  SlotBindingMap preset;
  llvm::MapVector<std::pair<Operation *, StringAttr>, NewKernel> kernels;
  std::set<std::string> warned;
};

} // namespace

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//

/// The kernel that stands for `rms_norm` or `rms_norm/standard`, or null.
static const std::string *lookup(const SlotBindingMap &bind, SlotOp slot) {
  auto it = bind.find((slot.getOp() + "/" + slot.getVariant()).str());
  if (it == bind.end())
    it = bind.find(slot.getOp().str());
  return it == bind.end() ? nullptr : &it->second;
}

/// Whether the key of a binding is about a slot.
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
    // What a kernel calls is bound where the kernel is.
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

/// What is asked for has calls that it is about. A typing error would else
/// leave a slot as it was.
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
// What is asked for
//===----------------------------------------------------------------------===//

/// A preset holds as a whole: a part of it that can not run here fails even if
/// no model has such a slot.
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
    // The error then names the variant of a slot, where there is one.
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

LogicalResult SlotBinder::resolve(SlotCall &call) {
  llvm::Expected<KernelChoice> choice = resolveKernel(
      getRegistry(call.model), call.slot.getOp(), call.slot.getVariant(),
      call.name, target, [&](const Twine &message) {
        if (warned.insert(message.str()).second)
          emitWarning(call.op.getLoc()) << message;
      });
  if (!choice)
    return emitError(call.op.getLoc())
           << call.toText() << ": " << llvm::toString(choice.takeError());
  call.choice = *choice;
  // From here on by the name that it has today.
  call.name = choice->kernel ? choice->kernel->name : kEagerName.str();
  return success();
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// Whether a bound kernel is the implementation that was chosen.
static bool isChoice(BoundKernelOp bound, const KernelChoice &choice) {
  if (!choice.implementation || isInjected("slots-target"))
    return true;
  const KernelImplementation &wanted = *choice.implementation;
  return bound.getHardware() == wanted.hardware &&
         bound.getMode().value_or(KernelMode::Any) == wanted.mode &&
         bound.getCodeAttr() == wanted.code;
}

LogicalResult SlotBinder::checkRebinding(SlotCall &call) {
  FlatSymbolRefAttr bound = call.op.getBoundAttr();
  if (!bound || config.rebind)
    return success();
  auto kernel = dyn_cast_or_null<BoundKernelOp>(
      tables.lookupSymbolIn(call.slot, bound.getAttr()));
  if (bound.getValue() == call.name &&
      (!kernel || isChoice(kernel, call.choice)))
    return success();
  InFlightDiagnostic diag = emitError(call.op.getLoc());
  diag << call.toText() << ": is bound to '" << bound.getValue() << "'";
  if (bound.getValue() == call.name)
    diag << " for another target or mode";
  return diag << "; to bind it to '" << call.name << "' set rebind";
}

LogicalResult SlotBinder::build(SlotCall &call) {
  SlotOp slot = call.slot;
  StringAttr name = StringAttr::get(module.getContext(), call.name);
  if (!call.choice.kernel && slot.getEager())
    return success();
  auto key = std::make_pair(slot.getOperation(), name);
  if (kernels.contains(key))
    return success();
  auto old = dyn_cast_or_null<BoundKernelOp>(tables.lookupSymbolIn(slot, name));
  if (old && isChoice(old, call.choice))
    return success();

  KernelImplementation implementation;
  if (call.choice.kernel) {
    implementation = *call.choice.implementation;
  } else {
    const SlotOpSpec *spec =
        getRegistry(call.model).lookupOp(slot.getOp(), slot.getVariant());
    if (!spec || !spec->eager)
      return emitError(call.op.getLoc())
             << call.toText() << ": the slot has no eager body, and none is "
             << "registered for this op and variant";
    implementation.hardware = registry.getHardware(DeviceType::Any);
    implementation.build = spec->eager;
  }
  auto fail = [&](const Twine &why) {
    return emitError(call.op.getLoc())
           << call.toText() << ": kernel '" << call.name
           << "' can not be built: " << why;
  };
  if (implementation.code)
    if (llvm::Error error = checkCode(implementation.code, slot, target))
      return fail(llvm::toString(std::move(error)));

  OpBuilder builder(module.getContext());
  Location loc = slot.getLoc();
  KernelModeAttr mode;
  if (implementation.mode != KernelMode::Any)
    mode = KernelModeAttr::get(module.getContext(), implementation.mode);
  OwningOpRef<BoundKernelOp> bound(BoundKernelOp::create(
      builder, loc, name, implementation.hardware, mode, implementation.code));
  Block &block = bound->getBody().emplaceBlock();
  if (!implementation.code) {
    builder.setInsertionPointToStart(&block);
    auto type = cast<FunctionType>(slot.getSignature());
    auto body = func::FuncOp::create(builder, loc, kBodyName, type);
    builder.setInsertionPointToStart(body.addEntryBlock());
    FailureOr<SmallVector<Value>> results =
        implementation.build(builder, slot, body.getArguments());
    if (failed(results))
      return fail("it does not serve this slot");
    if (TypeRange(ValueRange(*results)) != TypeRange(type.getResults()))
      return fail("it gives values of other types than the slot");
    func::ReturnOp::create(builder, loc, *results);
    if (failed(mlir::verify(body)))
      return fail("its body is not valid");
  }
  kernels[key] = {std::move(bound), old};
  return success();
}

//===----------------------------------------------------------------------===//
// Changing
//===----------------------------------------------------------------------===//

void SlotBinder::apply() {
  for (auto &[key, kernel] : kernels) {
    if (kernel.replaced)
      kernel.replaced->erase();
    auto slot = cast<SlotOp>(key.first);
    slot.getBody().front().push_back(kernel.op.release());
  }
  std::set<std::pair<Operation *, StringRef>> used;
  for (SlotCall &call : calls) {
    if (!call.name.empty()) {
      call.op.setBound(call.name);
      remark::passed(call.op.getLoc(),
                     remark::RemarkOpts::name(call.slot.getSymNameAttr())
                         .category("slot")
                         .subCategory(DEBUG_TYPE))
          << remark::metric("Kernel", call.name)
          << remark::metric("Path", call.path)
          << remark::metric("Because", call.reason);
    }
    if (call.op.getBound())
      used.insert({call.slot, *call.op.getBound()});
  }
  for (SlotCall &call : calls)
    for (auto kernel : llvm::make_early_inc_range(
             call.slot.getBody().getOps<BoundKernelOp>()))
      if (!used.count({call.slot, kernel.getSymName()}))
        kernel->erase();
}

FailureOr<SlotReport> SlotBinder::run() {
  llvm::Expected<SlotTarget> parsed = config.getTarget();
  if (!parsed)
    return module.emitError() << llvm::toString(parsed.takeError());
  target = *parsed;
  for (const std::string &path : config.kernels)
    if (failed(registry.loadFile(path, config.force)))
      return failure();
  if (failed(collect()) || failed(parseGlobs(config.request)) ||
      failed(checkRequest(config.request, "")) || failed(resolvePreset()))
    return failure();
  for (const auto &[name, request] : config.models)
    if (failed(parseGlobs(request)) || failed(checkRequest(request, name)))
      return failure();
  for (SlotCall &call : calls) {
    decide(call);
    if (!call.name.empty() &&
        (failed(resolve(call)) || failed(checkRebinding(call)) ||
         (!config.check && failed(build(call)))))
      return failure();
  }
  if (!config.check)
    apply();
  SlotReport report = reportSlots(module, registry);
  report.target = target.toText();
  report.mode = stringifyKernelMode(target.mode);
  // Calls come in the same order in both.
  for (auto [entry, call] : llvm::zip(report.calls, calls)) {
    entry.reason = call.reason;
    if (!config.check || call.name.empty())
      continue;
    entry.kernel = call.name;
    entry.source = "eager body";
    if (const KernelImplementation *choice = call.choice.implementation) {
      entry.source = choice->getSourceText();
      entry.hardware = choice->hardware.toText();
      entry.mode = stringifyKernelMode(choice->mode);
    }
  }
  return report;
}

FailureOr<SlotReport> fuse::bindSlots(ModuleOp module, KernelRegistry registry,
                                      const SlotConfig &config) {
  // Outside of a pass nobody else loads what bodies are built of.
  module->getContext()
      ->loadDialect<FuseDialect, affine::AffineDialect, arith::ArithDialect,
                    func::FuncDialect, linalg::LinalgDialect, math::MathDialect,
                    scf::SCFDialect, tensor::TensorDialect>();
  return SlotBinder(module, std::move(registry), config).run();
}

LogicalResult fuse::unbindSlots(ModuleOp module, ArrayRef<std::string> only) {
  SmallVector<StringRef> names;
  for (auto model : module.getOps<ModelOp>())
    names.push_back(model.getSymName());
  for (const std::string &name : only)
    if (!llvm::is_contained(names, name))
      return module.emitError()
             << "no model '" << name << "'; "
             << (names.empty() ? "there are none" : "there are ")
             << llvm::join(names, ", ");
  auto isMeant = [&](SlotOp slot) {
    auto model = dyn_cast<ModelOp>(slot->getParentOp());
    return only.empty() ||
           (model && llvm::is_contained(only, model.getSymName()));
  };
  SymbolTableCollection tables;
  module.walk([&](CallSlotOp call) {
    SlotOp slot = lookupSlot(tables, call, call.getCallee());
    if (slot && isMeant(slot))
      call.removeBoundAttr();
  });
  module.walk([&](SlotOp slot) {
    if (!isMeant(slot))
      return;
    for (auto kernel :
         llvm::make_early_inc_range(slot.getBody().getOps<BoundKernelOp>()))
      kernel->erase();
  });
  return success();
}
