//===- ModuleGenerator.cpp - Random modules of layer ops ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A function is a list of chains, each a family's decomposition with random
// parts left out and random types, scales and weights. Defects are mixed in:
// second users, shared weights, scales that disagree, members in a region of
// their own. At the end, neighbours that do not depend on each other change
// places at random, which interleaves the chains with each other and with ops
// that belong to none.
//
//===----------------------------------------------------------------------===//

#include "ModuleGenerator.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fuse;

namespace {

/// How the linears of one chain are quantized.
struct Quantization {
  enum Kind { None, Scaled, QDQ, WeightOnly, Dynamic } kind = None;
  Type storage;
  QuantOrder order = QuantOrder::Reciprocal;
  BiasPlace biasPlace = BiasPlace::BeforeRounding;
};

class FunctionGenerator {
public:
  FunctionGenerator(Random &random, ModuleOp module, unsigned index,
                    Stratum stratum, uint64_t combination = 0);
  void generate();

private:
  // Attributes and locations.
  Location loc();
  Attribute attribute(unsigned depth);
  void decorate(Operation *op);
  FloatAttr scale();

  // Types and values.
  Type floatType();
  RankedTensorType type(Value like, Type element);
  RankedTensorType resultType(Value like);
  Value value(Type type);
  Value stream();

  // Members.
  Value residualAdd(Value lhs, Value rhs);
  Value norm(Value x);
  Value quantize(Value x, const Quantization &how, FloatAttr scale);
  Value quantizeDynamically(Value x, const Quantization &how);
  Value quantizedInput(Value x, const Quantization &how, FloatAttr &scale);
  Value linear(Value x, int64_t outputs, const Quantization &how,
               FloatAttr inputScale);
  Value activation(Value x);
  Value gatedMul(Value lhs, Value rhs);

  // Chains.
  Value head(Value x);
  void mlp();
  void normLinear();
  void normQuantize();
  void actQuantize();
  void chain();

  // Surroundings.
  void rotary();
  void crossEntropy();
  void experts();
  void castStream();
  void transposed();
  void unrelated();
  void between();
  void secondUser(Value value);
  void shuffle(Block *block);

  template <typename OpTy, typename... Args>
  Value create(Args &&...args) {
    auto op = OpTy::create(builder, loc(), std::forward<Args>(args)...);
    decorate(op);
    values.push_back(op->getResult(0));
    return values.back();
  }

  void chooseBoundary(ModuleOp module, uint64_t combination);
  /// What a combination of `Stratum::Boundary` says.
  struct Combination {
    unsigned family;
    Quantization how;
    int64_t width;
  };
  std::optional<Combination> boundary;

  /// Widths of a layer inside of a chain.
  int64_t width(std::initializer_list<int64_t> any);
  Quantization quantization();

  Random &random;
  OpBuilder builder;
  /// Whether chains are such that the scheduled path has kernels for them,
  /// whether these are drawn, and whether others are around them.
  bool scheduled, drawn, mixed;
  /// Whether there are ops that are functions of their own, and whether the
  /// function is to run.
  bool functions, runs;
  func::FuncOp function;
  /// Chances differ from function to function, so that some are clean.
  unsigned decoration, sharing, damage, oddTypes;
  SmallVector<Value> values;
  SmallVector<Location> locs;
  /// Leading dimensions and features of the residual stream.
  SmallVector<int64_t> leading;
  int64_t features;
  Type element;
};

} // namespace

