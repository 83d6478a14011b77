//===- KernelBuilder.cpp - Emitter of kernels for a CPU -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Codegen/CPU/KernelBuilder.h"
#include "fuse/Codegen/ElementMath.h"
#include "fuse/Schedule/WeightViews.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fuse;

static Type getElement(Value value) { return getElementTypeOrSelf(value); }

CPUKernelBuilder::CPUKernelBuilder(ArrayRef<CPUStep> steps, CPUVectors vectors,
                                   ModuleOp kernels)
    : steps(steps), vectors(vectors), kernels(kernels),
      b(kernels.getLoc(), kernels.getContext()), f32(b.getF32Type()),
      index(b.getIndexType()) {}

DictionaryAttr CPUKernelBuilder::build(StringRef name) {
  this->name = name.str();
  Value input = getFlatSource(steps.front().problem.x);
  auto function = cast<func::FuncOp>(input.getParentBlock()->getParentOp());
  Operation *terminator = function.front().getTerminator();
  for (OpOperand &operand : terminator->getOpOperands())
    places[getFlatSource(operand.get())] = {"result",
                                            operand.getOperandNumber()};
  for (auto [number, step] : llvm::enumerate(steps)) {
    startStep(step, number);
    placeValues(step);
    if (step.maps.empty())
      buildProblem();
    else
      buildMaps(step.maps);
  }
  return b.getDictionaryAttr(
      {entry("input", cast<BlockArgument>(input).getArgNumber()),
       b.getNamedAttr("packed", b.getArrayAttr(packedWeights)),
       b.getNamedAttr("workspace", b.getArrayAttr(workspace)),
       b.getNamedAttr("phases", b.getArrayAttr(phases))});
}

void CPUKernelBuilder::startStep(const CPUStep &step, size_t number) {
  prefix = name;
  if (number > 0)
    prefix += "_" + std::to_string(number + 1);
  inputBuffer = hiddenBuffer = streamBuffer = -1;
  Operation *op = step.maps.empty() ? step.problem.op : step.maps.front();
  b.setLoc(op->getLoc());
  if (!step.maps.empty())
    return;
  p = step.problem;
  xType = getElement(p.x);
  weightType = p.outputs.empty() ? xType : getElement(p.outputs.front().weight);
  if (isPacked())
    weightType = p.rounding.getTypeOf(RoundingPoint::Dequantized, xType);
  inputType = weightType.isBF16() && vectors.dot ? weightType : f32;
}

void CPUKernelBuilder::placeValues(const CPUStep &step) {
  SmallVector<Operation *> ops = step.maps;
  if (ops.empty())
    ops.push_back(step.problem.op);
  for (Operation *op : ops)
    for (Value result : op->getResults()) {
      // Values that only elementwise ops of the same step read stay in
      // registers.
      bool isInside = !step.maps.empty() &&
                      llvm::all_of(result.getUsers(), [&](Operation *user) {
                        return llvm::is_contained(ops, user);
                      });
      if (isInside || places.contains(result))
        continue;
      auto type = cast<RankedTensorType>(result.getType());
      int64_t bits = type.getElementTypeBitWidth() * type.getShape().back();
      places[result] = {"workspace", makeWorkspace(bits / 8)};
    }
}

void CPUKernelBuilder::buildProblem() {
  // Without a norm, an addition or a conversion, products read the input
  // directly.
  if (p.norm || p.residual || p.streamResult >= 0 || p.normedResult >= 0 ||
      xType != inputType)
    buildRows();
  if (p.hasGemm1())
    buildHidden();
  for (unsigned i = 0; i < p.outputs.size(); ++i)
    buildOutput(i);
}

