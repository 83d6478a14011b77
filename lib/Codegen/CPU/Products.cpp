//===- Products.cpp - Products with packed weights on a CPU ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Codegen/CPU/KernelBuilder.h"
#include "fuse/Codegen/ElementMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fuse;

/// Number of tokens in a task. Their sums in one panel stay in the cache.
static constexpr int64_t kTokensPerTask = 128;
/// Numbers of tokens whose sums fit in registers, largest first.
static constexpr int64_t kTokens[] = {6, 4, 2, 1};
/// Number of terms that are summed before they are added to the total. The
/// rounding error of a long sum thus stays as small as that of a short one.
static constexpr int64_t kTermsPerSum = 256;
/// Bytes of a panel that all tokens of a task use before the next bytes are
/// read. They stay in the L1 cache of 48 KB, while the next ones are prefetched
/// into the L2 cache. For 33 tokens on a Zen 5, products in f32 take 0.77 and
/// in bf16 0.81 times as long as with 256 KB and without prefetching.
static constexpr int64_t kBlockBytes = 32 * 1024;
/// The same for AMX, where adding the sums of a block to the total takes longer
/// in relation. These bytes stay in the L2 cache.
static constexpr int64_t kTileBlockBytes = 256 * 1024;
static constexpr int64_t kLineBytes = 64;
/// Bits of the first word of a range that have the number of tokens. The bits
/// above have the number of tokens in a task; 0 stands for `kTokensPerTask`.
static constexpr int64_t kTokenBits = 48;

//===----------------------------------------------------------------------===//
// Sums of a few tokens and one panel
//===----------------------------------------------------------------------===//

/// Adds one term or one pair to every sum.
CPUKernelBuilder::Values
CPUKernelBuilder::multiplyStep(int64_t tokens, Value input, ValueRange starts,
                               Value packed, Value at, Value step,
                               ValueRange sums) {
  int64_t numVectors = vectors.getPanelVectors(), lanes = vectors.lanes;
  VectorType ints = vectorOf(b.getI32Type());
  Values next(sums);
  auto splat = [&](Value scalar) -> Value {
    return vector::BroadcastOp::create(
        b, VectorType::get({lanes}, scalar.getType()), scalar);
  };
  auto addTerms = [&](ArrayRef<Value> weights, int64_t offset) {
    for (int64_t token = 0; token < tokens; ++token) {
      Value scalar = memref::LoadOp::create(
          b, input, plus(plus(starts[token], step), offset));
      Value factor = splat(scalar);
      for (int64_t v = 0; v < numVectors; ++v) {
        Value &sum = next[token * numVectors + v];
        sum = multiplyAdd(factor, weights[v], sum);
      }
    }
  };
  if (!isPaired()) {
    Values weights;
    for (int64_t v = 0; v < numVectors; ++v)
      weights.push_back(loadRaw(packed, plus(at, v * lanes)));
    addTerms(weights, 0);
    return next;
  }
  auto pairs = VectorType::get({2 * lanes}, b.getI16Type());
  auto products = pairs.clone(weightType);
  Values weights;
  for (int64_t v = 0; v < numVectors; ++v)
    weights.push_back(
        vector::LoadOp::create(b, pairs, packed, plus(at, v * 2 * lanes)));
  if (vectors.dot) {
    for (Value &weight : weights)
      weight = vector::BitCastOp::create(b, products, weight);
    for (int64_t token = 0; token < tokens; ++token) {
      Value pair =
          vector::LoadOp::create(b, VectorType::get({2}, b.getI16Type()), input,
                                 plus(starts[token], step));
      pair = vector::BitCastOp::create(b, VectorType::get({1}, b.getI32Type()),
                                       pair);
      Value scalar = vector::ExtractOp::create(b, pair, int64_t(0));
      Value factor = vector::BitCastOp::create(b, products, splat(scalar));
      for (int64_t v = 0; v < numVectors; ++v) {
        Value &sum = next[token * numVectors + v];
        sum = LLVM::CallIntrinsicOp::create(
                  b, sum.getType(),
                  b.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"),
                  ValueRange{sum, factor, weights[v]})
                  .getResult(0);
      }
    }
    return next;
  }
  // A bf16 value is the upper half of an f32 value.
  Values even, odd;
  for (Value weight : weights) {
    Value bits = vector::BitCastOp::create(b, ints, weight);
    auto splatInt = [&](int32_t value) -> Value {
      return arith::ConstantOp::create(b, DenseElementsAttr::get(ints, value));
    };
    Value low = arith::ShLIOp::create(b, bits, splatInt(16));
    Value high = arith::AndIOp::create(
        b, bits, splatInt(static_cast<int32_t>(0xffff0000u)));
    even.push_back(vector::BitCastOp::create(b, vectorOf(f32), low));
    odd.push_back(vector::BitCastOp::create(b, vectorOf(f32), high));
  }
  addTerms(even, 0);
  addTerms(odd, 1);
  return next;
}