FunctionGenerator::FunctionGenerator(Random &random, ModuleOp module,
                                     unsigned index, Stratum stratum,
                                     uint64_t combination)
    : random(random), builder(module.getContext()),
      scheduled(stratum == Stratum::Scheduled || stratum == Stratum::Mixed ||
                stratum == Stratum::Schedules),
      drawn(stratum == Stratum::Schedules), mixed(stratum == Stratum::Mixed),
      functions(stratum == Stratum::Functions),
      runs(stratum == Stratum::Runnable || stratum == Stratum::Boundary ||
           functions) {
  if (stratum == Stratum::Boundary) {
    chooseBoundary(module, combination);
    return;
  }
  if (scheduled) {
    decoration = damage = oddTypes = 0;
    // What connects the chains, and gives several of them the same weights.
    sharing = mixed ? 60 : 0;
    leading.push_back(
        random.oneOf<int64_t>({ShapedType::kDynamic, ShapedType::kDynamic, 1, 7,
                               16, 33, 64, 100, 128}));
    // Most kernels are chosen when they are launched.
    if (drawn)
      leading[0] = random.percent(80)
                       ? ShapedType::kDynamic
                       : random.oneOf<int64_t>({1, 5, 63, 129, 200, 257, 300});
    features = random.oneOf<int64_t>({16, 48, 64, 128, 144, 256, 272, 400});
    element = builder.getBF16Type();
    builder.setInsertionPointToEnd(module.getBody());
    function = func::FuncOp::create(builder, loc(), "f" + std::to_string(index),
                                    builder.getFunctionType({}, {}));
    return;
  }
  decoration = random.oneOf({0u, 0u, 10u, 50u});
  sharing = random.oneOf({0u, 10u, 30u, 60u});
  damage = random.oneOf({0u, 0u, 5u, 20u});
  oddTypes = random.oneOf({0u, 0u, 5u, 30u});
  for (unsigned i = random.below(4); i > 0; --i)
    leading.push_back(
        random.oneOf<int64_t>({ShapedType::kDynamic, 0, 1, 2, 5, 129}));
  features = random.oneOf<int64_t>({1, 2, 3, 16, 17, 64, 127});
  if (runs) {
    // Sizes around those that vectors and tiles have.
    for (int64_t &size : leading)
      size = random.oneOf<int64_t>(
          {ShapedType::kDynamic, ShapedType::kDynamic, 0, 1, 3, 8, 17});
    // Every value is computed several times, and once by an interpreter.
    auto getTokens = [&] {
      int64_t tokens = 1;
      for (int64_t size : leading)
        tokens *= ShapedType::isDynamic(size) ? 17 : size;
      return tokens;
    };
    while (getTokens() > 300)
      leading.pop_back();
    features = random.oneOf<int64_t>(
        {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129});
  }
  element = floatType();
  builder.setInsertionPointToEnd(module.getBody());
  function = func::FuncOp::create(builder, loc(), "f" + std::to_string(index),
                                  builder.getFunctionType({}, {}));
}

ArrayRef<int64_t> fuse::getBoundarySizes() {
  static const int64_t sizes[] = {1,  2,  3,  7,  8,   15,  16,  17,  31,  32,
                                  33, 63, 64, 65, 127, 128, 129, 255, 256, 257};
  return sizes;
}

/// Families of chains and kinds of quantization, in every storage type.
static constexpr uint64_t kNumFamilies = 4, kNumElements = 3;
static constexpr uint64_t kNumQuantizations = 1 + 4 * 3;

uint64_t fuse::getNumBoundaryCombinations() {
  uint64_t sizes = getBoundarySizes().size();
  return kNumFamilies * kNumElements * kNumQuantizations * sizes * sizes;
}

void FunctionGenerator::chooseBoundary(ModuleOp module, uint64_t combination) {
  decoration = damage = oddTypes = 0;
  sharing = random.oneOf({0u, 60u});
  MLIRContext *context = builder.getContext();
  // A prime that is no divisor of the number of combinations goes through all
  // of them, and through all sizes early.
  uint64_t rest = combination * 1000003 % getNumBoundaryCombinations();
  auto choose = [&](uint64_t count) {
    uint64_t chosen = rest % count;
    rest /= count;
    return chosen;
  };
  leading = {ShapedType::kDynamic};
  ArrayRef<int64_t> sizes = getBoundarySizes();
  boundary.emplace();
  features = sizes[choose(sizes.size())];
  boundary->width = sizes[choose(sizes.size())];
  // Families as `chain` numbers them: the last is an MLP.
  boundary->family = choose(kNumFamilies);
  const Type elements[] = {builder.getBF16Type(), builder.getF16Type(),
                           builder.getF32Type()};
  element = elements[choose(kNumElements)];
  const Type stored[] = {Float8E4M3FNType::get(context),
                         Float8E5M2Type::get(context), builder.getI8Type()};
  uint64_t kind = choose(kNumQuantizations);
  boundary->how.storage = stored[kind % 3];
  boundary->how.kind =
      kind == 0 ? Quantization::None : Quantization::Kind((kind - 1) / 3 + 1);
  boundary->how.order =
      random.oneOf({QuantOrder::Reciprocal, QuantOrder::Divide});
  builder.setInsertionPointToEnd(module.getBody());
  function = func::FuncOp::create(builder, loc(), "f",
                                  builder.getFunctionType({}, {}));
}

