//===- Rows.cpp - Norms on a CPU ------------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Codegen/CPU/KernelBuilder.h"
#include "fuse/Codegen/ElementMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fuse;

/// Number of tokens in a task: enough to outweigh the cost of distributing it.
static constexpr int64_t kTokensPerTask = 4;

CPUKernelBuilder::Values CPUKernelBuilder::forColumns(int64_t width,
                                                      ValueRange carried,
                                                      ColumnBody body) {
  int64_t whole = width - width % vectors.lanes;
  Values values(carried);
  if (whole > 0)
    values = loop(c(0), c(whole), vectors.lanes, values,
                  [&](Value column, ValueRange carried) {
                    return body(column, Value(), carried);
                  });
  if (whole != width)
    values = body(c(whole), maskBelow(c(width - whole)), values);
  return values;
}

void CPUKernelBuilder::buildRowTasks(StringRef suffix,
                                     function_ref<void(Value row)> body) {
  begin(suffix, /*panels=*/1, kTokensPerTask);
  Value first = times(firstTask, kTokensPerTask);
  Value last =
      arith::MinSIOp::create(b, times(lastTask, kTokensPerTask), numTokens);
  loop(first, last, 1, body);
  end();
}

void CPUKernelBuilder::buildRows() {
  addOperand(x, p.x);
  addOperand(residual, p.residual);
  addOperand(normWeight, p.normWeight);
  addOperand(normBias, p.normBias);
  input = stream = normed = {};
  if (!p.outputs.empty()) {
    inputBuffer =
        makeWorkspace(p.width * inputType.getIntOrFloatBitWidth() / 8);
    addWorkspace(input, inputBuffer, inputType);
  }
  Type streamType = pointType(RoundingPoint::Stream);
  if (p.streamResult >= 0) {
    addResult(stream, p.op->getResult(p.streamResult));
  } else if (p.residual) {
    // The norm and an addition at the end read the stream again.
    streamBuffer =
        makeWorkspace(p.width * streamType.getIntOrFloatBitWidth() / 8);
    addWorkspace(stream, streamBuffer, streamType);
  }
  if (p.normedResult >= 0)
    addResult(normed, p.op->getResult(p.normedResult));
  buildRowTasks("rows", [&](Value row) { buildRow(row); });
}

void CPUKernelBuilder::buildRow(Value row) {
  Value start = times(row, p.width);
  bool layer = p.norm && p.norm.getKind() == NormKind::Layer;
  bool rms = p.norm && !layer;
  // The first pass writes the stream, and later passes read it.
  Value source = stream ? stream : x;
  Value sum;
  if (p.norm || stream) {
    sum =
        forColumns(p.width, zeros(),
                   [&](Value column, Value mask, ValueRange carried) -> Values {
                     Value at = plus(start, column);
                     Value value = load(x, at, mask);
                     if (residual)
                       value = round(add(b, value, load(residual, at, mask)),
                                     pointType(RoundingPoint::Stream));
                     if (stream)
                       store(value, stream, at, mask);
                     if (rms)
                       return {multiplyAdd(value, value, carried[0])};
                     return {add(b, carried[0], value)};
                   })[0];
    sum = addLanes(sum);
  }
  Value mean, scale;
  if (layer) {
    Value size = constantF32(b, static_cast<float>(p.width));
    mean = vector::BroadcastOp::create(
        b, vectorOf(f32), arith::DivFOp::create(b, sum, size).getResult());
    sum =
        forColumns(p.width, zeros(),
                   [&](Value column, Value mask, ValueRange carried) -> Values {
                     Value value = load(source, plus(start, column), mask);
                     value = arith::SubFOp::create(b, value, mean);
                     if (mask)
                       value = arith::SelectOp::create(b, mask, value, zeros());
                     return {multiplyAdd(value, value, carried[0])};
                   })[0];
    sum = addLanes(sum);
  }
  if (p.norm)
    scale = vector::BroadcastOp::create(
        b, vectorOf(f32),
        reciprocalRoot(b, sum, p.width,
                       static_cast<float>(p.norm.getEps().getValueAsDouble())));
  forColumns(p.width, {}, [&](Value column, Value mask, ValueRange) -> Values {
    Value at = plus(start, column);
    Value value = loadRaw(source, at, mask);
    Value weight, bias;
    if (normWeight)
      weight = loadRaw(normWeight, column, mask);
    if (normBias)
      bias = loadRaw(normBias, column, mask);
    if (rms) {
      value = normalizeRMS(b, value, scale, weight, p.norm.getCast(),
                           p.norm.getOffset());
    } else {
      value = widen(b, value);
      if (layer)
        value = normalizeLayer(b, arith::SubFOp::create(b, value, mean), scale,
                               weight, bias);
    }
    // A separate norm is rounded only once, as its result.
    if (p.norm && input)
      value = round(value, p.rounding.getTypeOf(RoundingPoint::Normed, xType));
    if (normed)
      store(value, normed, at, mask);
    if (input)
      store(value, input, at, mask);
    return {};
  });
}
