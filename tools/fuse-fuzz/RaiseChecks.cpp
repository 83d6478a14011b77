//===- RaiseChecks.cpp - Raising of changed formulas ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RaiseChecks.h"
#include "Execution.h"
#include "PlantedFaults.h"
#include "fuse/Execution/Inputs.h"
#include "fuse/Execution/Program.h"
#include "fuse/Execution/Verify.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

/// Whether a result is a float or a tensor of floats.
static bool hasFloats(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

static bool isFormulaOp(Operation *op) {
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
             op->getDialect()) &&
         op->getNumResults() == 1 && hasFloats(op->getResult(0)) &&
         !op->hasTrait<OpTrait::ConstantLike>();
}

namespace {

/// Changes a function at random.
class Change {
public:
  Change(func::FuncOp function, Random &random)
      : function(function), random(random), builder(function.getContext()) {}

  void apply();

private:
  template <typename T>
  T pick(const SmallVectorImpl<T> &values) {
    return values.empty() ? T() : random.oneOf(ArrayRef<T>(values));
  }
  Operation *pickFormulaOp();
  OpOperand *pickOperand();
  /// Values of the type of `value` that `user` can read. The initial value of
  /// an op is not one of them: it may be undefined.
  SmallVector<Value> getOthers(Value value, Operation *user);
  Value makeConstant(Type type, double number);
  Value makeUnary(Value value);

  void swapOperands();
  void replaceOp();
  void changeConstant();
  void replaceOperand();
  void insertOp();
  void addResult();
  void swapDimensions();
  void duplicateOp();

  func::FuncOp function;
  Random &random;
  OpBuilder builder;
};

} // namespace

Operation *Change::pickFormulaOp() {
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (isFormulaOp(op))
      ops.push_back(op);
  });
  return pick(ops);
}

OpOperand *Change::pickOperand() {
  Operation *op = pickFormulaOp();
  if (!op)
    return nullptr;
  OpOperand &operand = op->getOpOperand(random.below(op->getNumOperands()));
  return hasFloats(operand.get()) ? &operand : nullptr;
}

SmallVector<Value> Change::getOthers(Value value, Operation *user) {
  SmallVector<Value> others;
  auto add = [&](Value other) {
    if (other.getType() == value.getType() && other != value)
      others.push_back(other);
  };
  Block *block = user->getBlock();
  unsigned inputs = block->getNumArguments();
  if (auto op = dyn_cast<linalg::LinalgOp>(block->getParentOp()))
    inputs = op.getNumDpsInputs();
  for (Value argument : block->getArguments().take_front(inputs))
    add(argument);
  for (Operation &op : *block) {
    if (&op == user)
      break;
    if (isa<tensor::EmptyOp>(op))
      continue;
    for (Value result : op.getResults())
      add(result);
  }
  return others;
}

Value Change::makeConstant(Type type, double number) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  TypedAttr value = builder.getFloatAttr(element, number);
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    if (!tensor.hasStaticShape())
      return {};
    value = DenseElementsAttr::get(tensor, cast<Attribute>(value));
  }
  return arith::ConstantOp::create(builder, function.getLoc(), value);
}

/// A function of `value`, at the insertion point.
Value Change::makeUnary(Value value) {
  Location loc = function.getLoc();
  Type type = value.getType(), element = getElementTypeOrSelf(type);
  if (!element.isF32() && !element.isF16() && !element.isBF16())
    return {};
  auto withElement = [&](Type other) -> Type {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor ? Type(tensor.clone(other)) : other;
  };
  switch (random.below(6)) {
  case 0:
    return arith::NegFOp::create(builder, loc, value);
  case 1:
    return math::AbsFOp::create(builder, loc, value);
  case 2:
  case 3: {
    if (!element.isF32())
      return {};
    Type narrow = random.percent(70)
                      ? Type(builder.getBF16Type())
                      : Type(builder.getType<Float8E4M3FNType>());
    Value rounded =
        arith::TruncFOp::create(builder, loc, withElement(narrow), value);
    return arith::ExtFOp::create(builder, loc, type, rounded);
  }
  case 4: {
    Value number = makeConstant(type, random.oneOf({0.5, -1.0, 1e-3, 2.0}));
    return number ? Value(arith::AddFOp::create(builder, loc, value, number))
                  : Value();
  }
  default: {
    Value number = makeConstant(type, random.oneOf({0.5, -1.0, 3.0, 64.0}));
    return number ? Value(arith::MulFOp::create(builder, loc, value, number))
                  : Value();
  }
  }
}

