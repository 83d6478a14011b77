//===- GemmEpilogue.cpp - Emitter of what goes with products --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GemmEpilogue.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void ProductBuilder::addTokenMap(Value &slot, int64_t offset, int64_t tokens,
                                 int64_t columns, int64_t boxTokens) {
  addArgument(slot, TensorMapType::get(builder.getContext()),
              TokenMapAttr::get(builder.getContext(), offset, tokens, columns,
                                element, boxTokens,
                                128 / problem.getElementBytes(),
                                /*swizzle=*/128));
}

void ProductBuilder::addPacked(Value &slot, StringRef recipe,
                               ArrayRef<Value> sources, int64_t tiles,
                               int64_t steps) {
  SmallVector<int64_t> indices;
  for (Value source : sources)
    indices.push_back(indexOf(source));
  addArgument(slot, bufferOf(builder.getI8Type()),
              PackedAttr::get(builder.getContext(), recipe, indices, tiles,
                              steps, tiles * steps * kWeightStage,
                              /*views=*/ArrayAttr()));
}

void ProductBuilder::addGemm1Weights(Value &slot, int64_t tiles,
                                     int64_t steps) {
  if (problem.isGated())
    addPacked(slot, "gate_up_256", {problem.gate, problem.up}, tiles, steps);
  else
    addPacked(slot, "rows_256", {problem.up}, tiles, steps);
}

void ProductBuilder::addGemm2Weights(Value &slot, int64_t tiles,
                                     int64_t steps) {
  Values sources;
  for (const DecodeOutput &output : problem.outputs)
    sources.push_back(output.weight);
  addPacked(slot, "rows_256", sources, tiles, steps);
}

void ProductBuilder::addHiddenBiases() {
  addOperand(gateBias, problem.gateBias);
  addOperand(upBias, problem.upBias);
}

void ProductBuilder::addOutputOperands() {
  for (auto [slot, output] : llvm::zip_equal(biases, problem.outputs))
    addOperand(slot, output.bias);
  addOperand(outputResidual, problem.outputResidual);
  for (auto [index, slot] : llvm::enumerate(outputs))
    addResult(slot, index);
}

void ProductBuilder::addWeightScales() {
  addOperand(gateScales, problem.gateScales);
  addOperand(upScales, problem.upScales);
  for (auto [slot, output] : llvm::zip_equal(outputScales, problem.outputs))
    addOperand(slot, output.weightScales);
}

void ProductBuilder::addHiddenScalars() {
  if (!problem.scales || !problem.hasGemm1())
    return;
  if (problem.isGated())
    addProduct(alphaGate, "gate",
               {getScale(ScaleKind::Input), getScale(ScaleKind::Gate)});
  addProduct(alphaUp, "up",
             {getScale(ScaleKind::Input), getScale(ScaleKind::Up)});
  addQuantizer(hiddenScale, ScaleKind::Hidden, problem.scales);
}

void ProductBuilder::addOutputScalars() {
  if (!problem.scales)
    return;
  float read =
      getScale(problem.hasGemm1() ? ScaleKind::Hidden : ScaleKind::Input);
  for (auto [slot, output] : llvm::zip_equal(alphas, problem.outputs))
    addProduct(slot, output.scale.toText(), {read, getScale(output.scale)});
}

void ProductBuilder::addScalars() {
  if (problem.scales)
    addQuantizer(inputScale, ScaleKind::Input, problem.scales);
  addHiddenScalars();
  addOutputScalars();
}

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

ProductBuilder::Values ProductBuilder::finish(ArrayRef<Value> sums, Value alpha,
                                              ArrayRef<Value> bias) {
  Values values = llvm::to_vector(sums);
  if (alpha)
    values = each(values, [&](Value x) { return fmul(x, alpha); });
  if (!bias.empty())
    values = addEach(values, bias);
  return values;
}

ProductBuilder::Values ProductBuilder::loadBias(Value buffer, Value row,
                                                int64_t count) {
  Values bias;
  if (!buffer)
    return bias;
  // Eight values are what one access takes.
  for (int64_t first = 0; first < count; first += 8) {
    auto type = VectorType::get(std::min<int64_t>(count, 8), narrowType);
    bias.append(unpack(load(type, buffer, add(row, first))));
  }
  return bias;
}

SmallVector<int64_t> ProductBuilder::getPlaces(int64_t half, int64_t first,
                                               int64_t second) {
  SmallVector<int64_t> places;
  for (int64_t lr : {0, 1})
    for (int64_t column : {first, second})
      for (int64_t row : {0, 1})
        places.push_back(4 * (column + row) + 2 * half + lr);
  return places;
}

