//===- Program.cpp - A compiled function for the CPU ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Execution/Program.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Support/OutputFile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "nn/IR/NNOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;

Expected<func::FuncOp> fuse::findFunction(ModuleOp module, StringRef name) {
  SmallVector<StringRef> names;
  func::FuncOp found;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function.isPublic() || function.isExternal())
      continue;
    names.push_back(function.getSymName());
    if (name.empty() || function.getSymName() == name)
      found = function;
  }
  if (names.empty())
    return createStringError("the module has no public function");
  if (name.empty() && names.size() > 1)
    return createStringError("the module has several functions, choose one "
                             "with --entry: " +
                             llvm::join(names, ", "));
  if (!found)
    return createStringError("no public function '" + name + "'; there are " +
                             llvm::join(names, ", "));
  return found;
}

/// The type of stored elements for elements that files do not have.
static Type getStored(Type element) {
  Builder builder(element.getContext());
  return element.isIndex()      ? builder.getI64Type()
         : element.isInteger(1) ? builder.getI8Type()
                                : element;
}

/// The tensor type that replaces a scalar or a tensor of truth values, or null
/// for other types.
static RankedTensorType getLifted(Type type) {
  if (type.isIntOrIndexOrFloat())
    return RankedTensorType::get({}, getStored(type));
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.getElementType().isInteger(1))
    return tensor.clone(getStored(tensor.getElementType()));
  return nullptr;
}

/// Converts between the elements of a program and stored ones. Every stored
/// value but zero is true.
static Value convert(ImplicitLocOpBuilder &b, Value value, Type to) {
  Type from = value.getType();
  if (from == to)
    return value;
  if (getElementTypeOrSelf(to).isInteger(1)) {
    // A dynamic tensor has no constant of its type.
    Value zero;
    if (auto tensor = dyn_cast<RankedTensorType>(from)) {
      SmallVector<Value> sizes;
      for (int64_t dim = 0; dim < tensor.getRank(); ++dim)
        if (tensor.isDynamicDim(dim))
          sizes.push_back(tensor::DimOp::create(b, value, dim));
      Value element = arith::ConstantIntOp::create(b, 0, 8);
      zero = tensor::SplatOp::create(b, element, tensor, sizes);
    } else {
      zero = arith::ConstantIntOp::create(b, 0, 8);
    }
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, zero);
  }
  if (getElementTypeOrSelf(from).isInteger(1))
    return arith::ExtUIOp::create(b, to, value);
  return arith::IndexCastOp::create(b, to, value);
}

llvm::Error fuse::liftScalars(func::FuncOp function) {
  FunctionType type = function.getFunctionType();
  auto isScalar = [](Type type) { return bool(getLifted(type)); };
  if (function.isExternal() || (llvm::none_of(type.getInputs(), isScalar) &&
                                llvm::none_of(type.getResults(), isScalar)))
    return llvm::Error::success();
  auto module = function->getParentOfType<ModuleOp>();
  if (!SymbolTable::symbolKnownUseEmpty(function, module))
    return createStringError("@" + function.getSymName() +
                             " has scalars and is called in the module; run a "
                             "function that calls it");
  // The module may have no tensors, so load the dialect.
  function.getContext()
      ->loadDialect<arith::ArithDialect, tensor::TensorDialect>();
  ImplicitLocOpBuilder b(function.getLoc(), function.getContext());
  SmallVector<Type> inputs, results;
  b.setInsertionPointToStart(&function.getBody().front());
  for (BlockArgument argument : function.getArguments()) {
    Type scalar = argument.getType();
    if (RankedTensorType lifted = getLifted(scalar)) {
      argument.setType(lifted);
      // The uses of the argument change, not those that the conversion adds.
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : argument.getUses())
        uses.push_back(&use);
      Value stored = argument;
      if (!isa<TensorType>(scalar))
        stored = tensor::ExtractOp::create(b, argument, ValueRange());
      Value value = convert(b, stored, scalar);
      for (OpOperand *use : uses)
        use->set(value);
    }
    inputs.push_back(argument.getType());
  }
  for (Type result : type.getResults()) {
    RankedTensorType lifted = getLifted(result);
    results.push_back(lifted ? lifted : result);
  }
  function.walk([&](func::ReturnOp op) {
    b.setInsertionPoint(op);
    for (OpOperand &operand : op->getOpOperands())
      if (RankedTensorType lifted = getLifted(operand.get().getType())) {
        bool isScalar = !isa<TensorType>(operand.get().getType());
        Value stored =
            convert(b, operand.get(),
                    isScalar ? lifted.getElementType() : Type(lifted));
        if (isScalar)
          stored = tensor::FromElementsOp::create(b, lifted, stored);
        operand.set(stored);
      }
  });
  function.setFunctionType(b.getFunctionType(inputs, results));
  return llvm::Error::success();
}