void Change::swapOperands() {
  Operation *op = pickFormulaOp();
  if (!op || op->getNumOperands() < 2)
    return;
  unsigned i = random.below(op->getNumOperands() - 1);
  Value first = op->getOperand(i), second = op->getOperand(i + 1);
  if (first.getType() != second.getType())
    return;
  op->setOperand(i, second);
  op->setOperand(i + 1, first);
}

void Change::replaceOp() {
  static constexpr StringLiteral binary[] = {
      "arith.addf",     "arith.subf",     "arith.mulf",    "arith.divf",
      "arith.maximumf", "arith.minimumf", "arith.maxnumf", "math.powf"};
  static constexpr StringLiteral unary[] = {
      "arith.negf", "math.absf",  "math.exp",       "math.tanh",  "math.erf",
      "math.sqrt",  "math.rsqrt", "math.roundeven", "math.round", "math.erfc"};
  Operation *op = pickFormulaOp();
  if (!op)
    return;
  Type type = op->getResult(0).getType();
  if (llvm::any_of(op->getOperandTypes(), [&](Type t) { return t != type; }))
    return;
  StringRef name;
  if (op->getNumOperands() == 2)
    name = random.oneOf(ArrayRef(binary));
  else if (op->getNumOperands() == 1)
    name = random.oneOf(ArrayRef(unary));
  else
    return;
  builder.setInsertionPoint(op);
  OperationState state(op->getLoc(), name, op->getOperands(), type);
  Operation *other = builder.create(state);
  op->replaceAllUsesWith(other);
  op->erase();
}

void Change::changeConstant() {
  SmallVector<arith::ConstantOp> constants;
  function.walk([&](arith::ConstantOp op) {
    if (hasFloats(op.getResult()))
      constants.push_back(op);
  });
  arith::ConstantOp op = pick(constants);
  if (!op)
    return;
  Attribute value = op.getValue();
  auto elements = dyn_cast<DenseElementsAttr>(value);
  if (elements && !elements.isSplat())
    return;
  double number = elements ? elements.getSplatValue<APFloat>().convertToDouble()
                           : cast<FloatAttr>(value).getValueAsDouble();
  number = random.oneOf({0.0, 1.0, -1.0, 2.0, 0.5, -number, 2.0 * number,
                         number * 1.01, number + 0.01, 1.0 / number, 448.0});
  if (!std::isfinite(number))
    return;
  builder.setInsertionPoint(op);
  if (Value other = makeConstant(op.getType(), number)) {
    op->getResult(0).replaceAllUsesWith(other);
    op.erase();
  }
}

void Change::replaceOperand() {
  OpOperand *operand = pickOperand();
  if (!operand)
    return;
  if (Value other = pick(getOthers(operand->get(), operand->getOwner())))
    operand->set(other);
}

void Change::insertOp() {
  OpOperand *operand = pickOperand();
  if (!operand)
    return;
  builder.setInsertionPoint(operand->getOwner());
  Value value = makeUnary(operand->get());
  if (!value)
    return;
  // At one place, or everywhere after it.
  if (random.percent(50))
    operand->set(value);
  else
    operand->get().replaceUsesWithIf(value, [&](OpOperand &use) {
      Operation *user = use.getOwner();
      return user->getBlock() == operand->getOwner()->getBlock() &&
             (user == operand->getOwner() ||
              operand->getOwner()->isBeforeInBlock(user));
    });
}