func::FuncOp CPUKernelBuilder::getMultiply(int64_t tokens) {
  std::string symbol =
      (Twine("multiply_") + (weightType.isBF16() ? "bf16" : "f32") + "_" +
       Twine(tokens))
          .str();
  if (auto known = kernels.lookupSymbol<func::FuncOp>(symbol))
    return known;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(kernels.getBody());
  auto function = func::FuncOp::create(
      b, symbol,
      b.getFunctionType({bufferOf(inputType), index, index,
                         bufferOf(weightType), index, index, bufferOf(f32),
                         index, index},
                        {}));
  function.setPrivate();
  function->setAttr(kPointersAttrName, b.getUnitAttr());
  // Copies of the function in every phase would double the compile time in
  // LLVM.
  function->setAttr("passthrough", b.getArrayAttr(b.getStringAttr("noinline")));
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  Value input = body->getArgument(0), start = body->getArgument(1),
        stride = body->getArgument(2), packed = body->getArgument(3),
        at = body->getArgument(4), steps = body->getArgument(5),
        tile = body->getArgument(6), sumsAt = body->getArgument(7),
        ahead = body->getArgument(8);
  int64_t columns = vectors.getPanelColumns();
  Values starts, places;
  for (int64_t token = 0; token < tokens; ++token) {
    starts.push_back(token == 0 ? start : plus(starts.back(), stride));
    for (int64_t v = 0; v < vectors.getPanelVectors(); ++v)
      places.push_back(plus(sumsAt, token * columns + v * vectors.lanes));
  }
  int64_t line = kLineBytes * 8 / weightType.getIntOrFloatBitWidth();
  int64_t terms = isPaired() ? 2 : 1, most = kTermsPerSum / terms;
  loop(c(0), steps, most, [&](Value first) {
    Value end = arith::MinSIOp::create(b, plus(first, most), steps);
    Values sums(places.size(), zeros());
    sums = loop(first, end, 1, sums, [&](Value step, ValueRange sums) {
      // Few tokens read weights as fast as they arrive.
      if (tokens == kTokens[0])
        LLVM::Prefetch::create(
            b, addressOf(packed, plus(ahead, times(step, line))),
            /*rw=*/0, /*hint=*/2, /*cache=*/1);
      return multiplyStep(tokens, input, starts, packed,
                          plus(at, times(step, columns * terms)),
                          times(step, terms), sums);
    });
    for (auto [sum, place] : llvm::zip_equal(sums, places))
      store(add(b, load(tile, place), sum), tile, place);
  });
  func::ReturnOp::create(b);
  return function;
}

//===----------------------------------------------------------------------===//
// Tasks
//===----------------------------------------------------------------------===//