//===----------------------------------------------------------------------===//
// Attributes and locations
//===----------------------------------------------------------------------===//

Location FunctionGenerator::loc() {
  MLIRContext *context = builder.getContext();
  // Many members of a real chain share a location.
  if (!locs.empty() && random.percent(40))
    return random.oneOf<Location>(locs);
  auto file = FileLineColLoc::get(
      context, random.oneOf<StringRef>({"model.py", "a b.py", ""}),
      random.below(100), random.below(10));
  auto other = [&]() -> Location {
    return locs.empty() ? Location(file) : random.oneOf<Location>(locs);
  };
  Location result = file;
  switch (random.below(8)) {
  case 0:
    result = UnknownLoc::get(context);
    break;
  case 1:
    result = NameLoc::get(builder.getStringAttr("model.layers.0.mlp"), file);
    break;
  case 2:
    result = NameLoc::get(builder.getStringAttr("\"\n"), other());
    break;
  case 3:
    result = CallSiteLoc::get(file, other());
    break;
  case 4:
    result = FusedLoc::get({file, other()}, Attribute(), context);
    break;
  case 5:
    result = FusedLoc::get({other()}, builder.getUnitAttr(), context);
    break;
  case 6: {
    // The shape that kernels use themselves.
    Location first = other();
    Attribute each[] = {LocationAttr(first), file};
    result = FusedLoc::get({first, file}, builder.getArrayAttr(each), context);
    break;
  }
  default:
    break;
  }
  locs.push_back(result);
  return result;
}

Attribute FunctionGenerator::attribute(unsigned depth) {
  switch (random.below(depth == 0 ? 7 : 9)) {
  case 0:
    return builder.getUnitAttr();
  case 1:
    return builder.getStringAttr("kept \"\\\n");
  case 2:
    return builder.getI64IntegerAttr(-1);
  case 3:
    return builder.getF32FloatAttr(std::numeric_limits<float>::quiet_NaN());
  case 4:
    return TypeAttr::get(RankedTensorType::get({4}, builder.getBF16Type()));
  case 5:
    return builder.getDenseI64ArrayAttr({1, 2});
  case 6:
    return RoundingAttr::getExact(builder.getContext());
  case 7:
    return builder.getArrayAttr({attribute(depth - 1), attribute(depth - 1)});
  default:
    return builder.getDictionaryAttr(
        {builder.getNamedAttr("inner", attribute(depth - 1))});
  }
}

/// Gives an op attributes that it knows nothing of.
void FunctionGenerator::decorate(Operation *op) {
  while (random.percent(decoration))
    op->setDiscardableAttr(
        random.oneOf<StringRef>({"note", "zz", "other.name", "with space"}),
        attribute(2));
}

FloatAttr FunctionGenerator::scale() {
  // Values that neither vanish nor saturate as a whole.
  if (scheduled)
    return builder.getF64FloatAttr(
        random.oneOf<double>({2.1e-2, 1.3e-3, 4.0e-2, 0.0078125}));
  if (runs)
    return builder.getF64FloatAttr(
        random.oneOf<double>({1.0, 2.1e-2, 1.3e-1, 0.1, 0.25}));
  return builder.getF64FloatAttr(random.oneOf<double>(
      {1.0, 2.1e-2, 1.3e-3, 448.0, 0.1, 0.10000000149011612,
       1.1754943508222875e-38, 8.507059173023462e+37}));
}

//===----------------------------------------------------------------------===//
// Types and values
//===----------------------------------------------------------------------===//

Type FunctionGenerator::floatType() {
  return random.oneOf<Type>(
      {builder.getBF16Type(), builder.getF16Type(), builder.getF32Type()});
}

/// The type of `like` with another element type.
RankedTensorType FunctionGenerator::type(Value like, Type element) {
  return withElementType(like.getType(), element);
}

