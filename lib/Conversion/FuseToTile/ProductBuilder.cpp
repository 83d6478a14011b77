//===- ProductBuilder.cpp - Emitter of what goes with products ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProductBuilder.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void ProductBuilder::addPacked(Value &slot, StringRef recipe,
                               ArrayRef<Value> sources, int64_t tiles,
                               int64_t steps) {
  SmallVector<Attribute> indices;
  for (Value source : sources)
    indices.push_back(b.getI64IntegerAttr(indexOf(source)));
  addArgument(slot, bufferOf(b.getI8Type()),
              {kind("packed"), entry("recipe", b.getStringAttr(recipe)),
               entry("operands", b.getArrayAttr(indices)),
               entry("tiles", tiles), entry("steps", steps),
               entry("bytes", tiles * steps * kWeightStage)});
}

void ProductBuilder::addFirstWeights(Value &slot, int64_t tiles,
                                     int64_t steps) {
  if (p.isGated())
    addPacked(slot, "gate_up_256", {p.gate, p.up}, tiles, steps);
  else
    addPacked(slot, "rows_256", {p.up}, tiles, steps);
}

void ProductBuilder::addLastWeights(Value &slot, int64_t tiles, int64_t steps) {
  Values sources;
  for (const DecodeOutput &output : p.outputs)
    sources.push_back(output.weight);
  addPacked(slot, "rows_256", sources, tiles, steps);
}

void ProductBuilder::addHiddenBiases() {
  addOperand(gateBias, p.gateBias);
  addOperand(upBias, p.upBias);
}

void ProductBuilder::addOutputOperands() {
  for (auto [slot, output] : llvm::zip_equal(biases, p.outputs))
    addOperand(slot, output.bias);
  addOperand(outputResidual, p.outputResidual);
  for (auto [index, slot] : llvm::enumerate(outputs))
    addResult(slot, index);
}

void ProductBuilder::addScalars() {
  if (!p.isF8())
    return;
  auto get = [&](StringRef name) {
    return p.scales.getScale(name).value_or(1);
  };
  addQuantizer(inputScale, "input", p.scales);
  if (p.isGated())
    addScalar(alphaGate, "gate", get("input") * get("gate"));
  if (p.hasFirst()) {
    addScalar(alphaUp, "up", get("input") * get("up"));
    addQuantizer(hiddenScale, "hidden", p.scales);
  }
  float read = get(p.hasFirst() ? "hidden" : "input");
  for (auto [slot, output] : llvm::zip_equal(alphas, p.outputs))
    addScalar(slot, output.scale, read * get(output.scale));
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
    auto type = VectorType::get(std::min<int64_t>(count, 8), bf16);
    bias.append(unpack(load(type, buffer, add(row, first))));
  }
  return bias;
}

Value ProductBuilder::activateHidden(ArrayRef<Value> gate, ArrayRef<Value> up,
                                     ArrayRef<Value> biasGate,
                                     ArrayRef<Value> biasUp) {
  auto activateAll = [&](ArrayRef<Value> inputs) {
    return round("act", each(inputs, [&](Value v) {
                   return activate(p.activation, v);
                 }));
  };
  Values values;
  if (p.isGated()) {
    Values g = round("gate", finish(gate, alphaGate, biasGate));
    Values u = round("up", finish(up, alphaUp, biasUp));
    values = round("product", mulEach(activateAll(g), u));
  } else {
    values = activateAll(round("up", finish(up, alphaUp, biasUp)));
  }
  return quantize(values, hiddenScale);
}

void ProductBuilder::storeOutputs(size_t index, Value token, Value row,
                                  ArrayRef<Value> sums) {
  auto narrow = VectorType::get(static_cast<int64_t>(sums.size()), bf16);
  Value at = add(mul(token, p.outputs[index].rows), row);
  Values other, bias;
  if (p.addStream) {
    Value streamAt = add(mul(token, p.width), row);
    other = unpack(load(narrow, x, streamAt));
    if (residual)
      other = round("stream",
                    addEach(other, unpack(load(narrow, residual, streamAt))));
  } else if (outputResidual) {
    other = unpack(load(narrow, outputResidual, at));
  }
  if (biases[index])
    bias = unpack(load(narrow, biases[index], row));
  Values values = finish(sums, alphas[index], bias);
  if (!other.empty())
    values = addEach(other, round("down", values));
  store(pack(bf16, values), outputs[index], at);
}