/// Adds the products of some tokens and a panel to the tile.
void CPUKernelBuilder::multiplyRows(Value input, Value packed,
                                    const Codes *codes, int64_t terms,
                                    Value firstToken, Value numTokens,
                                    Value panel) {
  int64_t columns = vectors.getPanelColumns(), perStep = isPaired() ? 2 : 1;
  int64_t steps = getSteps(terms), stepElements = columns * perStep;
  int64_t stepBytes = stepElements * weightType.getIntOrFloatBitWidth() / 8;
  int64_t blockBytes = hasTiles(terms) ? kTileBlockBytes : kBlockBytes;
  int64_t blockSteps =
      codes ? codes->block / perStep : std::min(steps, blockBytes / stepBytes);
  forBlocks(steps, blockSteps, [&](Value step) {
    Value count = c(steps);
    if (blockSteps < steps)
      count = arith::MinSIOp::create(
          b, c(blockSteps), arith::SubIOp::create(b, count, step).getResult());
    Value at =
        plus(times(panel, steps * stepElements), times(step, stepElements));
    if (codes) {
      dequantizeBlock(*codes, panel, times(step, perStep),
                      times(count, perStep));
      at = c(0);
    }
    auto makeOperands = [&](Value token) {
      Value start =
          plus(times(plus(firstToken, token), terms), times(step, perStep));
      return Values{input, start, c(terms), packed,
                    at,    count, tile,     times(token, columns)};
    };
    if (hasTiles(terms))
      return multiplyTiles(numTokens,
                           [&](func::FuncOp multiply, Value token, Value rows) {
                             Values operands = makeOperands(token);
                             operands.push_back(rows);
                             func::CallOp::create(b, multiply, operands);
                           });
    auto call = [&](int64_t tokens, Value token) {
      Values operands = makeOperands(token);
      // A call prefetches a line per step. The calls for the first tokens share
      // the lines of the next block.
      int64_t parts = std::max<int64_t>(stepBytes / kLineBytes, 1);
      int64_t line = stepElements / parts;
      Value part = arith::RemSIOp::create(
          b, arith::DivSIOp::create(b, token, c(kTokens[0])).getResult(),
          c(parts));
      Value lines = times(times(part, count), line);
      operands.push_back(plus(plus(at, times(count, stepElements)), lines));
      func::CallOp::create(b, getMultiply(tokens), operands);
    };
    int64_t most = kTokens[0];
    Value rest = arith::RemSIOp::create(b, numTokens, c(most));
    Value done = arith::SubIOp::create(b, numTokens, rest);
    loop(c(0), done, most, [&](Value token) { call(most, token); });
    for (int64_t tokens : ArrayRef(kTokens).drop_front()) {
      Value token = done;
      Value fits =
          arith::CmpIOp::create(b, arith::CmpIPredicate::sge, rest, c(tokens));
      when(fits, [&] { call(tokens, token); });
      Value taken = arith::SelectOp::create(b, fits, c(tokens), c(0));
      done = plus(done, taken);
      rest = arith::SubIOp::create(b, rest, taken);
    }
  });
}

void CPUKernelBuilder::buildTasks(
    Value input, Value packed, Codes *codes, int64_t panels, int64_t terms,
    function_ref<void(Value token, Value sums, Value panel)> finish) {
  int64_t columns = vectors.getPanelColumns();
  tile = allocate(kTokensPerTask * columns, f32);
  if (codes) {
    allocateBlock(*codes);
    packed = codes->real;
  }
  Value perTask = arith::ShRUIOp::create(b, numTokens, c(kTokenBits));
  Value isDefault =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, perTask, c(0));
  perTask = arith::SelectOp::create(b, isDefault, c(kTokensPerTask), perTask);
  numTokens =
      arith::AndIOp::create(b, numTokens, c((int64_t(1) << kTokenBits) - 1));
  loop(firstTask, lastTask, 1, [&](Value task) {
    Value panel = arith::RemSIOp::create(b, task, c(panels));
    Value chunk = arith::DivSIOp::create(b, task, c(panels));
    Value first = times(chunk, perTask);
    Value count = arith::MinSIOp::create(
        b, perTask, arith::SubIOp::create(b, numTokens, first).getResult());
    loop(c(0), times(count, columns), vectors.lanes,
         [&](Value at) { store(zeros(), tile, at); });
    multiplyRows(input, packed, codes, terms, first, count, panel);
    loop(c(0), count, 1, [&](Value token) {
      finish(plus(first, token), times(token, columns), panel);
    });
  });
}

int64_t CPUKernelBuilder::getTokensPerCall(int64_t terms) const {
  return hasTiles(terms) ? 2 * kTileRows : kTokens[0];
}

Value CPUKernelBuilder::getMask(Value column, int64_t width) {
  if (width % vectors.getPanelColumns() == 0)
    return {};
  return maskBelow(arith::SubIOp::create(b, c(width), column));
}