Rounded Rounded::slice(size_t first, size_t size) const {
  auto take = [](const Values &values, size_t first, size_t size) {
    return values.empty() ? Values()
                          : Values(ArrayRef(values).slice(first, size));
  };
  return {take(gate, first, size), take(up, first, size),
          take(gatePairs, first / 2, size / 2),
          take(upPairs, first / 2, size / 2)};
}

Rounded::Values Rounded::getPairs() const {
  Values pairs = gatePairs;
  llvm::append_range(pairs, upPairs);
  return pairs;
}

Rounded Rounded::fromPairs(ValueRange pairs, bool isGated) {
  size_t gates = isGated ? pairs.size() / 2 : 0;
  Rounded values;
  values.gatePairs = llvm::to_vector(pairs.take_front(gates));
  values.upPairs = llvm::to_vector(pairs.drop_front(gates));
  return values;
}

Rounded ProductBuilder::roundHidden(ArrayRef<Value> gate, ArrayRef<Value> up,
                                    ArrayRef<Value> biasGate,
                                    ArrayRef<Value> biasUp) {
  Rounded rounded;
  auto add = [&](RoundingPoint point, ArrayRef<Value> values, Values &wide,
                 Values &pairs) {
    // A single value makes no pair.
    if (!problem.roundsAt(point) || values.size() % 2 != 0) {
      wide = round(point, values);
      return;
    }
    for (size_t index = 0; index < values.size(); index += 2)
      pairs.push_back(pack(narrowType, values.slice(index, 2)));
  };
  if (problem.isGated())
    add(RoundingPoint::Gate, finish(gate, alphaGate, biasGate), rounded.gate,
        rounded.gatePairs);
  add(RoundingPoint::Up, finish(up, alphaUp, biasUp), rounded.up,
      rounded.upPairs);
  return rounded;
}

ProductBuilder::Values ProductBuilder::activateAll(const Rounded &values) {
  auto widen = [&](const Values &wide, const Values &pairs) {
    Values result = wide;
    for (Value pair : pairs)
      result.append(unpack(pair));
    return result;
  };
  auto activateEach = [&](ArrayRef<Value> inputs) {
    return each(inputs,
                [&](Value v) { return activate(problem.activation, v); });
  };
  if (!problem.isGated())
    return round(RoundingPoint::Act,
                 activateEach(widen(values.up, values.upPairs)));
  Values act = activateEach(widen(values.gate, values.gatePairs));
  if (values.upPairs.empty() || !problem.roundsAt(RoundingPoint::Act) ||
      !problem.roundsAt(RoundingPoint::Product)) {
    act = round(RoundingPoint::Act, act);
    Values up = widen(values.up, values.upPairs);
    return round(RoundingPoint::Product, mulEach(act, up));
  }
  // A product of two bf16 that is rounded to bf16 is one instruction for two.
  Values products;
  for (auto [index, up] : llvm::enumerate(values.upPairs)) {
    Value pair = pack(narrowType, ValueRange(act).slice(2 * index, 2));
    products.append(unpack(arith::MulFOp::create(builder, loc, pair, up)));
  }
  return products;
}

void ProductBuilder::storeOutputs(size_t index, Value token, Value row,
                                  ArrayRef<Value> sums) {
  auto narrow = VectorType::get(static_cast<int64_t>(sums.size()), narrowType);
  Value at = add(mul(token, problem.outputs[index].rows), row);
  Values other, bias;
  if (problem.addStream) {
    Value streamAt = add(mul(token, problem.width), row);
    other = unpack(load(narrow, x, streamAt));
    if (residual)
      other = round(RoundingPoint::Stream,
                    addEach(other, unpack(load(narrow, residual, streamAt))));
  } else if (outputResidual) {
    other = unpack(load(narrow, outputResidual, at));
  }
  if (biases[index])
    bias = unpack(load(narrow, biases[index], row));
  Values values = finish(sums, alphas[index], bias);
  if (!other.empty())
    values = addEach(other, round(RoundingPoint::Down, values));
  bool isPartial = problem.isPartial(index);
  // A thread stores at most 16 bytes at a time.
  size_t most = isPartial ? 4 : values.size();
  for (size_t first = 0; first < values.size(); first += most) {
    ValueRange some =
        ValueRange(values).slice(first, std::min(most, values.size() - first));
    store(pack(isPartial ? f32 : narrowType, some), outputs[index],
          add(at, first));
  }
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

SpecializeOp ProductBuilder::makeRoles() {
  return SpecializeOp::create(
      builder, loc, builder.getStrArrayAttr({"stream", "multiply"}),
      builder.getDenseI64ArrayAttr({kCopyWarps, kMathWarps}),
      builder.getDenseI64ArrayAttr({40, 232}), 2);
}