/// The type of a member's result: that of its operand, now and then another,
/// or one of which less or more is static.
RankedTensorType FunctionGenerator::resultType(Value like) {
  Type elementType = random.percent(oddTypes) ? floatType() : element;
  RankedTensorType result = type(like, elementType);
  if (runs || !random.percent(oddTypes / 4) || result.getRank() < 2)
    return result;
  SmallVector<int64_t> shape(result.getShape());
  // A size that was known comes back as it was.
  int64_t known = ShapedType::isDynamic(leading[0]) ? 7 : leading[0];
  shape[0] = ShapedType::isDynamic(shape[0]) ? known : ShapedType::kDynamic;
  return RankedTensorType::get(shape, elementType);
}

/// A value of exactly this type: one that exists, or a new argument.
Value FunctionGenerator::value(Type type) {
  if (random.percent(sharing)) {
    SmallVector<Value> candidates;
    for (Value value : values)
      if (value.getType() == type)
        candidates.push_back(value);
    if (!candidates.empty())
      return random.oneOf<Value>(candidates);
  }
  values.push_back(function.getBody().front().addArgument(type, loc()));
  return values.back();
}

/// A value that a chain starts from.
Value FunctionGenerator::stream() {
  SmallVector<int64_t> shape = leading;
  shape.push_back(features);
  return value(RankedTensorType::get(shape, element));
}

//===----------------------------------------------------------------------===//
// Members
//===----------------------------------------------------------------------===//

Value FunctionGenerator::residualAdd(Value lhs, Value rhs) {
  if (random.percent(50))
    std::swap(lhs, rhs);
  return create<ResidualAddOp>(resultType(lhs), lhs, rhs);
}

Value FunctionGenerator::norm(Value x) {
  int64_t size = cast<RankedTensorType>(x.getType()).getShape().back();
  Type element = !scheduled && random.percent(20) ? floatType() : this->element;
  auto vector = RankedTensorType::get({size}, element);
  FloatAttr eps =
      builder.getF64FloatAttr(random.oneOf<double>({1e-6, 1e-5, 0.0, 0.25}));
  Value weight = random.percent(80) ? value(vector) : Value();
  if (random.percent(30)) {
    Value bias = weight && random.percent(70) ? value(vector) : Value();
    return create<LayerNormOp>(resultType(x), x, weight, bias, eps);
  }
  auto cast = random.oneOf({NormCast::BeforeWeight, NormCast::AfterWeight});
  int64_t offset = weight ? random.below(2) : 0;
  return create<RMSNormOp>(resultType(x), x, weight, eps,
                           builder.getI64IntegerAttr(offset),
                           NormCastAttr::get(builder.getContext(), cast));
}

Value FunctionGenerator::quantize(Value x, const Quantization &how,
                                  FloatAttr scale) {
  Type storage = how.storage;
  QuantOrder order = how.order;
  if (random.percent(damage)) {
    storage = Float8E5M2Type::get(builder.getContext());
    order = QuantOrder::Divide;
  }
  return create<QuantizeOp>(type(x, storage), x, Value(), scale,
                            QuantOrderAttr::get(builder.getContext(), order));
}

/// Quantizes with a scale that is the second result.
Value FunctionGenerator::quantizeDynamically(Value x, const Quantization &how) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(x.getType()).getShape();
  bool perToken = shape.size() > 1 && random.percent(70);
  SmallVector<int64_t> scales = {1};
  if (perToken)
    scales.assign(shape.begin(), shape.end() - 1);
  return create<DynamicQuantizeOp>(
      type(x, how.storage), RankedTensorType::get(scales, builder.getF32Type()),
      ScaleScopeAttr::get(builder.getContext(), perToken
                                                    ? ScaleScope::PerToken
                                                    : ScaleScope::PerTensor),
      x);
}

/// The input of a linear. Sets the scale that the linear is told.
Value FunctionGenerator::quantizedInput(Value x, const Quantization &how,
                                        FloatAttr &inputScale) {
  if (how.kind == Quantization::None || how.kind == Quantization::WeightOnly)
    return x;
  if (how.kind == Quantization::Dynamic)
    return quantizeDynamically(x, how);
  inputScale = scale();
  Value q = quantize(x, how, inputScale);
  if (random.percent(damage))
    inputScale = scale();
  if (how.kind == Quantization::Scaled)
    return q;
  return create<DequantizeOp>(resultType(q), q, Value(), inputScale);
}

