//===- NNSlotOps.cpp - Slots and their kernels ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "nn/IR/NNModules.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fuse;

SlotOp fuse::lookupSlot(SymbolTableCollection &tables, Operation *user,
                        SymbolRefAttr name) {
  for (Operation *scope = user->getParentOp(); scope;
       scope = scope->getParentOp()) {
    if (!scope->hasTrait<OpTrait::SymbolTable>())
      continue;
    if (auto slot =
            dyn_cast_or_null<SlotOp>(tables.lookupSymbolIn(scope, name)))
      return slot;
  }
  return {};
}

/// Verifies that an op or variant is a word, because options and files use it.
static LogicalResult verifyWord(Operation *op, StringRef what, StringRef word) {
  bool plain = !word.empty() && llvm::all_of(word, [](char c) {
    return llvm::isAlnum(c) || c == '_' || c == '-';
  });
  if (!plain)
    return op->emitOpError() << what << " '" << word
                             << "' must consist of letters, digits, _ and -";
  return success();
}

/// The op as a function with one block, or null after an error.
static FunctionOpInterface verifyFunction(Operation &op, StringRef name) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || function.getName() != name) {
    op.emitOpError() << "cannot be here; expected a function '" << name << "'";
    return {};
  }
  if (function.isExternal() || !function.getFunctionBody().hasOneBlock()) {
    op.emitOpError() << "function '" << name << "' must have one block";
    return {};
  }
  if (!returnsResults(function)) {
    op.emitOpError() << "function '" << name
                     << "' must end in a return of its results";
    return {};
  }
  return function;
}

/// Verifies the type of a function.
static LogicalResult verifyType(FunctionOpInterface function,
                                FunctionType type) {
  if (function.getArgumentTypes() != type.getInputs() ||
      function.getResultTypes() != type.getResults())
    return function.emitOpError()
           << "function '" << function.getName() << "' has type "
           << function.getFunctionType() << ", the slot " << type;
  return success();
}

//===----------------------------------------------------------------------===//
// SlotOp
//===----------------------------------------------------------------------===//

LogicalResult SlotOp::verify() {
  if (getSymName().empty())
    return emitOpError("name must not be empty");
  return success(succeeded(verifyWord(*this, "op", getOp())) &&
                 succeeded(verifyWord(*this, "variant", getVariant())));
}

LogicalResult SlotOp::verifyRegions() {
  auto type = cast<FunctionType>(getSignature());
  for (Operation &op : getBody().getOps()) {
    if (auto kernel = dyn_cast<BoundKernelOp>(op)) {
      if (auto body =
              dyn_cast_or_null<FunctionOpInterface>(kernel.getBodyFunction()))
        if (failed(verifyType(body, type)))
          return failure();
      continue;
    }
    FunctionOpInterface eager = verifyFunction(op, kEagerName);
    if (!eager || failed(verifyType(eager, type)))
      return failure();
  }
  return success();
}

Operation *SlotOp::getEager() {
  for (Operation &op : getBody().getOps())
    if (auto function = dyn_cast<FunctionOpInterface>(op))
      return function;
  return nullptr;
}

std::string SlotOp::toText() {
  return ("slot '" + getSymName() + "' (op=" + getOp() +
          ", variant=" + getVariant() + ")")
      .str();
}

//===----------------------------------------------------------------------===//
// CallSlotOp
//===----------------------------------------------------------------------===//

/// Whether the slot is complete. A slot outside of the model that calls it may
/// not be verified yet; its own verifier reports missing parts.
static bool isWhole(SlotOp slot) {
  return slot.getSymNameAttr() && slot.getOpAttr() && slot.getVariantAttr() &&
         slot.getSignatureAttr() && isa<FunctionType>(slot.getSignature());
}

LogicalResult CallSlotOp::verifySymbolUses(SymbolTableCollection &tables) {
  SlotOp slot = lookupSlot(tables, *this, getCallee());
  if (slot && !isWhole(slot))
    return success();
  if (!slot) {
    InFlightDiagnostic diag = emitOpError();
    diag << getCallee() << " names no slot; ";
    SmallVector<StringRef> names;
    for (Operation *scope = (*this)->getParentOp(); scope;
         scope = scope->getParentOp())
      if (isa<ModelOp, ModuleOp>(scope))
        for (auto other : scope->getRegion(0).getOps<SlotOp>())
          if (isWhole(other))
            names.push_back(other.getSymName());
    if (names.empty())
      return diag << "no slot is visible here";
    return diag << "expected one of " << llvm::join(names, ", ");
  }
  auto type = cast<FunctionType>(slot.getSignature());
  if (getArgs().getTypes() != TypeRange(type.getInputs()) ||
      getResultTypes() != TypeRange(type.getResults()))
    return emitOpError() << "has type "
                         << FunctionType::get(getContext(),
                                              getArgs().getTypes(),
                                              getResultTypes())
                         << ", " << slot.toText() << " has " << type;
  if (FlatSymbolRefAttr bound = getBoundAttr())
    if (!tables.lookupSymbolIn(slot, bound.getAttr()))
      return emitOpError() << "is bound to '" << bound.getValue() << "', which "
                           << slot.toText() << " does not have";
  return success();
}