static Expected<TensorSpec> getSpec(Type type, const Twine &what) {
  auto fail = [&](StringRef why) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return createStringError(what + " is " + text + ", " + why);
  };
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return fail("expected a ranked tensor or a scalar");
  std::optional<ElementType> element;
  for (ElementType candidate :
       {ElementType::F64, ElementType::F32, ElementType::F16, ElementType::BF16,
        ElementType::F8E4M3FN, ElementType::F8E5M2, ElementType::I64,
        ElementType::I32, ElementType::I8}) {
    std::string name;
    llvm::raw_string_ostream(name) << tensor.getElementType();
    if (name == getName(candidate))
      element = candidate;
  }
  if (!element)
    return fail("expected elements of type f64, f32, f16, bf16, f8E4M3FN, "
                "f8E5M2, i64, i32 or i8");
  TensorSpec spec;
  spec.type = *element;
  for (int64_t size : tensor.getShape())
    spec.shape.push_back(ShapedType::isDynamic(size) ? -1 : size);
  return spec;
}

Expected<Signature> fuse::getSignature(func::FuncOp function) {
  Signature signature;
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    Expected<TensorSpec> spec = getSpec(type, "argument " + Twine(index));
    if (!spec)
      return spec.takeError();
    signature.inputs.push_back(*spec);
  }
  for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
    Expected<TensorSpec> spec = getSpec(type, "result " + Twine(index));
    if (!spec)
      return spec.takeError();
    signature.results.push_back(*spec);
  }
  return signature;
}

OwningOpRef<ModuleOp> fuse::isolate(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->clone());
  for (auto other : copy->getOps<func::FuncOp>())
    if (other.getSymName() != function.getSymName())
      other.setPrivate();
  PassManager pm(copy->getContext());
  pm.addPass(createSymbolDCEPass());
  (void)pm.run(*copy);
  return copy;
}

llvm::Error PhaseDump::write(ModuleOp module, unsigned number,
                             StringRef name) const {
  if (directory.empty())
    return llvm::Error::success();
  if (std::error_code code = llvm::sys::fs::create_directories(directory))
    return createStringError(code, directory + ": " + code.message());
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, Twine(number) + "." + name + ".mlir");
  return writeFile(path, [&](llvm::raw_ostream &os) {
    os << module << "\n";
    return llvm::Error::success();
  });
}

Expected<OwningOpRef<ModuleOp>> fuse::lowerForCPU(func::FuncOp function,
                                                  bool reference,
                                                  StringRef last,
                                                  const PhaseDump &dump) {
  OwningOpRef<ModuleOp> module = isolate(function);
  unsigned number = 1;
  if (llvm::Error error = dump.write(*module, number++, "input"))
    return std::move(error);
  CPUPipelineOptions options;
  options.reference = reference;
  for (const Phase &phase : getCPUPhases(options)) {
    PassManager pm(module->getContext());
    phase.build(pm);
    if (failed(pm.run(*module)))
      return createStringError("phase '" + phase.name + "' failed on @" +
                               function.getSymName());
    // Bodies of fused calls are inlined.
    if (!module->lookupSymbol(function.getSymName()))
      return createStringError("@" + function.getSymName() +
                               " is the body of a fused call; run the function "
                               "that calls it");
    if (llvm::Error error = dump.write(*module, number++, phase.name))
      return std::move(error);
    if (phase.name == last)
      break;
  }
  return module;
}

Expected<Program> Program::compile(func::FuncOp function, bool reference,
                                   const PhaseDump &dump,
                                   std::optional<unsigned> optLevel) {
  Expected<Signature> signature = getSignature(function);
  if (!signature)
    return signature.takeError();
  auto module = lowerForCPU(function, reference, "llvm", dump);
  if (!module)
    return module.takeError();
  Program program;
  program.signature = std::move(*signature);
  // User functions to which slots are bound.
  SmallVector<LibraryFunction> functions;
  function->getParentOfType<ModuleOp>().walk([&](Operation *op) {
    if (auto kernel = dyn_cast<BoundKernelOp>(op))
      if (auto code = dyn_cast_or_null<CPUCodeAttr>(kernel.getCodeAttr()))
        functions.push_back({code.getLibrary(), code.getSymbol()});
    // Attribute that fuse-lower-slots leaves in place of the kernel.
    if (auto library = op->getAttrOfType<StringAttr>(kLibraryAttrName))
      functions.push_back({library, SymbolTable::getSymbolName(op).getValue()});
  });
  // The reference is not optimized, so that its loops stay as written.
  auto jit =
      CPUJIT::create(**module, optLevel.value_or(reference ? 1 : 3), functions);
  if (!jit)
    return jit.takeError();
  program.jit = std::move(*jit);
  auto entry = program.jit->lookup(function.getSymName());
  if (!entry)
    return entry.takeError();
  program.entry = *entry;
  return program;
}
