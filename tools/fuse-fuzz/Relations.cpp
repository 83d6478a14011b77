//===- Relations.cpp - Metamorphic relations of functions -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Relations.h"
#include "TokenUse.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fuse;

/// Concatenates two tensors along the last dimension.
static HostTensor joinColumns(const HostTensor &lhs, const HostTensor &rhs) {
  SmallVector<int64_t> shape(lhs.getShape());
  int64_t left = lhs.getShape().back(), right = rhs.getShape().back();
  shape.back() = left + right;
  HostTensor result = llvm::cantFail(HostTensor::create(lhs.getType(), shape));
  for (int64_t i = 0; i < result.getNumElements(); ++i) {
    int64_t row = i / (left + right), column = i % (left + right);
    result.set(i, column < left ? lhs.get(row * left + column)
                                : rhs.get(row * right + column - left));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

static Operation *getReturn(func::FuncOp function) {
  return function.front().getTerminator();
}

static void updateType(func::FuncOp function) {
  function.setType(FunctionType::get(function.getContext(),
                                     function.front().getArgumentTypes(),
                                     getReturn(function)->getOperandTypes()));
}

/// Adds a last argument, and the tensor for it.
static Value addArgument(Variant &variant, RankedTensorType type,
                         ArrayRef<int64_t> shape,
                         llvm::function_ref<double(int64_t)> element) {
  ElementType stored = type.getElementType().isBF16()  ? ElementType::BF16
                       : type.getElementType().isF16() ? ElementType::F16
                                                       : ElementType::F32;
  HostTensor tensor = llvm::cantFail(HostTensor::create(stored, shape));
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    tensor.set(i, element(i));
  variant.inputs.push_back(std::move(tensor));
  return variant.function.front().addArgument(
      type, UnknownLoc::get(variant.function.getContext()));
}

/// The runtime shape of a type. Dynamic sizes are those of the first argument
/// that has one.
static std::optional<SmallVector<int64_t>> getShape(Variant &variant,
                                                    RankedTensorType type) {
  if (type.hasStaticShape())
    return SmallVector<int64_t>(type.getShape());
  // All dynamic sizes of a function are equal; see `createInputs`.
  SmallVector<int64_t> shape(type.getShape());
  for (auto [argument, input] :
       llvm::zip_equal(variant.function.getArguments(), variant.inputs)) {
    auto own = cast<RankedTensorType>(argument.getType());
    for (auto [dim, size] : llvm::enumerate(own.getShape())) {
      if (!ShapedType::isDynamic(size))
        continue;
      for (int64_t &wanted : shape)
        if (ShapedType::isDynamic(wanted))
          wanted = input.getShape()[dim];
      return shape;
    }
  }
  return std::nullopt;
}

/// The float tensors that top-level ops of a function define or use.
static SmallVector<Value> getFloatValues(func::FuncOp function) {
  SmallVector<Value> values;
  for (Operation &op : function.front().without_terminator())
    for (Value value : op.getResults())
      if (auto type = dyn_cast<RankedTensorType>(value.getType());
          type &&
          isa<Float32Type, BFloat16Type, Float16Type>(type.getElementType()) &&
          type.getRank() > 0 && !isa<DynamicQuantizeOp>(op))
        values.push_back(value);
  return values;
}

/// Replaces a value by the result of an op that does not change it.
static bool insertIdentity(Variant &variant, Random &random) {
  SmallVector<Value> values = getFloatValues(variant.function);
  if (values.empty())
    return false;
  Value value = random.oneOf<Value>(values);
  auto type = cast<RankedTensorType>(value.getType());
  OpBuilder builder(variant.function.getContext());
  builder.setInsertionPointAfterValue(value);
  auto shape = getShape(variant, type);
  if (!shape)
    return false;
  Value same;
  int64_t features = type.getShape().back();
  unsigned kind = random.below(3);
  // Sums in f16 may be infinite, and a zero in a matrix times infinity is NaN.
  if (type.getElementType().isF16() && kind > 1)
    kind = 0;
  switch (kind) {
  case 0:
    same = GatedMulOp::create(
        builder, value.getLoc(), type, value,
        addArgument(variant, type, *shape, [](int64_t) { return 1.0; }));
    break;
  case 1:
    same = ResidualAddOp::create(
        builder, value.getLoc(), type,
        addArgument(variant, type, *shape, [](int64_t) { return 0.0; }), value);
    break;
  default:
    same = LinearOp::create(
        builder, value.getLoc(), type, value,
        addArgument(
            variant,
            RankedTensorType::get({features, features}, type.getElementType()),
            {features, features},
            [&](int64_t i) {
              return i / features == i % features ? 1.0 : 0.0;
            }),
        Value(), Value(), FloatAttr(), FloatAttr());
  }
  value.replaceAllUsesExcept(same, same.getDefiningOp());
  updateType(variant.function);
  return true;
}

template <typename OpTy>
static SmallVector<OpTy> getOps(func::FuncOp function) {
  SmallVector<OpTy> ops;
  for (OpTy op : function.front().getOps<OpTy>())
    ops.push_back(op);
  return ops;
}

static bool addZeroBias(Variant &variant, Random &random) {
  SmallVector<LinearOp> candidates;
  for (LinearOp linear : getOps<LinearOp>(variant.function))
    if (!linear.getBias())
      candidates.push_back(linear);
  if (candidates.empty())
    return false;
  LinearOp linear = random.oneOf<LinearOp>(candidates);
  RankedTensorType result = linear.getY().getType();
  auto type = RankedTensorType::get(result.getShape().take_back(),
                                    result.getElementType());
  linear.getBiasMutable().assign(
      addArgument(variant, type, type.getShape(), [](int64_t) { return 0.0; }));
  linear.setBiasPlace(random.oneOf<BiasPlace>(
      {BiasPlace::BeforeRounding, BiasPlace::AfterRounding}));
  updateType(variant.function);
  return true;
}

/// The number of an argument with a single use.
static std::optional<unsigned> getOwnArgument(Value value) {
  auto argument = dyn_cast_or_null<BlockArgument>(value);
  if (!argument || !argument.hasOneUse())
    return std::nullopt;
  return argument.getArgNumber();
}

/// Doubles weights and biases and halves the result.
static bool scaleWeights(Variant &variant, Random &random) {
  SmallVector<LinearOp> candidates;
  for (LinearOp linear : getOps<LinearOp>(variant.function))
    if (linear.getWeight().getType().getElementType().isF32() ||
        linear.getWeight().getType().getElementType().isBF16())
      if (getOwnArgument(linear.getWeight()) &&
          !linear.getY().getType().getElementType().isF16() &&
          (!linear.getBias() || getOwnArgument(linear.getBias())))
        candidates.push_back(linear);
  if (candidates.empty())
    return false;
  LinearOp linear = random.oneOf<LinearOp>(candidates);
  RankedTensorType type = linear.getY().getType();
  auto shape = getShape(variant, type);
  if (!shape)
    return false;
  for (Value value : {Value(linear.getWeight()), Value(linear.getBias())})
    if (value) {
      HostTensor &tensor = variant.inputs[*getOwnArgument(value)];
      for (int64_t i = 0; i < tensor.getNumElements(); ++i)
        tensor.set(i, 2.0 * tensor.get(i));
    }
  Value half = addArgument(variant, type, *shape, [](int64_t) { return 0.5; });
  OpBuilder builder(linear->getContext());
  builder.setInsertionPointAfter(linear);
  auto product =
      GatedMulOp::create(builder, linear.getLoc(), type, linear, half);
  linear.getY().replaceAllUsesExcept(product, product);
  updateType(variant.function);
  return true;
}

/// Moves a power of two from the scales of weights to the scale of their input.
static bool moveScale(Variant &variant, Random &random) {
  SmallVector<QuantizeOp> candidates;
  for (QuantizeOp quantize : getOps<QuantizeOp>(variant.function)) {
    auto isScaled = [&](Operation *user) {
      auto linear = dyn_cast<LinearOp>(user);
      return linear && linear.getInputScaleAttr() == quantize.getScaleAttr() &&
             linear.getWeightScaleAttr() && linear.getX() == quantize.getQ();
    };
    if (quantize.getScaleAttr() && !quantize.getQ().use_empty() &&
        !quantize.getX().getType().getElementType().isF16() &&
        llvm::all_of(quantize->getUsers(), isScaled))
      candidates.push_back(quantize);
  }
  if (candidates.empty())
    return false;
  QuantizeOp quantize = random.oneOf<QuantizeOp>(candidates);
  RankedTensorType type = quantize.getX().getType();
  auto shape = getShape(variant, type);
  if (!shape)
    return false;
  OpBuilder builder(quantize);
  auto scaled = [&](FloatAttr attr, double factor) {
    return builder.getF64FloatAttr(factor * attr.getValueAsDouble());
  };
  Value two = addArgument(variant, type, *shape, [](int64_t) { return 2.0; });
  quantize.getXMutable().assign(GatedMulOp::create(builder, quantize.getLoc(),
                                                   type, quantize.getX(), two));
  quantize.setScaleAttr(scaled(quantize.getScaleAttr(), 2.0));
  for (Operation *user : quantize->getUsers()) {
    auto linear = cast<LinearOp>(user);
    linear.setInputScaleAttr(quantize.getScaleAttr());
    linear.setWeightScaleAttr(scaled(linear.getWeightScaleAttr(), 0.5));
  }
  updateType(variant.function);
  return true;
}

/// Adds ops that use existing values, and returns their results as well.
static bool addBeside(Variant &variant, Random &random) {
  SmallVector<Value> values = getFloatValues(variant.function);
  if (values.empty())
    return false;
  Operation *terminator = getReturn(variant.function);
  unsigned numResults = terminator->getNumOperands();
  OpBuilder builder(terminator);
  for (unsigned i = random.below(2) + 1; i > 0; --i) {
    Value value = random.oneOf<Value>(values);
    terminator->insertOperands(
        terminator->getNumOperands(),
        ValueRange(ActivationOp::create(
            builder, value.getLoc(), value.getType(),
            ActivationAttr::get(builder.getContext(), Activation::ReLU),
            value)));
  }
  updateType(variant.function);
  variant.restore = [=](Tensors results) {
    results.erase(results.begin() + numResults, results.end());
    return results;
  };
  return true;
}

/// Renames the function, and reorders arguments and results.
static bool reorder(Variant &variant, Random &random) {
  Block &body = variant.function.front();
  variant.function.setSymName("renamed");
  SmallVector<int64_t> order = getOrder(body.getNumArguments(), random);
  unsigned count = order.size();
  Tensors inputs;
  for (int64_t from : order) {
    BlockArgument old = body.getArgument(from);
    old.replaceAllUsesWith(body.addArgument(old.getType(), old.getLoc()));
    inputs.push_back(variant.inputs[from].clone());
  }
  body.eraseArguments(0, count);
  variant.inputs = std::move(inputs);
  variant.function.removeArgAttrsAttr();
  Operation *terminator = getReturn(variant.function);
  SmallVector<int64_t> results = getOrder(terminator->getNumOperands(), random);
  SmallVector<Value> values;
  for (int64_t from : results)
    values.push_back(terminator->getOperand(from));
  terminator->setOperands(values);
  updateType(variant.function);
  variant.restore = [=](Tensors others) {
    Tensors restored;
    for (size_t i = 0; i < others.size(); ++i)
      for (auto [to, from] : llvm::enumerate(results))
        if (from == int64_t(i))
          restored.push_back(others[to].clone());
    return restored;
  };
  return true;
}

/// Finds a linear whose only use is as a single result, with parameters that
/// have no other use. Returns the linear, the index of the result, and the
/// parameters with a row or value per output.
static bool findLastLinear(Variant &variant, Random &random, LinearOp &linear,
                           unsigned &result,
                           SmallVector<unsigned> &parameters) {
  SmallVector<LinearOp> candidates;
  auto getWeight = [](LinearOp linear) {
    auto dequantize = linear.getWeight().getDefiningOp<DequantizeOp>();
    return dequantize && dequantize->hasOneUse() &&
                   !dequantize.getChannelScale()
               ? Value(dequantize.getQ())
               : Value(linear.getWeight());
  };
  for (LinearOp candidate : getOps<LinearOp>(variant.function)) {
    bool owns =
        candidate->hasOneUse() && isa<func::ReturnOp>(*candidate->user_begin());
    for (Value value : {getWeight(candidate), Value(candidate.getBias()),
                        Value(candidate.getChannelScale())})
      owns &= !value || getOwnArgument(value);
    // Other scales of weights are not those of one output.
    if (QuantAttr quant = candidate.getQuantAttr())
      owns &= quant.getWeights() == ScaleGranularity::Channel;
    if (owns && candidate.getWeight().getType().getDimSize(0) > 1)
      candidates.push_back(candidate);
  }
  if (candidates.empty())
    return false;
  linear = random.oneOf<LinearOp>(candidates);
  result = linear.getY().use_begin()->getOperandNumber();
  for (Value value : {getWeight(linear), Value(linear.getBias()),
                      Value(linear.getChannelScale())})
    if (value)
      parameters.push_back(*getOwnArgument(value));
  return true;
}

/// Permutes the outputs of a linear.
static bool permuteOutputs(Variant &variant, Random &random) {
  LinearOp linear;
  unsigned result = 0;
  SmallVector<unsigned> parameters;
  if (!findLastLinear(variant, random, linear, result, parameters))
    return false;
  int64_t outputs = linear.getWeight().getType().getDimSize(0);
  SmallVector<int64_t> order = getOrder(outputs, random);
  for (unsigned parameter : parameters)
    variant.inputs[parameter] = takeSlices(variant.inputs[parameter], order);
  variant.restore = [=](Tensors results) {
    HostTensor restored = results[result].clone();
    for (int64_t i = 0; i < restored.getNumElements(); ++i)
      restored.set(i / outputs * outputs + order[i % outputs],
                   results[result].get(i));
    results[result] = std::move(restored);
    return results;
  };
  return true;
}

/// Splits a linear into two linears with some of the outputs each.
static bool splitOutputs(Variant &variant, Random &random) {
  LinearOp linear;
  unsigned result = 0;
  SmallVector<unsigned> parameters;
  if (!findLastLinear(variant, random, linear, result, parameters))
    return false;
  if (linear.getWeight().getDefiningOp())
    return false;
  int64_t outputs = linear.getWeight().getType().getDimSize(0);
  int64_t first = random.below(outputs - 1) + 1;
  OpBuilder builder(linear->getContext());
  builder.setInsertionPointAfter(linear);
  auto second = cast<LinearOp>(builder.clone(*linear));
  auto resize = [](Value value, unsigned dim, int64_t size) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = size;
    value.setType(RankedTensorType::get(shape, type.getElementType()));
  };
  Block &body = variant.function.front();
  for (unsigned parameter : parameters) {
    BlockArgument argument = body.getArgument(parameter);
    BlockArgument other =
        body.addArgument(argument.getType(), argument.getLoc());
    second->replaceUsesOfWith(argument, other);
    resize(argument, 0, first);
    resize(other, 0, outputs - first);
    SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, outputs));
    variant.inputs.push_back(
        takeSlices(variant.inputs[parameter], ArrayRef(all).drop_front(first)));
    variant.inputs[parameter] =
        takeSlices(variant.inputs[parameter], ArrayRef(all).take_front(first));
  }
  int64_t last = linear.getY().getType().getRank() - 1;
  resize(linear.getY(), last, first);
  resize(second.getY(), last, outputs - first);
  Operation *terminator = getReturn(variant.function);
  terminator->insertOperands(terminator->getNumOperands(),
                             ValueRange(second.getY()));
  variant.function.removeArgAttrsAttr();
  updateType(variant.function);
  variant.restore = [=](Tensors results) {
    results[result] = joinColumns(results[result], results.back());
    results.pop_back();
    return results;
  };
  return true;
}

llvm::ArrayRef<Relation> fuse::getRelations() {
  static const Relation relations[] = {{"identity", insertIdentity},
                                       {"zero-bias", addZeroBias},
                                       {"double-weights", scaleWeights},
                                       {"move-scale", moveScale},
                                       {"beside", addBeside},
                                       {"reorder", reorder},
                                       {"permute-outputs", permuteOutputs},
                                       {"split-outputs", splitOutputs}};
  return relations;
}