Value FunctionGenerator::linear(Value x, int64_t outputs,
                                const Quantization &how, FloatAttr inputScale) {
  auto input = cast<RankedTensorType>(x.getType());
  SmallVector<int64_t> shape(input.getShape());
  int64_t inputs = shape.back();
  shape.back() = outputs;
  RankedTensorType result = RankedTensorType::get(
      shape, random.percent(oddTypes) ? floatType() : element);
  Type biasElement = random.percent(oddTypes) ? floatType() : element;
  auto getBias = [&]() -> Value {
    return random.percent(30)
               ? value(RankedTensorType::get({outputs}, biasElement))
               : Value();
  };
  auto getPlace = [&](Value bias) {
    BiasPlace place = bias ? how.biasPlace : BiasPlace::BeforeRounding;
    if (bias && random.percent(damage))
      place = BiasPlace::AfterRounding;
    return BiasPlaceAttr::get(builder.getContext(), place);
  };
  auto getChannelScale = [&]() -> Value {
    return !scheduled && random.percent(25)
               ? value(RankedTensorType::get({outputs}, builder.getF32Type()))
               : Value();
  };
  if (how.kind == Quantization::None) {
    Value weight =
        value(RankedTensorType::get({outputs, inputs}, input.getElementType()));
    Value bias = getBias();
    return create<LinearOp>(result, x, weight, bias, Value(), Value(),
                            FloatAttr(), FloatAttr(), getPlace(bias));
  }
  Value channelScale = getChannelScale();
  FloatAttr weightScale = channelScale ? FloatAttr() : scale();
  Value bias = getBias();
  if (how.kind == Quantization::QDQ || how.kind == Quantization::WeightOnly) {
    Type storage = random.percent(20) ? builder.getI8Type() : how.storage;
    Value stored = value(RankedTensorType::get({outputs, inputs}, storage));
    Value weight = create<DequantizeOp>(type(stored, input.getElementType()),
                                        stored, channelScale, weightScale);
    return create<LinearOp>(result, x, weight, bias, Value(), Value(),
                            FloatAttr(), FloatAttr(), getPlace(bias));
  }
  Type storage = input.getElementType();
  if (!scheduled && !storage.isInteger(8) && random.percent(20))
    storage = random.oneOf<Type>({Float8E4M3FNType::get(builder.getContext()),
                                  Float8E5M2Type::get(builder.getContext())});
  Value weight = value(RankedTensorType::get({outputs, inputs}, storage));
  auto dynamic = x.getDefiningOp<DynamicQuantizeOp>();
  return create<LinearOp>(result, x, weight, bias, channelScale,
                          dynamic ? dynamic.getScale() : Value(), inputScale,
                          weightScale, getPlace(bias));
}

Value FunctionGenerator::activation(Value x) {
  auto kind = random.oneOf({Activation::SiLU, Activation::GELU,
                            Activation::GELUTanh, Activation::ReLU,
                            Activation::ReLU2, Activation::QuickGELU});
  return create<ActivationOp>(
      resultType(x), ActivationAttr::get(builder.getContext(), kind), x);
}

Value FunctionGenerator::gatedMul(Value lhs, Value rhs) {
  if (random.percent(50))
    std::swap(lhs, rhs);
  return create<GatedMulOp>(resultType(lhs), lhs, rhs);
}

//===----------------------------------------------------------------------===//
// Chains
//===----------------------------------------------------------------------===//

/// `[residual_add] [norm]`
Value FunctionGenerator::head(Value x) {
  if (random.percent(40))
    x = residualAdd(x, value(x.getType()));
  return random.percent(70) ? norm(x) : x;
}

static Quantization getQuantization(Random &random, Builder &builder) {
  Quantization how;
  how.kind = random.oneOf({Quantization::None, Quantization::None,
                           Quantization::Scaled, Quantization::QDQ,
                           Quantization::WeightOnly, Quantization::Dynamic});
  how.storage = random.oneOf<Type>({Float8E4M3FNType::get(builder.getContext()),
                                    Float8E5M2Type::get(builder.getContext()),
                                    builder.getI8Type()});
  how.order = random.oneOf({QuantOrder::Reciprocal, QuantOrder::Divide});
  how.biasPlace =
      random.percent(25) ? BiasPlace::AfterRounding : BiasPlace::BeforeRounding;
  return how;
}

