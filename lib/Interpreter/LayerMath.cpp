//===- LayerMath.cpp - Layers by their contracts --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Interpreter/LayerMath.h"

using namespace mlir;
using namespace fuse;

/// Relative error of function approximations.
static constexpr double kFunction = 16 * kUnit;

Interval Rounding::operator()(Interval value) const {
  Interval rounded = roundTo(value, type);
  return isOptional ? rounded.hull(value) : rounded;
}

/// Applies a function to the index of each value.
static Tensor map(const Tensor &x,
                  llvm::function_ref<Interval(int64_t)> element) {
  Tensor result;
  result.shape = x.shape;
  result.values.reserve(x.values.size());
  for (int64_t i = 0, end = x.values.size(); i < end; ++i)
    result.values.push_back(element(i));
  return result;
}

Tensor Rounding::operator()(const Tensor &tensor) const {
  return map(tensor, [&](int64_t i) { return (*this)(tensor[i]); });
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// `value` widened by `units` f32 roundings of its magnitude.
static Interval withUnits(Interval value, double units) {
  return value.widen(units * kUnit * value.getMagnitude() + 0x1p-149);
}

/// A product of f32 numbers in any order, with each product rounded.
static Interval product(std::initializer_list<Interval> factors) {
  Interval result = *factors.begin();
  bool isExact = true;
  for (const Interval *factor = factors.begin() + 1; factor != factors.end();
       ++factor) {
    Interval next = mul(result, *factor);
    isExact &= next.isPoint() && !next.isFinite();
    result = next;
  }
  // A single rounding is the same in any order.
  if (factors.size() == 2 || isExact)
    return result;
  return withUnits(result, 2.0 * double(factors.size()));
}

/// `1 / sqrt(sum / count + eps)` of a nonnegative sum.
static Interval reciprocalRoot(Interval sum, int64_t count, double eps) {
  if (sum.isAnything || sum.isNaN())
    return sum;
  sum.lo = std::max(sum.lo, 0.0);
  Interval mean = withUnits(Interval(sum.lo / count, sum.hi / count), 2.0);
  if (sum.hi == 0.0)
    mean = 0.0;
  mean.lo = std::max(mean.lo, 0.0);
  Interval base = withUnits(add(mean, f32(eps)), 1.0);
  if (mean.isPoint())
    base = add(mean, f32(eps));
  base.lo = std::max(base.lo, 0.0);
  Interval root(1.0 / std::sqrt(base.hi), 1.0 / std::sqrt(base.lo));
  return f32(root.widen(kFunction * root.getMagnitude()));
}

static Interval normalizeRMS(Interval x, Interval root, int64_t feature,
                             const NormParts &parts) {
  if (!parts.weight)
    return mul(x, root);
  Interval weight = (*parts.weight)[feature];
  if (parts.cast == NormCast::BeforeWeight) {
    if (parts.offset)
      weight = roundTo(add(weight, double(parts.offset)), parts.weightType);
    return mul(roundTo(mul(x, root), parts.inputType), weight);
  }
  if (parts.offset)
    weight = add(weight, double(parts.offset));
  return product({x, root, weight});
}

static Interval normalizeLayer(Interval centered, Interval root,
                               int64_t feature, const NormParts &parts) {
  Interval value = parts.weight
                       ? product({centered, root, (*parts.weight)[feature]})
                       : mul(centered, root);
  if (!parts.bias)
    return value;
  // The last product and the sum may be contracted to an FMA.
  return withUnits(add(withUnits(value, 1.0), (*parts.bias)[feature]), 2.0);
}

Tensor fuse::normalize(const Tensor &x, const NormParts &parts,
                       Rounding rounding) {
  Tensor result;
  result.shape = x.shape;
  int64_t size = x.getRowSize();
  for (int64_t row = 0; row < x.getNumRows(); ++row) {
    std::vector<Interval> centered(x.values.begin() + row * size,
                                   x.values.begin() + (row + 1) * size);
    if (parts.kind == NormKind::Layer) {
      Sum sum;
      for (Interval value : centered)
        sum.add(value);
      Interval mean = sum.get();
      if (mean.isFinite()) {
        bool isExact = mean.isPoint() && mean.lo == 0.0;
        mean = Interval(mean.lo / size, mean.hi / size);
        if (!isExact)
          mean = f32(withUnits(mean, 2.0));
      }
      for (Interval &value : centered)
        value =
            add(value, mean.isAnything ? mean : Interval(-mean.hi, -mean.lo));
    }
    Sum squares;
    for (Interval value : centered) {
      // A square is nonnegative, which interval multiplication does not know.
      if (value.isFinite() && !value.isPoint()) {
        double least = value.lo <= 0.0 && value.hi >= 0.0
                           ? 0.0
                           : std::min(std::fabs(value.lo), std::fabs(value.hi));
        squares.add(Interval(least * least,
                             value.getMagnitude() * value.getMagnitude()));
        continue;
      }
      squares.add(value, value);
    }
    Interval root = reciprocalRoot(squares.get(), size, parts.eps);
    for (auto [feature, value] : llvm::enumerate(centered))
      result.values.push_back(
          rounding(parts.kind == NormKind::RMS
                       ? normalizeRMS(value, root, feature, parts)
                       : normalizeLayer(value, root, feature, parts)));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Linear maps
//===----------------------------------------------------------------------===//

/// The sum of the products of a row and a channel over a range of inputs.
static Interval addProducts(const Tensor &x, const Tensor &weight, int64_t row,
                            int64_t channel, int64_t begin, int64_t end,
                            const LinearParts &parts) {
  int64_t inputs = weight.shape[1];
  Sum sum(parts.accumulator);
  for (int64_t k = begin; k < end; ++k)
    sum.add(x[row * inputs + k], weight[channel * inputs + k]);
  return parts.isInteger       ? sum.getInteger()
         : parts.mayRoundParts ? sum.getOfParts()
                               : sum.get();
}

/// The scale of input `k` of a row by the granularity of `quant`.
static Interval getInputScale(const LinearParts &parts, int64_t inputs,
                              int64_t row, int64_t k) {
  const Tensor &scales = *parts.dynamicScale;
  switch (parts.quant.getActivations()) {
  case ScaleScope::PerTensor:
    return scales[0];
  case ScaleScope::PerToken:
    return scales[row];
  case ScaleScope::PerGroup: {
    int64_t size = parts.quant.getGroupSize();
    return scales[row * (inputs / size) + k / size];
  }
  case ScaleScope::None:
    break;
  }
  llvm_unreachable("a linear with scales has a scope");
}

/// The scale of weight [channel, k] by the granularity of `quant`.
static Interval getWeightScale(const LinearParts &parts, int64_t inputs,
                               int64_t channel, int64_t k) {
  const Tensor &scales = *parts.channelScale;
  switch (parts.quant.getWeights()) {
  case ScaleGranularity::Tensor:
    return scales[0];
  case ScaleGranularity::Channel:
    return scales[channel];
  case ScaleGranularity::Block:
    return scales[channel / parts.quant.getBlockRows() * scales.getRowSize() +
                  k / parts.quant.getBlockColumns()];
  case ScaleGranularity::Group:
    break;
  }
  llvm_unreachable("a linear multiplies no packed codes");
}

/// `y = fma(s_x * s_w, sum of block, y)` for each block, ascending.
static Interval addBlocks(const Tensor &x, const Tensor &weight, int64_t row,
                          int64_t channel, const LinearParts &parts) {
  int64_t inputs = weight.shape[1], length = parts.quant.getSumLength();
  Interval y = 0.0;
  for (int64_t k = 0; k < inputs; k += length) {
    Interval alpha = mul(getInputScale(parts, inputs, row, k),
                         getWeightScale(parts, inputs, channel, k));
    y = mulAdd(alpha,
               addProducts(x, weight, row, channel, k,
                           std::min(k + length, inputs), parts),
               y);
  }
  return y;
}

Tensor fuse::multiplyWeights(const Tensor &x, const Tensor &weight,
                             const LinearParts &parts, Rounding rounding) {
  int64_t inputs = weight.shape[1], outputs = weight.shape[0];
  int64_t numRows = 1;
  for (int64_t size : llvm::ArrayRef(x.shape).drop_back())
    numRows *= size;
  Tensor result;
  result.shape = x.shape;
  result.shape.back() = outputs;
  bool isScaled = parts.inputScale || parts.dynamicScale;
  for (int64_t row = 0; row < numRows; ++row)
    for (int64_t channel = 0; channel < outputs; ++channel) {
      bool isWhole = !parts.quant || !parts.quant.hasBlockSums();
      Interval value =
          isWhole ? addProducts(x, weight, row, channel, 0, inputs, parts)
                  : addBlocks(x, weight, row, channel, parts);
      Interval alpha = 1.0;
      if (isScaled && !isWhole) {
        // Each block has been multiplied by its scales.
      } else if (isScaled && parts.quant) {
        alpha = mul(getInputScale(parts, inputs, row, 0),
                    getWeightScale(parts, inputs, channel, 0));
      } else if (isScaled) {
        Interval ofInput =
            parts.dynamicScale
                ? (*parts.dynamicScale)[parts.dynamicScale->values.size() == 1
                                            ? 0
                                            : row]
                : Interval(f32(*parts.inputScale));
        Interval ofWeight = parts.channelScale
                                ? (*parts.channelScale)[channel]
                                : Interval(f32(*parts.weightScale));
        alpha = mul(ofInput, ofWeight);
      }
      bool scales = isScaled && isWhole;
      if (!parts.bias) {
        value = scales ? mul(alpha, value) : value;
      } else if (parts.isBiasAfterRounding) {
        value = scales ? mul(alpha, value) : value;
        value = add(roundTo(value, rounding.type), (*parts.bias)[channel]);
      } else {
        Interval bias = (*parts.bias)[channel];
        value = scales ? mulAdd(alpha, value, bias) : add(value, bias);
      }
      result.values.push_back(rounding(value));
    }
  return result;
}

//===----------------------------------------------------------------------===//
// Elementwise layers
//===----------------------------------------------------------------------===//

static double swish(double x, double slope) {
  return x / (1.0 + std::exp(-slope * x));
}

static Interval activate(Activation kind, Interval x) {
  // Absolute error at which f32 loses a small result next to a large number.
  constexpr double tiny = 1e-36;
  double cancelled = 3e-7 * (x.isFinite() ? x.getMagnitude() : 0.0) + tiny;
  // Positions of the minima. They need not be exact, since the functions are
  // flat there.
  switch (kind) {
  case Activation::SiLU:
    return mapUnimodal(
        x, [](double v) { return swish(v, 1.0); }, -1.2784645, kFunction, tiny);
  case Activation::QuickGELU:
    return mapUnimodal(
        x, [](double v) { return swish(v, 1.702); }, -1.2784645 / 1.702,
        kFunction + 2e-7 * std::min(cancelled / 3e-7, 100.0), tiny);
  case Activation::GELU:
    return mapUnimodal(
        x, [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); },
        -0.7517915, kFunction, cancelled);
  case Activation::GELUTanh:
    return mapUnimodal(
        x,
        [](double v) {
          double inner = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
          return v / 2 * (1 + std::tanh(inner));
        },
        -0.7524614, kFunction, cancelled);
  case Activation::ReLU:
    return max(x, 0.0);
  case Activation::ReLU2: {
    Interval positive = max(x, 0.0);
    return mul(positive, positive);
  }
  }
  llvm_unreachable("unknown activation");
}

Tensor fuse::activate(Activation kind, const Tensor &x, Rounding rounding) {
  return map(x, [&](int64_t i) { return rounding(::activate(kind, x[i])); });
}

Tensor fuse::addTensors(const Tensor &lhs, const Tensor &rhs,
                        Rounding rounding) {
  return map(lhs, [&](int64_t i) { return rounding(add(lhs[i], rhs[i])); });
}

Tensor fuse::multiplyTensors(const Tensor &lhs, const Tensor &rhs,
                             Rounding rounding) {
  return map(lhs, [&](int64_t i) { return rounding(mul(lhs[i], rhs[i])); });
}

/// The scale of an element: a number, or one per index of dimension 0.
static Interval getScale(const Tensor &x, int64_t index,
                         std::optional<double> scale,
                         const Tensor *channelScale) {
  if (!channelScale)
    return f32(*scale);
  return (*channelScale)[index / (int64_t(x.values.size()) / x.shape.front())];
}

Tensor fuse::quantize(const Tensor &x, std::optional<double> scale,
                      const Tensor *channelScale, QuantOrder order, Type type) {
  return map(x, [&](int64_t i) {
    Interval divisor = getScale(x, i, scale, channelScale);
    return saturateTo(order == QuantOrder::Divide
                          ? div(x[i], divisor)
                          : mul(x[i], div(1.0, divisor)),
                      type);
  });
}

Tensor fuse::dequantize(const Tensor &q, std::optional<double> scale,
                        const Tensor *channelScale, Rounding rounding) {
  return map(q, [&](int64_t i) {
    return rounding(mul(getScale(q, i, scale, channelScale), q[i]));
  });
}

/// The real value of a code of 4 bits, without scales.
static double getCode(unsigned bits, Type type) {
  static constexpr double magnitudes[] = {0.0, 0.5, 1.0, 1.5,
                                          2.0, 3.0, 4.0, 6.0};
  if (isa<Float4E2M1FNType>(type))
    return std::copysign(magnitudes[bits % 8], bits < 8 ? 1.0 : -1.0);
  return type.isUnsignedInteger() || bits < 8 ? bits : bits - 16.0;
}

/// The low 8 bits of an integer.
static unsigned getByte(Interval value) { return int64_t(value.lo) & 0xFF; }

Tensor fuse::dequantizeWeight(const Tensor &q, ArrayRef<const Tensor *> scales,
                              QuantAttr quant, Rounding rounding) {
  Tensor result;
  result.shape = {q.shape[0], 2 * q.shape[1]};
  int64_t group = quant.getBlockColumns();
  for (int64_t i = 0, end = 2 * q.values.size(); i < end; ++i) {
    Interval bits = q[i / 2], scale = (*scales[0])[i / group];
    bool isExponent = isa<Float8E8M0FNUType>(quant.getScaleType());
    if (!bits.isPoint() || (isExponent && !scale.isPoint())) {
      result.values.push_back(Interval::anything());
      continue;
    }
    double code =
        getCode(getByte(bits) >> (i % 2 * 4) & 15, quant.getStorageType());
    if (isExponent) {
      unsigned byte = getByte(scale);
      scale = byte == 255 ? std::nan("") : std::ldexp(1.0, int(byte) - 127);
    }
    Interval value = code;
    if (quant.getHasGroupZeros())
      value = add(value, -(*scales[1])[i / group].lo);
    else if (quant.getZeroPoint())
      value = code - double(*quant.getZeroPoint());
    if (quant.getTensorScale() == TensorScale::Multiply)
      scale = mul(scale, (*scales.back())[0]);
    else if (quant.getTensorScale() == TensorScale::Divide)
      scale = div(scale, (*scales.back())[0]);
    result.values.push_back(rounding(mul(scale, value)));
  }
  return result;
}

static Interval getMagnitude(Interval value) {
  if (value.isAnything || value.isNaN())
    return value;
  bool hasZero = value.lo <= 0.0 && value.hi >= 0.0;
  double least = std::min(std::fabs(value.lo), std::fabs(value.hi));
  return Interval(hasZero ? 0.0 : least, value.getMagnitude());
}

/// The scale for the largest magnitude of the values that share it.
static Interval getDynamicScale(Interval largest, QuantAttr quant, Type type) {
  double code = getLargest(type);
  if (!quant)
    return max(div(largest, code), 0x1p-64);
  double floor = quant.getFloor().getValueAsDouble();
  if (quant.getFloorKind() == ScaleFloor::AMax)
    largest = max(largest, f32(floor));
  if (FloatAttr upper = quant.getUpper())
    largest = min(largest, f32(upper.getValueAsDouble()));
  Interval scale = quant.getScaleOp() == QuantOrder::Divide
                       ? div(largest, code)
                       : mul(largest, f32(1.0 / code));
  return quant.getFloorKind() == ScaleFloor::Scale ? max(scale, f32(floor))
                                                   : scale;
}

std::pair<Tensor, Tensor> fuse::quantizeDynamically(const Tensor &x,
                                                    ScaleScope scope,
                                                    QuantAttr quant,
                                                    Type type) {
  int64_t size = 0;
  Tensor scales;
  scales.shape.assign(x.shape.begin(), x.shape.end() - 1);
  switch (scope) {
  case ScaleScope::PerToken:
    size = x.getRowSize();
    break;
  case ScaleScope::PerTensor:
    size = x.values.size();
    scales.shape.assign({1});
    break;
  case ScaleScope::PerGroup:
    size = quant.getGroupSize();
    scales.shape.push_back(x.getRowSize() / size);
    break;
  case ScaleScope::None:
    llvm_unreachable("a dynamic quantize op has a scope");
  }
  int64_t numScales = 1;
  for (int64_t extent : scales.shape)
    numScales *= extent;
  for (int64_t part = 0; part < numScales; ++part) {
    Interval largest = 0.0;
    for (int64_t i = part * size; i < (part + 1) * size; ++i)
      largest = max(largest, getMagnitude(x[i]));
    scales.values.push_back(getDynamicScale(largest, quant, type));
  }
  bool divides = quant && quant.getOrder() == QuantOrder::Divide;
  Tensor q = map(x, [&](int64_t i) {
    Interval scale = scales[i / size];
    return saturateTo(divides ? div(x[i], scale) : mul(x[i], div(1.0, scale)),
                      type);
  });
  return {q, scales};
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

Tensor fuse::rotate(const Tensor &x, const Tensor &cos, const Tensor &sin,
                    int64_t heads, Type productType, Rounding rounding) {
  int64_t size = x.getRowSize(), turned = cos.getRowSize();
  return map(x, [&](int64_t i) -> Interval {
    int64_t feature = i % size;
    if (feature >= turned)
      return rounding(x[i]);
    // Position without the dimension of heads. Dimensions of size 1 are
    // broadcast.
    llvm::SmallVector<int64_t> place(x.shape.size());
    int64_t rest = i;
    for (int64_t dim = x.shape.size() - 1; dim >= 0; --dim) {
      place[dim] = rest % x.shape[dim];
      rest /= x.shape[dim];
    }
    place.erase(place.begin() + heads);
    auto at = [&](const Tensor &table) {
      int64_t index = 0;
      for (auto [position, extent] : llvm::zip_equal(place, table.shape))
        index = index * extent + (extent == 1 ? 0 : position);
      return table[index];
    };
    bool isFirst = feature < turned / 2;
    Interval other = x[isFirst ? i + turned / 2 : i - turned / 2];
    Interval straight = roundTo(mul(x[i], at(cos)), productType);
    Interval crossed = roundTo(mul(other, at(sin)), productType);
    auto negate = [](Interval value) {
      return value.isAnything ? value : Interval(-value.hi, -value.lo);
    };
    if (isFirst)
      crossed = negate(crossed);
    Interval sum = add(straight, crossed);
    // Products in f32 and their sum may be contracted to an FMA.
    if (productType.isF32())
      sum =
          sum.hull(mulAdd(x[i], at(cos), crossed))
              .hull(mulAdd(isFirst ? negate(other) : other, at(sin), straight));
    return rounding(sum);
  });
}