/// Returns an intermediate too.
void Change::addResult() {
  SmallVector<Value> values;
  for (Operation &op : function.front())
    for (Value result : op.getResults())
      if (isa<RankedTensorType>(result.getType()) && hasFloats(result) &&
          !isa<tensor::EmptyOp, arith::ConstantOp>(op))
        values.push_back(result);
  Value value = pick(values);
  if (!value)
    return;
  Operation *end = function.front().getTerminator();
  end->insertOperands(end->getNumOperands(), value);
  function.setType(builder.getFunctionType(function.getArgumentTypes(),
                                           end->getOperandTypes()));
}

/// Reads an input at swapped indices.
void Change::swapDimensions() {
  SmallVector<linalg::GenericOp> ops;
  function.walk([&](linalg::GenericOp op) { ops.push_back(op); });
  linalg::GenericOp op = pick(ops);
  if (!op || op.getNumDpsInputs() == 0)
    return;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  unsigned i = random.below(op.getNumDpsInputs());
  auto type = dyn_cast<RankedTensorType>(op.getDpsInputs()[i].getType());
  if (!type || type.getRank() < 2)
    return;
  unsigned dim = random.below(type.getRank() - 1);
  if (type.isDynamicDim(dim) ||
      type.getDimSize(dim) != type.getDimSize(dim + 1))
    return;
  SmallVector<AffineExpr> results(maps[i].getResults());
  std::swap(results[dim], results[dim + 1]);
  maps[i] =
      AffineMap::get(maps[i].getNumDims(), 0, results, function.getContext());
  op.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
}

/// Lets one use read a copy of an op.
void Change::duplicateOp() {
  OpOperand *operand = pickOperand();
  Operation *op = operand ? operand->get().getDefiningOp() : nullptr;
  if (!op)
    return;
  builder.setInsertionPointAfter(op);
  Operation *copy = builder.clone(*op);
  operand->set(
      copy->getResult(cast<OpResult>(operand->get()).getResultNumber()));
}

void Change::apply() {
  switch (random.below(12)) {
  case 0:
  case 1:
    return swapOperands();
  case 2:
    return replaceOp();
  case 3:
  case 4:
    return changeConstant();
  case 5:
  case 6:
    return replaceOperand();
  case 7:
  case 8:
    return insertOp();
  case 9:
    return addResult();
  case 10:
    return swapDimensions();
  default:
    return duplicateOp();
  }
}

//===----------------------------------------------------------------------===//
// FormulaMutator
//===----------------------------------------------------------------------===//

std::string FormulaMutator::load(StringRef folder, MLIRContext *context) {
  std::error_code error;
  std::vector<std::string> paths;
  for (llvm::sys::fs::directory_iterator it(folder, error), end;
       it != end && !error; it.increment(error))
    if (StringRef(it->path()).ends_with(".mlir"))
      paths.push_back(it->path());
  if (error)
    return ("cannot read folder '" + folder + "': " + error.message()).str();
  llvm::sort(paths);
  ScopedDiagnosticHandler ignore(context, [](Diagnostic &) {});
  for (const std::string &path : paths) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return "cannot read '" + path + "': " + buffer.getError().message();
    SmallVector<StringRef> sections;
    (*buffer)->getBuffer().split(sections, "// -----");
    for (StringRef section : sections) {
      auto module = parseSourceString<ModuleOp>(section, context);
      if (!module)
        continue;
      for (auto function : module->getOps<func::FuncOp>())
        if (function.isPublic() && !function.isExternal() &&
            function.getNumResults() != 0)
          functions.push_back(print(*isolate(function)));
    }
  }
  return functions.empty() ? ("no function in '" + folder + "'").str() : "";
}

/// One function of random layers, written out.
static OwningOpRef<ModuleOp> generateFormula(MLIRContext *context,
                                             Random &random) {
  OwningOpRef<ModuleOp> layers =
      generateModule(context, random.next(), Stratum::Runnable);
  SmallVector<func::FuncOp> candidates;
  if (layers)
    for (auto function : layers->getOps<func::FuncOp>())
      if (function.isPublic() && !function.isExternal() &&
          function.getNumResults() != 0)
        candidates.push_back(function);
  if (candidates.empty())
    return nullptr;
  OwningOpRef<ModuleOp> module =
      isolate(random.oneOf(ArrayRef<func::FuncOp>(candidates)));
  PassManager lower(context);
  buildLinalgPipeline(lower);
  if (failed(lower.run(*module)))
    return nullptr;
  return module;
}