int64_t FunctionGenerator::width(std::initializer_list<int64_t> any) {
  if (boundary)
    return boundary->width;
  // Kernels of two parts want hidden layers that fill their tiles.
  if (drawn)
    return random.oneOf<int64_t>({64, 128, 144, 256, 256, 384, 512, 512});
  if (scheduled)
    return random.oneOf<int64_t>({16, 48, 64, 128, 144, 256, 400, 528});
  return random.oneOf<int64_t>(any);
}

Quantization FunctionGenerator::quantization() {
  if (boundary)
    return boundary->how;
  if (!scheduled)
    return getQuantization(random, builder);
  Quantization how;
  how.kind = random.oneOf({Quantization::None, Quantization::Scaled});
  how.storage = Float8E4M3FNType::get(builder.getContext());
  how.order = random.oneOf({QuantOrder::Reciprocal, QuantOrder::Divide});
  return how;
}

void FunctionGenerator::mlp() {
  Quantization how = quantization();
  Value start = stream(), x = head(start);
  // Either sum may come back at the end.
  Value sum = x.getDefiningOp() ? x.getDefiningOp()->getOperand(0) : start;
  FloatAttr inputScale, hiddenScale;
  Value input = quantizedInput(x, how, inputScale);
  int64_t width = this->width({1, 3, 32, 65});
  bool gated = random.percent(60), upFirst = random.percent(30);
  Value up;
  if (gated && upFirst)
    up = linear(input, width, how, inputScale);
  Value hidden = activation(linear(input, width, how, inputScale));
  if (gated && !upFirst)
    up = linear(random.percent(damage) ? quantizedInput(x, how, inputScale)
                                       : input,
                width, how, inputScale);
  if (gated)
    hidden = gatedMul(hidden, up);
  Quantization inner =
      random.percent(damage) ? getQuantization(random, builder) : how;
  Value down = quantizedInput(hidden, inner, hiddenScale);
  int64_t outputs = scheduled || boundary || random.percent(80) ? features : 7;
  Value y = linear(down, outputs, inner, hiddenScale);
  if (!random.percent(50))
    return;
  auto sumType = cast<RankedTensorType>(sum.getType());
  bool fits =
      sumType.getElementType() == element &&
      sumType.getShape() == cast<RankedTensorType>(y.getType()).getShape();
  residualAdd(fits && random.percent(70) ? sum : value(y.getType()), y);
}

void FunctionGenerator::normLinear() {
  Quantization how = quantization();
  Value x = stream();
  if (random.percent(40))
    x = residualAdd(x, value(x.getType()));
  FloatAttr inputScale;
  Value input = quantizedInput(norm(x), how, inputScale);
  for (unsigned i = random.below(4) + 1; i > 0; --i)
    linear(input, width({1, 16, 33}), how, inputScale);
}

void FunctionGenerator::normQuantize() {
  Quantization how = quantization();
  Value x = stream();
  if (random.percent(40))
    x = residualAdd(x, value(x.getType()));
  quantize(norm(x), how, scale());
}

void FunctionGenerator::actQuantize() {
  Quantization how = quantization();
  Value x = activation(stream());
  if (random.percent(60))
    x = gatedMul(x, value(x.getType()));
  quantize(x, how, scale());
}

void FunctionGenerator::chain() {
  size_t first = values.size();
  // Rows have one schedule alone.
  unsigned family = boundary ? boundary->family : random.below(6);
  if (drawn && (family == 1 || family == 2))
    family = random.below(6);
  switch (family) {
  case 0:
    normLinear();
    break;
  case 1:
    normQuantize();
    break;
  case 2:
    actQuantize();
    break;
  default:
    mlp();
    break;
  }
  SmallVector<Value> made(values.begin() + first, values.end());
  for (Value value : made)
    if (random.percent(damage))
      secondUser(value);
}

//===----------------------------------------------------------------------===//
// Surroundings
//===----------------------------------------------------------------------===//

/// Heads are the dimension before the last leading one, so that dynamic sizes
/// of `x` are those of the tables.
void FunctionGenerator::rotary() {
  unsigned heads = leading.size() - 2;
  SmallVector<int64_t> shape = leading;
  shape.erase(shape.begin() + heads);
  shape.push_back(2 * (random.below(features / 2) + 1));
  Type tableElement = random.percent(30) ? floatType() : element;
  auto table = RankedTensorType::get(shape, tableElement);
  Value x = stream(), cos = value(table);
  create<RotaryOp>(resultType(x), x, cos, value(table),
                   builder.getI64IntegerAttr(heads));
}

