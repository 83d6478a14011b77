//===- SlotBinding.cpp - Bind calls of slots to kernels -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All calls are resolved and all kernels are built before the first call
// changes. A configuration is therefore applied completely or not at all.
//
//===----------------------------------------------------------------------===//

#include "SlotBinder.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "nn/IR/NNOps.h"
#include "llvm/ADT/StringExtras.h"

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
  // Replace a former name by the current name.
  call.name = choice->kernel ? choice->kernel->name : kEagerName.str();
  return success();
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// Whether a bound kernel is the selected implementation.
static bool isChoice(BoundKernelOp bound, const KernelChoice &choice) {
  if (!choice.implementation)
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
           << "' cannot be built: " << why;
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
  // The order of the calls is the same in both.
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
  // Outside of a pass, this function must load the dialects of bodies.
  module->getContext()
      ->loadDialect<FuseDialect, NNDialect, affine::AffineDialect,
                    arith::ArithDialect, func::FuncDialect,
                    linalg::LinalgDialect, math::MathDialect, scf::SCFDialect,
                    tensor::TensorDialect>();
  return SlotBinder(module, std::move(registry), config).run();
}