Operation *CallSlotOp::resolveCallableInTable(SymbolTableCollection *tables) {
  SlotOp slot = lookupSlot(*tables, *this, getCallee());
  if (!slot || !getBoundAttr())
    return nullptr;
  Operation *bound = tables->lookupSymbolIn(slot, getBoundAttr().getAttr());
  if (auto kernel = dyn_cast_or_null<BoundKernelOp>(bound))
    return kernel.getBodyFunction();
  return bound;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Verifies that an implementation has either a body or code, and that the code
/// is for its device.
static LogicalResult verifyCode(Operation *op, HardwareAttr hardware,
                                KernelModeAttr mode, Attribute code,
                                Operation *body) {
  if (!code == !body)
    return op->emitOpError()
           << "needs either a function '" << kBodyName << "' or code";
  if (code && !isa<GPUCodeAttr, CPUCodeAttr>(code))
    return op->emitOpError()
           << "has code " << code << "; expected #nn.gpu_code or #nn.cpu_code";
  DeviceType device = hardware.getDevice();
  if (code &&
      device != (isa<GPUCodeAttr>(code) ? DeviceType::GPU : DeviceType::CPU))
    return op->emitOpError()
           << "has code for a " << (isa<GPUCodeAttr>(code) ? "gpu" : "cpu")
           << " but is on " << stringifyDeviceType(device);
  if (!mode)
    return success();
  KernelMode value = mode.getValue();
  bool inference = bitEnumContainsAll(value, KernelMode::Inference);
  bool training = bitEnumContainsAll(value, KernelMode::Training);
  if (value != KernelMode::Any && inference == training)
    return op->emitOpError()
           << "has mode " << stringifyKernelMode(value)
           << "; expected inference, inference|compile, training, "
              "training|compile or any";
  return success();
}

/// Verifies that the region contains at most a function `@body`.
static LogicalResult verifyBody(Operation *op) {
  for (Operation &inner : op->getRegion(0).getOps())
    if (!verifyFunction(inner, kBodyName))
      return failure();
  return success();
}

static Operation *getFunction(Operation *op) {
  Block &block = op->getRegion(0).front();
  return block.empty() ? nullptr : &block.front();
}

Operation *BoundKernelOp::getBodyFunction() { return getFunction(*this); }

LogicalResult BoundKernelOp::verify() {
  return verifyCode(*this, getHardware(), getModeAttr(), getCodeAttr(),
                    getBodyFunction());
}

LogicalResult BoundKernelOp::verifyRegions() { return verifyBody(*this); }

Operation *ImplementationOp::getBodyFunction() { return getFunction(*this); }

LogicalResult ImplementationOp::verify() {
  return verifyCode(*this, getHardware(), getModeAttr(), getCodeAttr(),
                    getBodyFunction());
}

LogicalResult ImplementationOp::verifyRegions() { return verifyBody(*this); }

LogicalResult SlotKernelOp::verify() {
  if (failed(verifyWord(*this, "name", getName())) ||
      failed(verifyWord(*this, "op", getOp())) ||
      failed(verifyWord(*this, "variant", getVariant())))
    return failure();
  if (getName() == kEagerName)
    return emitOpError() << "name '" << kEagerName
                         << "' is reserved for the body of a slot";
  for (StringAttr alias :
       getAliases() ? getAliasesAttr().getAsRange<StringAttr>()
                    : ArrayAttr::get(getContext(), {}).getAsRange<StringAttr>())
    if (failed(verifyWord(*this, "alias", alias)))
      return failure();
  return success();
}

LogicalResult SlotKernelOp::verifyRegions() {
  SmallVector<ImplementationOp> others;
  for (Operation &op : getBody().getOps()) {
    auto implementation = dyn_cast<ImplementationOp>(op);
    if (!implementation)
      return op.emitOpError("cannot be in an nn.slot_kernel; expected "
                            "nn.implementation");
    // The choice between the two would be ambiguous.
    for (ImplementationOp other : others)
      if (other.getHardware() == implementation.getHardware() &&
          other.getModeAttr() == implementation.getModeAttr())
        return implementation.emitOpError()
               << "is for " << implementation.getHardware().toText()
               << " and the same mode as another one of kernel '" << getName()
               << "'";
    others.push_back(implementation);
  }
  if (others.empty())
    return emitOpError("needs at least one nn.implementation");
  return success();
}