/// Logits are a stream, or made of one by a head.
void FunctionGenerator::crossEntropy() {
  if (leading.empty())
    return;
  Value logits = stream();
  if (random.percent(50))
    logits = linear(logits, random.oneOf<int64_t>({1, 17, 40}), {}, {});
  auto type = cast<RankedTensorType>(logits.getType());
  Type index = random.percent(70) ? builder.getI64Type() : builder.getI32Type();
  Value labels =
      value(RankedTensorType::get(type.getShape().drop_back(), index));
  bool isMean = random.percent(50);
  Value items;
  if (!isMean && random.percent(60))
    items = value(RankedTensorType::get({}, index));
  bool causal = random.percent(40);
  create<CrossEntropyOp>(
      RankedTensorType::get({}, builder.getF32Type()), logits, labels, items,
      LossReductionAttr::get(builder.getContext(),
                             isMean ? LossReduction::Mean : LossReduction::Sum),
      causal ? builder.getUnitAttr() : UnitAttr(),
      builder.getI64IntegerAttr(random.percent(60) ? -100 : 0));
}

void FunctionGenerator::experts() {
  int64_t rows = leading.size() == 1 ? leading[0] : ShapedType::kDynamic;
  auto matrix = RankedTensorType::get({rows, features}, element);
  int64_t count = random.oneOf<int64_t>({1, 2, 5}),
          places = 1 + random.below(3);
  int64_t hidden = random.oneOf<int64_t>({1, 16, 33});
  Type index = random.percent(70) ? builder.getI64Type() : builder.getI32Type();
  Type factor = random.percent(50) ? element : floatType();
  auto kind = random.oneOf({Activation::SiLU, Activation::GELU,
                            Activation::GELUTanh, Activation::ReLU});
  Value x = value(matrix);
  Value routed = value(RankedTensorType::get({rows, places}, index));
  Value weights = value(RankedTensorType::get({rows, places}, factor));
  Value gateUp =
      value(RankedTensorType::get({count, 2 * hidden, features}, element));
  Value down = value(RankedTensorType::get({count, features, hidden}, element));
  create<MoEExpertsOp>(matrix, x, routed, weights, gateUp, down,
                       ActivationAttr::get(builder.getContext(), kind));
}

/// A stream in another type, which a chain may begin with.
void FunctionGenerator::castStream() {
  Value x = stream();
  unsigned width = element.getIntOrFloatBitWidth();
  if (width == 32)
    create<arith::TruncFOp>(type(x, random.percent(50) ? builder.getBF16Type()
                                                       : builder.getF16Type()),
                            x);
  else
    create<arith::ExtFOp>(type(x, builder.getF32Type()), x);
}

/// A linear whose weight is stored the other way round.
void FunctionGenerator::transposed() {
  int64_t outputs = random.oneOf<int64_t>({1, 16, 33});
  Value stored = value(RankedTensorType::get({features, outputs}, element));
  Value empty =
      create<tensor::EmptyOp>(ArrayRef<int64_t>{outputs, features}, element);
  // Nothing else is to read what is in there.
  values.pop_back();
  Value weight =
      create<linalg::TransposeOp>(stored, empty, ArrayRef<int64_t>{1, 0});
  Value x = stream();
  SmallVector<int64_t> shape = leading;
  shape.push_back(outputs);
  auto place =
      BiasPlaceAttr::get(builder.getContext(), BiasPlace::BeforeRounding);
  create<LinearOp>(RankedTensorType::get(shape, element), x, weight, Value(),
                   Value(), Value(), FloatAttr(), FloatAttr(), place);
}

/// An op that belongs to no chain.
void FunctionGenerator::unrelated() {
  if (functions) {
    switch (random.below(4)) {
    case 0:
      return crossEntropy();
    case 1:
      return experts();
    case 2:
      return castStream();
    default:
      return transposed();
    }
  }
  if (runs && leading.size() > 1 && features > 1 && random.percent(40)) {
    rotary();
    return;
  }
  switch (random.below(3)) {
  case 0:
    create<arith::NegFOp>(stream());
    break;
  case 1:
    create<arith::ConstantOp>(builder.getF32FloatAttr(1.0));
    break;
  default:
    activation(stream());
    break;
  }
}