Type CPUKernelBuilder::pointType(RoundingPoint point) const {
  if (p.rounding.skips(point))
    return f32;
  return p.rounding.getTypeOf(point, xType);
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

NamedAttribute CPUKernelBuilder::entry(StringRef name, int64_t value) {
  return b.getNamedAttr(name, b.getI64IntegerAttr(value));
}

NamedAttribute CPUKernelBuilder::entry(StringRef name, StringRef value) {
  return b.getNamedAttr(name, b.getStringAttr(value));
}

void CPUKernelBuilder::addArgument(Value &slot, Type element, Plan plan) {
  types.push_back(bufferOf(element));
  plans.push_back(b.getDictionaryAttr(plan));
  slots.push_back(&slot);
}

void CPUKernelBuilder::addOperand(Value &slot, Value operand) {
  slot = {};
  if (!operand)
    return;
  operand = getFlatSource(operand);
  if (auto argument = dyn_cast<BlockArgument>(operand))
    addArgument(slot, getElement(operand),
                entry("operand", argument.getArgNumber()));
  else if (places.contains(operand))
    addResult(slot, operand);
  else
    addVector(slot, operand);
}

/// Adds a vector that is a part of arguments.
void CPUKernelBuilder::addVector(Value &slot, Value vector) {
  auto type = cast<RankedTensorType>(vector.getType());
  NamedAttrList recipe = describeSources(vector);
  recipe.push_back(entry("recipe", "identity"));
  recipe.push_back(entry("columns", int64_t(0)));
  recipe.push_back(entry("tiles", 1));
  recipe.push_back(entry("steps", 1));
  recipe.push_back(entry("bytes", type.getNumElements() *
                                      type.getElementTypeBitWidth() / 8));
  addArgument(slot, type.getElementType(),
              entry("packed", packedWeights.size()));
  packedWeights.push_back(recipe.getDictionary(b.getContext()));
}

/// The arguments of which matrices or vectors are parts, and the parts.
NamedAttrList CPUKernelBuilder::describeSources(ArrayRef<Value> matrices) {
  llvm::SetVector<int64_t> operands;
  SmallVector<Attribute> views;
  for (Value matrix : matrices)
    views.push_back(
        getBoxes(b.getContext(), getWeightView(matrix), [&](Value source) {
          int64_t number = cast<BlockArgument>(source).getArgNumber();
          operands.insert(number);
          return llvm::find(operands, number) - operands.begin();
        }));
  NamedAttrList entries;
  entries.push_back(
      b.getNamedAttr("operands", b.getI64ArrayAttr(operands.getArrayRef())));
  entries.push_back(b.getNamedAttr("views", b.getArrayAttr(views)));
  return entries;
}

void CPUKernelBuilder::addResult(Value &slot, Value result) {
  Place place = places.at(result);
  addArgument(slot, getElement(result), entry(place.kind, place.index));
}

void CPUKernelBuilder::addInput(Value &slot) {
  if (inputBuffer < 0)
    addOperand(slot, p.x);
  else
    addWorkspace(slot, inputBuffer, inputType);
}

void CPUKernelBuilder::addWorkspace(Value &slot, int64_t index, Type element) {
  addArgument(slot, element, entry("workspace", index));
}

int64_t CPUKernelBuilder::makeWorkspace(int64_t bytes) {
  workspace.push_back(b.getI64IntegerAttr(bytes));
  return workspace.size() - 1;
}

void CPUKernelBuilder::addPacked(Value &slot, ArrayRef<Value> weights) {
  auto isArgument = [](Value weight) { return isa<BlockArgument>(weight); };
  bool isPlain = llvm::all_of(weights, isArgument);
  // These are packed from where they are.
  bool isTransposed = llvm::none_of(weights, isArgument) &&
                      llvm::all_of(weights, [](Value weight) {
                        return static_cast<bool>(getStoredWeight(weight));
                      });
  NamedAttrList recipe;
  if (isPlain || isTransposed) {
    SmallVector<int64_t> operands;
    for (Value weight : weights)
      operands.push_back(getStoredWeight(weight).getArgNumber());
    recipe.push_back(b.getNamedAttr("operands", b.getI64ArrayAttr(operands)));
  } else {
    recipe = describeSources(weights);
  }
  auto type = cast<RankedTensorType>(weights.front().getType());
  int64_t columns = vectors.getPanelColumns();
  int64_t rows = columns / static_cast<int64_t>(weights.size());
  int64_t panels = llvm::divideCeil(type.getDimSize(0), rows);
  recipe.push_back(
      entry("recipe", isTransposed ? "panels_transposed" : "panels"));
  recipe.push_back(entry("columns", columns));
  recipe.push_back(entry("tiles", panels));
  recipe.push_back(entry("steps", getSteps(type.getDimSize(1))));
  recipe.push_back(entry("bytes", panels * columns * type.getDimSize(1) *
                                      weightType.getIntOrFloatBitWidth() / 8));
  addArgument(slot, weightType, entry("packed", packedWeights.size()));
  packedWeights.push_back(recipe.getDictionary(b.getContext()));
}

void CPUKernelBuilder::begin(StringRef suffix, int64_t panels,
                             int64_t tokensPerTask, int64_t multiple) {
  types.insert(types.begin(), MemRefType::get({3}, index));
  b.setInsertionPointToEnd(kernels.getBody());
  std::string symbol = prefix + "_" + suffix.str();
  auto function = func::FuncOp::create(b, symbol, b.getFunctionType(types, {}));
  function->setAttr(kPointersAttrName, b.getUnitAttr());
  SmallVector<NamedAttribute> phase = {
      entry("function", symbol), entry("panels", panels),
      entry("tokens", tokensPerTask),
      b.getNamedAttr("arguments", b.getArrayAttr(plans))};
  if (multiple)
    phase.push_back(entry("multiple", multiple));
  phases.push_back(b.getDictionaryAttr(phase));
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  for (auto [slot, argument] :
       llvm::zip_equal(slots, body->getArguments().drop_front()))
    *slot = argument;
  Value range = body->getArgument(0);
  auto get = [&](int64_t at) -> Value {
    return memref::LoadOp::create(b, range, c(at));
  };
  numTokens = get(0);
  firstTask = get(1);
  lastTask = get(2);
}

void CPUKernelBuilder::end() {
  func::ReturnOp::create(b);
  types.clear();
  plans.clear();
  slots.clear();
}

//===----------------------------------------------------------------------===//
// Index arithmetic and loops
//===----------------------------------------------------------------------===//

Value CPUKernelBuilder::c(int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

Value CPUKernelBuilder::plus(Value x, Value y) {
  return arith::AddIOp::create(b, x, y);
}

Value CPUKernelBuilder::plus(Value x, int64_t y) {
  return y == 0 ? x : plus(x, c(y));
}

Value CPUKernelBuilder::times(Value x, Value y) {
  return arith::MulIOp::create(b, x, y);
}

Value CPUKernelBuilder::times(Value x, int64_t y) {
  return y == 1 ? x : times(x, c(y));
}

CPUKernelBuilder::Values
CPUKernelBuilder::loop(Value from, Value to, int64_t step, ValueRange carried,
                       function_ref<Values(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(b, from, to, c(step), carried);
  OpBuilder::InsertionGuard guard(b);
  if (carried.empty())
    b.setInsertionPoint(op.getBody()->getTerminator());
  else
    b.setInsertionPointToStart(op.getBody());
  Values next = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!carried.empty())
    scf::YieldOp::create(b, next);
  return Values(op.getResults());
}

void CPUKernelBuilder::loop(Value from, Value to, int64_t step,
                            function_ref<void(Value)> body) {
  loop(from, to, step, {}, [&](Value at, ValueRange) {
    body(at);
    return Values();
  });
}

void CPUKernelBuilder::forBlocks(int64_t size, int64_t step,
                                 function_ref<void(Value)> body) {
  if (size <= step)
    return body(c(0));
  loop(c(0), c(size), step, body);
}

void CPUKernelBuilder::when(Value condition, function_ref<void()> body) {
  auto op = scf::IfOp::create(b, condition);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(op.thenBlock());
  body();
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

Value CPUKernelBuilder::zeros() {
  return arith::ConstantOp::create(b, b.getZeroAttr(vectorOf(f32)));
}

Value CPUKernelBuilder::loadRaw(Value buffer, Value at, Value mask) {
  Type content = getContent(buffer);
  VectorType type = vectorOf(getStorage(content));
  Value loaded;
  if (mask) {
    Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
    loaded = vector::MaskedLoadOp::create(b, type, buffer, at, mask, zero);
  } else {
    loaded = vector::LoadOp::create(b, type, buffer, at);
  }
  return content == type.getElementType()
             ? loaded
             : arith::BitcastOp::create(b, vectorOf(content), loaded);
}

Value CPUKernelBuilder::load(Value buffer, Value at, Value mask) {
  return widen(b, loadRaw(buffer, at, mask));
}

void CPUKernelBuilder::store(Value value, Value buffer, Value at, Value mask) {
  Type content = getContent(buffer), storage = getStorage(content);
  value = roundTo(b, value, content);
  if (content != storage)
    value = arith::BitcastOp::create(b, vectorOf(storage), value);
  if (mask)
    vector::MaskedStoreOp::create(b, buffer, at, mask, value);
  else
    vector::StoreOp::create(b, value, buffer, at);
}

Value CPUKernelBuilder::round(Value value, Type element) {
  return widen(b, roundTo(b, value, element));
}

Value CPUKernelBuilder::maskBelow(Value count) {
  VectorType type = vectorOf(index);
  auto numbers = llvm::to_vector(llvm::seq<int64_t>(0, vectors.lanes));
  Value lanes = arith::ConstantOp::create(
      b, DenseElementsAttr::get(type, ArrayRef<int64_t>(numbers)));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lanes,
                               vector::BroadcastOp::create(b, type, count));
}

Value CPUKernelBuilder::multiplyAdd(Value x, Value y, Value sum) {
  if (vectors.fma)
    return vector::FMAOp::create(b, x, y, sum);
  return arith::AddFOp::create(b, arith::MulFOp::create(b, x, y), sum);
}

Value CPUKernelBuilder::addLanes(Value vector) {
  for (int64_t width = vectors.lanes / 2; width > 0; width /= 2) {
    auto take = [&](int64_t first) -> Value {
      auto lanes = llvm::to_vector(llvm::seq(first, first + width));
      return vector::ShuffleOp::create(b, vector, vector, lanes);
    };
    Value low = take(0);
    vector = arith::AddFOp::create(b, low, take(width));
  }
  return vector::ExtractOp::create(b, vector, int64_t(0));
}

//===----------------------------------------------------------------------===//
// What there are no kernels for
//===----------------------------------------------------------------------===//

std::string fuse::getCPUProblem(const CPUStep &step) {
  auto print = [](Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  };
  auto isFloat = [](Type type) { return type.isF32() || type.isBF16(); };
  for (Operation *op : step.maps)
    for (Value value : op->getResults())
      if (!isFloat(getElement(value)))
        return "an elementwise result is " + print(getElement(value)) +
               ", not f32 or bf16";
  if (!step.maps.empty())
    return "";
  const MlpProblem &problem = step.problem;
  bool isPacked = problem.quant && problem.quant.isPacked();
  if (problem.scales || (problem.quant && !isPacked))
    return "the op is quantized";
  if (isPacked)
    if (std::string why = getFourBitProblem(problem); !why.empty())
      return why;
  SmallVector<Value> weights = {problem.gate, problem.up};
  for (const DecodeOutput &output : problem.outputs)
    weights.push_back(output.weight);
  SmallVector<Value> rows = {problem.x, problem.residual,
                             problem.outputResidual};
  SmallVector<Value> stored;
  if (isPacked) {
    std::swap(stored, weights);
    for (unsigned i = 0, end = llvm::count_if(
                             stored, [](Value weight) { return bool(weight); });
         i < end; ++i)
      llvm::append_range(stored, getScaleOperands(problem.op, i));
  }
  for (Value value : problem.op->getOperands()) {
    if (llvm::is_contained(stored, value))
      continue;
    auto type = cast<RankedTensorType>(value.getType());
    if (!isFloat(type.getElementType()))
      return "an operand is " + print(type.getElementType()) +
             ", not f32 or bf16";
    if (!llvm::is_contained(rows, value) && !isMadeOfArguments(value))
      return "a parameter is neither an argument of the function nor a part of "
             "arguments";
  }
  for (Value value : problem.op->getResults())
    if (!isFloat(getElement(value)))
      return "a result is " + print(getElement(value)) + ", not f32 or bf16";
  for (Value weight : weights) {
    if (!weight)
      continue;
    auto type = cast<RankedTensorType>(weight.getType());
    if (type.getElementType().isBF16() && type.getDimSize(1) % 2 != 0)
      return "the width " + std::to_string(type.getDimSize(1)) + " is odd";
  }
  // The verifier ensures that inputs of a product have the type of its weights.
  Type x = getElement(problem.x);
  for (RoundingPoint point :
       {RoundingPoint::Stream, RoundingPoint::Gate, RoundingPoint::Up,
        RoundingPoint::Act, RoundingPoint::Down})
    if (Type type = problem.rounding.getTypeOf(point, x); !isFloat(type))
      return ("the intermediate '" + stringifyRoundingPoint(point) + "' is " +
              print(type) + ", not f32 or bf16")
          .str();
  return "";
}