/// Whether an op writes each element of its results once. Lowerings of upstream
/// ops assume it.
static bool writesWholeResults(linalg::LinalgOp op) {
  return llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &init) {
    AffineMap map = op.getMatchingIndexingMap(&init);
    if (!map.isProjectedPermutation(/*allowZeroInResults=*/true))
      return false;
    for (auto [result, size] :
         llvm::zip_equal(map.getResults(), op.getShape(&init)))
      if (isa<AffineConstantExpr>(result) && size != 1)
        return false;
    return true;
  });
}

OwningOpRef<ModuleOp> FormulaMutator::generate(MLIRContext *context,
                                               Random &random) const {
  ScopedDiagnosticHandler ignore(context, [](Diagnostic &) {});
  OwningOpRef<ModuleOp> module =
      random.percent(30)
          ? generateFormula(context, random)
          : parseSourceString<ModuleOp>(random.oneOf(ArrayRef(functions)),
                                        ParserConfig(context));
  if (!module)
    return nullptr;
  for (auto function : module->getOps<func::FuncOp>())
    if (function.isPublic())
      for (unsigned i = random.percent(5) ? 0 : random.below(4) + 1; i > 0; --i)
        Change(function, random).apply();
  WalkResult result = module->walk([](linalg::LinalgOp op) {
    return writesWholeResults(op) ? WalkResult::advance()
                                  : WalkResult::interrupt();
  });
  if (result.wasInterrupted() || failed(verify(*module)))
    return nullptr;
  return module;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static llvm::Expected<Program> compileFormula(ModuleOp module) {
  PassManager lower(module.getContext());
  lower.addNestedPass<func::FuncOp>(createConvertElementwiseToLinalgPass());
  if (failed(lower.run(module)))
    return llvm::createStringError("elementwise ops cannot be lowered");
  auto function = findFunction(module, "");
  if (!function)
    return function.takeError();
  return Program::compile(*function, /*reference=*/true, /*dump=*/{},
                          /*optLevel=*/0);
}

/// Tolerance of functions with types of 8 bits.
static constexpr double kNarrowTolerance = 0.1;

/// The relative distance that the rounding of intermediates explains. Near the
/// middle of two narrow numbers, a last bit of f32 decides.
static double getTolerance(ModuleOp module) {
  double tolerance = 1e-4;
  module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      Type element = getElementTypeOrSelf(type);
      if (isa<Float8E4M3FNType, Float8E5M2Type>(element) ||
          element.isSignlessInteger(8))
        tolerance = std::max(tolerance, kNarrowTolerance);
      else if (element.isF16() || element.isBF16())
        tolerance = std::max(tolerance, 0.01);
    }
  });
  return tolerance;
}

/// Inputs that differ in their last bits.
static std::vector<HostTensor> perturb(ArrayRef<HostTensor> inputs,
                                       Random &random) {
  std::vector<HostTensor> others;
  for (const HostTensor &input : inputs) {
    others.push_back(input.clone());
    if (input.getType() == ElementType::F32)
      for (int64_t i = 0; i < input.getNumElements(); ++i)
        others.back().set(
            i, input.get(i) * (1.0 + (double(random.below(9)) - 4.0) * 1e-7));
  }
  return others;
}

/// A distance in units of the larger result. Infinite if NaN or infinity is in
/// only one of them.
static double getDistance(ArrayRef<HostTensor> first,
                          ArrayRef<HostTensor> second) {
  double largest = 0.0;
  for (auto [x, y] : llvm::zip_equal(first, second)) {
    Difference difference = compare({x.clone()}, {y.clone()});
    if (difference.specialsDiffer)
      return INFINITY;
    largest = std::max(largest, std::sqrt(2.0 * difference.energy));
  }
  return largest;
}