/// An op on the stream that the scheduled path has no kernel for.
void FunctionGenerator::between() {
  Value x = stream();
  if (random.percent(50))
    activation(x);
  else
    create<arith::NegFOp>(x);
}

/// A user of a value outside of its chain, in the block or in a region of it.
void FunctionGenerator::secondUser(Value value) {
  auto use = [&] {
    auto tensor = cast<ShapedType>(value.getType());
    if (tensor.getElementType().isF32() || tensor.getElementType().isBF16())
      arith::NegFOp::create(builder, loc(), value);
    else
      arith::SelectOp::create(
          builder, loc(),
          arith::ConstantOp::create(builder, loc(), builder.getBoolAttr(true)),
          value, value);
  };
  if (random.percent(70))
    return use();
  auto region = scf::ExecuteRegionOp::create(builder, loc(), TypeRange());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&region.getRegion());
  use();
  scf::YieldOp::create(builder, loc());
}

/// Whether `second`, which follows `first`, needs it.
static bool dependsOn(Operation *second, Operation *first) {
  bool depends = false;
  second->walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      depends |= operand.getDefiningOp() == first;
  });
  return depends;
}

/// Lets independent neighbours change places.
void FunctionGenerator::shuffle(Block *block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block->without_terminator())
    ops.push_back(&op);
  if (ops.size() < 2)
    return;
  for (unsigned i = random.oneOf<size_t>({0, 3, 20, ops.size() * ops.size()});
       i > 0; --i) {
    unsigned at = random.below(ops.size() - 1);
    if (dependsOn(ops[at + 1], ops[at]))
      continue;
    ops[at + 1]->moveBefore(ops[at]);
    std::swap(ops[at], ops[at + 1]);
  }
}

void FunctionGenerator::generate() {
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  bool isOne = (scheduled && !mixed) || boundary;
  for (unsigned i = isOne ? 1 : random.below(4) + 1; i > 0; --i) {
    if (scheduled || boundary) {
      if (mixed && (i == 1 || random.percent(50)))
        between();
      chain();
      continue;
    }
    if (random.percent(functions ? 90 : 40))
      unrelated();
    // Most of them with nothing else to run.
    if (functions && random.percent(60))
      continue;
    if (!random.percent(10)) {
      chain();
      continue;
    }
    // A chain in a region of its own. Values inside are not seen outside.
    auto region = scf::ExecuteRegionOp::create(builder, loc(), TypeRange());
    Block *body = builder.createBlock(&region.getRegion());
    SmallVector<Value> outside = values;
    unsigned numArguments = entry->getNumArguments();
    chain();
    scf::YieldOp::create(builder, loc());
    shuffle(body);
    values = outside;
    llvm::append_range(values, entry->getArguments().drop_front(numArguments));
    builder.setInsertionPointToEnd(entry);
  }
  SmallVector<Value> results;
  for (Value value : values)
    if (value.getDefiningOp() && value.use_empty() &&
        (isOne || random.percent(80)) &&
        (!runs || isa<RankedTensorType>(value.getType())))
      results.push_back(value);
  func::ReturnOp::create(builder, loc(), results);
  shuffle(entry);
  function.setType(builder.getFunctionType(entry->getArgumentTypes(),
                                           ValueRange(results).getTypes()));
}

StringRef fuse::getName(Stratum stratum) {
  switch (stratum) {
  case Stratum::Any:
    return "any";
  case Stratum::Runnable:
    return "runnable";
  case Stratum::Functions:
    return "functions";
  case Stratum::Models:
    return "models";
  case Stratum::Slots:
    return "slots";
  case Stratum::Scheduled:
    return "scheduled";
  case Stratum::Schedules:
    return "schedules";
  case Stratum::Boundary:
    return "boundary";
  case Stratum::Mixed:
    return "mixed";
  }
  llvm_unreachable("unknown stratum");
}

OwningOpRef<ModuleOp> fuse::generateModule(MLIRContext *context, uint64_t seed,
                                           Stratum stratum) {
  Random random(seed);
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context));
  bool isOne = stratum == Stratum::Scheduled || stratum == Stratum::Schedules ||
               stratum == Stratum::Mixed || stratum == Stratum::Boundary;
  unsigned count = isOne ? 1 : random.below(3) + 1;
  for (unsigned i = 0; i < count; ++i)
    FunctionGenerator(random, *module, i, stratum, seed).generate();
  return module;
}