Value CPUKernelBuilder::finishLinear(Value sums, Value bias, Value column,
                                     Value mask, Type element) {
  if (bias) {
    if (p.rounding.getBiasPlace() == BiasPlace::AfterRounding)
      sums = round(sums, element);
    sums = add(b, sums, load(bias, column, mask));
  }
  return round(sums, element);
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

void CPUKernelBuilder::buildHidden() {
  Value gateBias, upBias, packed, hidden;
  hiddenBuffer =
      makeWorkspace(p.hidden * inputType.getIntOrFloatBitWidth() / 8);
  addInput(input);
  SmallVector<Value> weights;
  if (p.isGated())
    weights.push_back(p.gate);
  weights.push_back(p.up);
  Codes codes;
  if (isPacked())
    addCodes(codes, weights, /*firstWeight=*/0);
  else
    addPacked(packed, weights);
  addOperand(gateBias, p.gateBias);
  addOperand(upBias, p.upBias);
  addWorkspace(hidden, hiddenBuffer, inputType);
  // Each weight has its part of a panel.
  int64_t width =
      vectors.getPanelColumns() / static_cast<int64_t>(weights.size());
  int64_t panels = llvm::divideCeil(p.hidden, width);
  begin("hidden", panels, kTokensPerTask, getTokensPerCall(p.width));
  buildTasks(
      input, packed, isPacked() ? &codes : nullptr, panels, p.width,
      [&](Value token, Value sums, Value panel) {
        // Use a loop, not unrolled code: LLVM takes most of the time to a first
        // kernel.
        forBlocks(width, vectors.lanes, [&](Value offset) {
          Value column = plus(times(panel, width), offset);
          Value mask = p.hidden % width ? getMask(column, p.hidden) : Value();
          Value at = plus(sums, offset);
          Value first = load(tile, at);
          Value value = finishLinear(
              first, p.isGated() ? gateBias : upBias, column, mask,
              pointType(p.isGated() ? RoundingPoint::Gate : RoundingPoint::Up));
          value = round(activate(b, p.activation, value),
                        pointType(RoundingPoint::Act));
          if (p.isGated()) {
            Value up = finishLinear(load(tile, plus(at, width)), upBias, column,
                                    mask, pointType(RoundingPoint::Up));
            value = round(mul(b, value, up), weightType);
          }
          store(value, hidden, plus(times(token, p.hidden), column), mask);
        });
      });
  end();
}

void CPUKernelBuilder::buildOutput(unsigned number) {
  const DecodeOutput &linear = p.outputs[number];
  Value source, packed, bias, other, result;
  if (p.hasGemm1())
    addWorkspace(source, hiddenBuffer, inputType);
  else
    addInput(source);
  Codes codes;
  if (isPacked())
    addCodes(codes, linear.weight, number + p.hasGemm1() + p.isGated());
  else
    addPacked(packed, linear.weight);
  addOperand(bias, linear.bias);
  if (!p.addStream)
    addOperand(other, p.outputResidual);
  else if (p.streamResult >= 0)
    addResult(other, p.op->getResult(p.streamResult));
  else if (streamBuffer >= 0)
    addWorkspace(other, streamBuffer, pointType(RoundingPoint::Stream));
  else
    addOperand(other, p.x);
  Type resultType = getElementTypeOrSelf(p.op->getResult(number));
  addResult(result, p.op->getResult(number));
  int64_t columns = vectors.getPanelColumns();
  int64_t panels = llvm::divideCeil(linear.rows, columns);
  begin("output" + std::to_string(number), panels, kTokensPerTask,
        getTokensPerCall(p.getReduction()));
  buildTasks(source, packed, isPacked() ? &codes : nullptr, panels,
             p.getReduction(), [&](Value token, Value sums, Value panel) {
               forBlocks(columns, vectors.lanes, [&](Value offset) {
                 Value column = plus(times(panel, columns), offset);
                 Value mask = getMask(column, linear.rows);
                 Value at = plus(times(token, linear.rows), column);
                 Value value = finishLinear(
                     load(tile, plus(sums, offset)), bias, column, mask,
                     other ? pointType(RoundingPoint::Down) : resultType);
                 if (other)
                   value = add(b, load(other, at, mask), value);
                 store(value, result, at, mask);
               });
             });
  end();
}
