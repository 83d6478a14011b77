//===- GeneratedKernel.cpp - Generated kernels with eager bodies ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GeneratedKernel.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace fuse;

Type fuse::getResultType(SlotOp slot, unsigned index) {
  return slot.getSignature().getResult(index);
}

Type fuse::getResultElement(SlotOp slot, unsigned index) {
  return getElementTypeOrSelf(getResultType(slot, index));
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

LogicalResult fuse::checkSlot(SlotOp slot, const GeneratedKernel &kernel) {
  FunctionType signature = slot.getSignature();
  unsigned numArgs = signature.getNumInputs();
  if (numArgs < kernel.numRequired || numArgs > kernel.args.size()) {
    InFlightDiagnostic error = slot.emitError(slot.toText()) << " takes (";
    for (auto [index, name] : llvm::enumerate(kernel.args))
      error << (index ? ", " : "") << name
            << (index < kernel.numRequired ? "" : "?");
    return error << "), got " << numArgs << " arguments";
  }
  if (signature.getNumResults() != kernel.numResults)
    return slot.emitError(slot.toText())
           << " has " << kernel.numResults << " results, got "
           << signature.getNumResults();
  // Builders of ops require types of values that can be operands and results.
  for (TypeRange types : {signature.getInputs(), signature.getResults()})
    for (Type type : types)
      if (!isa<RankedTensorType>(type))
        return slot.emitError(slot.toText())
               << " takes and returns ranked tensors, got " << type;
  DictionaryAttr params = slot.getParamsAttr();
  if (!params)
    return success();
  for (NamedAttribute param : params) {
    StringRef name = param.getName();
    if (llvm::is_contained(kernel.params, name))
      continue;
    InFlightDiagnostic error = slot.emitError(slot.toText())
                               << " has an unknown param '" << name << "'";
    if (kernel.params.empty())
      return error << "; it takes none";
    return error << "; expected one of " << llvm::join(kernel.params, ", ");
  }
  return success();
}

FailureOr<double> fuse::getNumber(SlotOp slot, StringRef name) {
  Attribute attr = slot.getParam(name);
  if (auto number = dyn_cast_or_null<FloatAttr>(attr))
    return number.getValueAsDouble();
  InFlightDiagnostic error = slot.emitError(slot.toText())
                             << " needs a floating-point number as param '"
                             << name << "'";
  if (attr)
    error << ", got " << attr;
  return error;
}

FailureOr<int64_t> fuse::getInteger(SlotOp slot, StringRef name,
                                    std::optional<int64_t> fallback) {
  Attribute attr = slot.getParam(name);
  auto number = dyn_cast_or_null<IntegerAttr>(attr);
  if (number && number.getValue().getSignificantBits() <= 64)
    return number.getValue().getSExtValue();
  if (!attr && fallback)
    return *fallback;
  InFlightDiagnostic error = slot.emitError(slot.toText())
                             << " needs an integer as param '" << name << "'";
  if (attr)
    error << ", got " << attr;
  return error;
}

FailureOr<Activation> fuse::getActivation(SlotOp slot, StringRef name,
                                          Activation fallback) {
  Attribute attr = slot.getParam(name);
  if (!attr)
    return fallback;
  if (auto text = dyn_cast<StringAttr>(attr))
    for (Activation kind :
         {Activation::SiLU, Activation::GELU, Activation::GELUTanh})
      if (text.getValue() == stringifyActivation(kind))
        return kind;
  return slot.emitError(slot.toText())
         << " has param '" << name << "' = " << attr
         << "; expected one of \"silu\", \"gelu\", \"gelu_tanh\"";
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

/// Builds and verifies the fuse ops of a kernel in `block`.
static SlotResults buildInBlock(Block &block, SlotOp slot,
                                const GeneratedKernel &kernel,
                                ValueRange args) {
  if (failed(checkSlot(slot, kernel)))
    return failure();
  // The block has no parent, so the context is passed explicitly.
  ImplicitLocOpBuilder b(slot.getLoc(), slot.getContext());
  b.setInsertionPointToEnd(&block);
  SlotResults results = kernel.kernel(b, slot, args);
  if (failed(results))
    return failure();
  for (Operation &op : block)
    if (failed(verify(&op)))
      return failure();
  return results;
}

void fuse::registerGeneratedKernel(KernelRegistry &registry,
                                   const GeneratedKernel &kernel) {
  auto eager = [kernel](OpBuilder &builder, SlotOp slot,
                        ValueRange args) -> SlotResults {
    Block scratch;
    SlotResults fits = buildInBlock(scratch, slot, kernel, args);
    // Erase users before the ops that they use.
    while (!scratch.empty())
      scratch.back().erase();
    if (failed(fits))
      return failure();
    EagerBuilder b(builder, slot.getLoc());
    SlotResults results = kernel.eager(b, slot, args);
    if (succeeded(results))
      for (auto [index, result] : llvm::enumerate(*results))
        result = b.castTo(result, getResultType(slot, index));
    return results;
  };
  auto build = [kernel](OpBuilder &builder, SlotOp slot,
                        ValueRange args) -> SlotResults {
    Block scratch;
    SlotResults results = buildInBlock(scratch, slot, kernel, args);
    if (failed(results)) {
      while (!scratch.empty())
        scratch.back().erase();
      return failure();
    }
    builder.getInsertionBlock()->getOperations().splice(
        builder.getInsertionPoint(), scratch.getOperations());
    return results;
  };
  registry.addOp({kernel.op, kernel.variant, kernel.description, eager});
  KernelSpec spec;
  spec.name = "fuse";
  spec.op = kernel.op;
  spec.variant = kernel.variant;
  spec.description = "Generated for any device from the fuse dialect";
  spec.addGenerated(registry.getHardware(DeviceType::Any), build);
  cantFail(registry.add(std::move(spec)));
}