/// Whether more values of f16 and bf16 differ than last bits of f32 explain. A
/// rounding in another place changes about a quarter of all values, and their
/// distance is small.
static bool hasOtherRoundings(ArrayRef<HostTensor> expected,
                              ArrayRef<HostTensor> actual,
                              ArrayRef<HostTensor> shifted) {
  for (auto [x, y, z] : llvm::zip_equal(expected, actual, shifted)) {
    if (x.getType() != ElementType::F16 && x.getType() != ElementType::BF16)
      continue;
    Difference difference = compare({x.clone()}, {y.clone()});
    int64_t explained = 4 * compare({x.clone()}, {z.clone()}).numDifferent;
    // At least four values, since one may lie in the middle between two.
    if (difference.numDifferent > std::max<int64_t>(explained, 3) &&
        difference.numDifferent * 8 > difference.numValues)
      return true;
  }
  return false;
}

StringRef fuse::checkRaising(ModuleOp module, Random &random,
                             CheckCounts &counts, bool plants) {
  OwningOpRef<ModuleOp> original = module.clone(), raised = module.clone();
  MLIRContext *context = module.getContext();
  PassManager form(context), raise(context);
  buildKernelFormationPipeline(form, KernelFormationPipelineOptions());
  if (failed(form.run(*raised)))
    return "form";
  std::string once = print(*raised);
  raise.addNestedPass<func::FuncOp>(createRaiseLayersPass());
  OwningOpRef<ModuleOp> again = raised->clone();
  if (failed(raise.run(*again)))
    return "raise";
  if (print(*again) != once) {
    module.emitError("raising a second time changes the module");
    return "raise-twice";
  }
  if (plants)
    plantGelu(*raised);
  uint64_t numLayers = 0;
  raised->walk([&](Operation *op) {
    numLayers += op->getName().getDialectNamespace() == "fuse";
  });
  counts.fused += numLayers;
  if (numLayers == 0) {
    ++counts.unraised;
    return {};
  }
  auto formula = compileFormula(*original);
  if (!formula) {
    // Not every change can be compiled.
    llvm::consumeError(formula.takeError());
    ++counts.unlowered;
    return {};
  }
  auto layers = compileFormula(*raised);
  if (!layers) {
    module.emitError(llvm::toString(layers.takeError()));
    return "compile";
  }
  auto function = findFunction(module, "");
  if (!function)
    return "function";
  auto signature = getSignature(*function);
  if (!signature) {
    llvm::consumeError(signature.takeError());
    ++counts.uncalled;
    return {};
  }
  double tolerance = getTolerance(*original);
  for (Values values : {Values::Normal, Values::Exact}) {
    InputOptions options;
    options.seed = random.next();
    options.dims = {"3"};
    auto inputs = createInputs(*function, *signature, options);
    if (!inputs) {
      llvm::consumeError(inputs.takeError());
      ++counts.uncalled;
      return {};
    }
    for (HostTensor &tensor : *inputs)
      changeValues(tensor, values, random);
    auto expected = formula->run(*inputs), actual = layers->run(*inputs);
    auto shifted = formula->run(perturb(*inputs, random));
    if (!expected || !shifted) {
      llvm::consumeError(expected.takeError());
      llvm::consumeError(shifted.takeError());
      llvm::consumeError(actual.takeError());
      ++counts.uncalled;
      return {};
    }
    if (!actual) {
      function->emitError(llvm::toString(actual.takeError()));
      return "raised-run";
    }
    ++counts.cases;
    for (const HostTensor &tensor : *expected)
      counts.values += tensor.getNumElements();
    // One rounding to 8 bits may change a scale and thereby all values.
    if (tolerance < kNarrowTolerance &&
        hasOtherRoundings(*expected, *actual, *shifted)) {
      function->emitError("the raised function rounds in other places");
      return "raised-roundings";
    }
    double distance = getDistance(*expected, *actual);
    // A formula may amplify last bits: those of a difference near zero, say.
    if (distance <= tolerance ||
        distance <= 30.0 * getDistance(*expected, *shifted))
      continue;
    function->emitError() << "the raised function differs by " << distance
                          << " of the values, allowed are " << tolerance;
    return "raised-values";
  }
  ++counts.executed;
  return {};
}
