//===- DecodeKernel.cpp - The decode kernel of an MLP ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One persistent launch: [residual add] [norm] [quantize], first product,
// activation, [quantize], second product [residual add]. Weights are the left
// operand of every product and tokens the right one, so that few tokens waste
// nothing.
//
//   warp 0       streams weights and never looks at a phase boundary: those of
//                the second product are on their way before the hidden layer
//                exists;
//   warp 1       streams tokens; it alone waits for the words on which blocks
//                meet;
//   warps 4-11   two warpgroups, 128 weight rows each: norm, products,
//                epilogues, sums.
//
//===----------------------------------------------------------------------===//

#include "DecodeKernel.h"

#include "IndexBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

static constexpr int64_t kWeightStage = 256 * 128;
static constexpr int64_t kCopyWarps = 4, kMathWarps = 8;
static constexpr int64_t kMathThreads = kMathWarps * 32;
/// Columns of a token row that all math threads take at a time.
static constexpr int64_t kChunk = kMathThreads * 8;
/// Named barrier of the math warps; barrier 0 is the whole block's.
static constexpr int64_t kMathBarrier = 1;

namespace {

class DecodeKernelBuilder : IndexBuilder {
public:
  DecodeKernelBuilder(const DecodeProblem &problem, ScheduleAttr schedule,
                      OpBuilder &builder)
      : IndexBuilder(builder, problem.op->getLoc()), p(problem), s(schedule),
        tiling(problem, schedule), tokens(schedule.getTokens()),
        elementBytes(problem.getElementBytes()) {
    MLIRContext *context = b.getContext();
    bf16 = b.getBF16Type();
    f32 = b.getF32Type();
    element = p.isF8() ? Type(Float8E4M3FNType::get(context)) : bf16;
    acc = AccType::get(context, 64, tokens, f32);
  }

  PlannedKernel build(StringRef name);

private:
  // Arguments.
  void addArguments();
  Value *addArgument(Type type, ArrayRef<NamedAttribute> plan);
  NamedAttribute entry(StringRef name, Attribute value) {
    return b.getNamedAttr(name, value);
  }
  NamedAttribute entry(StringRef name, int64_t value) {
    return entry(name, b.getI64IntegerAttr(value));
  }
  NamedAttribute kind(StringRef value) {
    return entry("kind", b.getStringAttr(value));
  }
  void addTensor(Value &slot, Value operand);
  void addWorkspace(Value &slot, Type type, int64_t bytes);
  int64_t reserve(int64_t bytes);

  // Roles.
  void streamWeights();
  void streamTokens();
  void multiply();

  // Parts of the math role.
  void normalizeRow(Value row, ArrayRef<Value> early);
  SmallVector<Value> loadRow(Value row);
  std::pair<SmallVector<Value>, Value> mainLoop(Value use, Value steps);
  void storeHidden(Value tileIndex, ValueRange accs);
  void storePartials(ValueRange accs);
  void sumPartials();

  // Values.
  Value load(Type type, Value buffer, Value index) {
    return LoadOp::create(b, loc, type, buffer, index, /*early=*/false);
  }
  void store(Value value, Value buffer, Value index) {
    StoreOp::create(b, loc, value, buffer, index);
  }
  Value pack(Type type, ValueRange values) {
    return PackOp::create(
        b, loc, VectorType::get(static_cast<int64_t>(values.size()), type),
        values);
  }
  SmallVector<Value> unpack(Value vector) {
    int64_t count = cast<VectorType>(vector.getType()).getNumElements();
    return llvm::to_vector_of<Value>(
        UnpackOp::create(b, loc, SmallVector<Type>(count, f32), vector)
            .getResults());
  }
  /// Rounds values where the contract has a rounding point.
  SmallVector<Value> round(StringRef point, ArrayRef<Value> values) {
    if (!p.roundsAt(point))
      return llvm::to_vector(values);
    return unpack(pack(bf16, values));
  }
  SmallVector<Value> each(ArrayRef<Value> values,
                          function_ref<Value(Value)> map) {
    return llvm::map_to_vector(values, map);
  }
  SmallVector<Value> zip(ArrayRef<Value> lhs, ArrayRef<Value> rhs,
                         function_ref<Value(Value, Value)> map) {
    SmallVector<Value> results;
    for (auto [x, y] : llvm::zip_equal(lhs, rhs))
      results.push_back(map(x, y));
    return results;
  }
  SmallVector<Value> addEach(ArrayRef<Value> lhs, ArrayRef<Value> rhs) {
    return zip(lhs, rhs, [&](Value x, Value y) { return fadd(x, y); });
  }
  SmallVector<Value> mulEach(ArrayRef<Value> lhs, ArrayRef<Value> rhs) {
    return zip(lhs, rhs, [&](Value x, Value y) { return fmul(x, y); });
  }
  Value activate(Value x);
  /// Values over a scale, in the storage type of the products' operands.
  Value quantize(ArrayRef<Value> values, Value scale) {
    bool divides = p.isF8() && p.scales.getOrder() == QuantOrder::Divide;
    if (!p.isF8())
      return pack(bf16, values);
    return pack(element, each(values, [&](Value x) {
                  return divides ? fdiv(x, scale) : fmul(x, scale);
                }));
  }
  /// Sum of a product of stored values, scaled and with its bias.
  SmallVector<Value> finish(ArrayRef<Value> sums, Value alpha,
                            ArrayRef<Value> bias) {
    SmallVector<Value> values = llvm::to_vector(sums);
    if (alpha)
      values = each(values, [&](Value x) { return fmul(x, alpha); });
    if (!bias.empty())
      values = addEach(values, bias);
    return values;
  }
  Type stageOf(Value ring) {
    return StageType::get(b.getContext(),
                          cast<RingType>(ring.getType()).getBytes());
  }
  Value acquire(Value ring, Value use) {
    return RingAcquireOp::create(b, loc, stageOf(ring), ring, use);
  }
  Value waitFor(Value ring, Value use) {
    return RingWaitOp::create(b, loc, stageOf(ring), ring, use);
  }
  Value word(Value index) {
    return WordOp::create(b, loc, WordType::get(b.getContext()), words, index);
  }
  Value id(IdKind kind) { return IdOp::create(b, loc, b.getI32Type(), kind); }
  void barrier() {
    BarrierOp::create(b, loc, b.getI64IntegerAttr(kMathBarrier),
                      b.getI64IntegerAttr(kMathThreads));
  }
  void depend() {
    if (s.getDependent())
      GridDependencyOp::create(b, loc, Dependency::Wait);
  }
  /// k-steps of this block's range; the last range may be shorter.
  Value rangeSteps() {
    if (tiling.ranges * tiling.stepsPerRange == tiling.steps2)
      return c(tiling.stepsPerRange);
    return min(c(tiling.stepsPerRange),
               sub(c(tiling.steps2), mul(range, tiling.stepsPerRange)));
  }

  const DecodeProblem &p;
  ScheduleAttr s;
  DecodeTiling tiling;
  int64_t tokens, elementBytes;
  Type bf16, f32, element;
  AccType acc;

  SmallVector<Type> types;
  SmallVector<Attribute> plans;
  SmallVector<Value *> slots;
  int64_t workspace = 0, zeroed = 0;

  Value inputMap, hiddenMap, weights1, weights2, x, residual, normWeight,
      normBias, gateBias, upBias, downBias, outputResidual, input, hidden,
      partials, output, stream, words, count;
  Value inputScale, alphaGate, alphaUp, hiddenScale, alphaDown;
  Value weightRing, tokenRing, epochBuffer, block, hasUnit, tile2, range;
  // Of the math role.
  Value thread, group, warp, lane, row8;
  SmallVector<Value> sumBuffers;
};

} // namespace

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void DecodeKernelBuilder::addTensor(Value &slot, Value operand) {
  if (!operand)
    return;
  for (auto [index, value] : llvm::enumerate(p.op->getOperands())) {
    if (value != operand)
      continue;
    types.push_back(BufferType::get(b.getContext(), bf16, Memory::Global));
    plans.push_back(
        b.getDictionaryAttr({kind("operand"), entry("index", index)}));
    slots.push_back(&slot);
    return;
  }
}

/// Workspace comes in lines of 256 bytes.
int64_t DecodeKernelBuilder::reserve(int64_t bytes) {
  int64_t offset = workspace;
  workspace += llvm::alignTo(bytes, 256);
  return offset;
}

void DecodeKernelBuilder::addWorkspace(Value &slot, Type type, int64_t bytes) {
  types.push_back(BufferType::get(b.getContext(), type, Memory::Global));
  plans.push_back(b.getDictionaryAttr(
      {kind("workspace"), entry("offset", reserve(bytes))}));
  slots.push_back(&slot);
}

void DecodeKernelBuilder::addArguments() {
  MLIRContext *context = b.getContext();
  // Words come first: they are the part that must be zero before the first
  // launch.
  int64_t lines = 2 + tiling.ranges + tiling.tiles2 * kMathWarps;
  addWorkspace(words, b.getI32Type(), lines * 128);
  zeroed = workspace;
  auto addMapped = [&](Value &map, Value &buffer, int64_t columns) {
    int64_t offset = workspace;
    addWorkspace(buffer, element, tokens * columns * elementBytes);
    types.push_back(TensorMapType::get(context));
    plans.push_back(b.getDictionaryAttr(
        {kind("tensor_map"), entry("offset", offset), entry("rows", tokens),
         entry("columns", columns), entry("element", TypeAttr::get(element)),
         entry("box_rows", tokens), entry("box_columns", 128 / elementBytes),
         entry("swizzle", 128)}));
    slots.push_back(&map);
  };
  addMapped(inputMap, input, p.width);
  addMapped(hiddenMap, hidden, p.hidden);
  addWorkspace(partials, s.getPartials(),
               tiling.tiles2 * tiling.ranges * 256 * tokens *
                   s.getPartials().getIntOrFloatBitWidth() / 8);

  auto addPacked = [&](Value &slot, StringRef recipe, ArrayRef<Value> sources,
                       int64_t tiles, int64_t steps) {
    SmallVector<Attribute> indices;
    for (Value source : sources)
      for (OpOperand &operand : p.op->getOpOperands())
        if (operand.get() == source) {
          indices.push_back(b.getI64IntegerAttr(operand.getOperandNumber()));
          break;
        }
    types.push_back(BufferType::get(context, b.getI8Type(), Memory::Global));
    plans.push_back(b.getDictionaryAttr(
        {kind("packed"), entry("recipe", b.getStringAttr(recipe)),
         entry("operands", b.getArrayAttr(indices)), entry("tiles", tiles),
         entry("steps", steps), entry("bytes", tiles * steps * kWeightStage)}));
    slots.push_back(&slot);
  };
  if (p.isGated())
    addPacked(weights1, "gate_up_256", {p.gate, p.up}, tiling.tiles1,
              tiling.steps1);
  else
    addPacked(weights1, "rows_256", {p.up}, tiling.tiles1, tiling.steps1);
  addPacked(weights2, "rows_256", {p.down}, tiling.tiles2, tiling.steps2);

  addTensor(x, p.x);
  addTensor(residual, p.residual);
  addTensor(normWeight, p.normWeight);
  addTensor(normBias, p.normBias);
  addTensor(gateBias, p.gateBias);
  addTensor(upBias, p.upBias);
  addTensor(downBias, p.downBias);
  addTensor(outputResidual, p.outputResidual);
  auto addResult = [&](Value &slot, int64_t index) {
    types.push_back(BufferType::get(context, bf16, Memory::Global));
    plans.push_back(
        b.getDictionaryAttr({kind("result"), entry("index", index)}));
    slots.push_back(&slot);
  };
  addResult(output, 0);
  if (p.returnsStream)
    addResult(stream, 1);
  types.push_back(b.getI32Type());
  plans.push_back(b.getDictionaryAttr({kind("tokens")}));
  slots.push_back(&count);
  if (!p.isF8())
    return;
  auto addScalar = [&](Value &slot, StringRef name, float value) {
    types.push_back(f32);
    plans.push_back(b.getDictionaryAttr(
        {kind("scalar"), entry("name", b.getStringAttr(name)),
         entry("value", b.getF32FloatAttr(value))}));
    slots.push_back(&slot);
  };
  auto get = [&](StringRef name) {
    return p.scales.getScale(name).value_or(1);
  };
  // Quantization multiplies by the reciprocal, rounded to f32, unless the
  // contract divides.
  auto factor = [&](StringRef name) {
    bool divides = p.scales.getOrder() == QuantOrder::Divide;
    return divides ? get(name) : 1.0f / get(name);
  };
  addScalar(inputScale, "input", factor("input"));
  if (p.isGated())
    addScalar(alphaGate, "gate", get("input") * get("gate"));
  addScalar(alphaUp, "up", get("input") * get("up"));
  addScalar(hiddenScale, "hidden", factor("hidden"));
  addScalar(alphaDown, "down", get("hidden") * get("down"));
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

void DecodeKernelBuilder::streamWeights() {
  auto fetch = [&](Value use, Value weights, Value step, int64_t tiles,
                   Value tile) {
    // A use waits until an older one has landed: deeper queues add no
    // bandwidth, only latency for x, the hidden layer and the words.
    if (int64_t limit = s.getInFlight())
      when(less(c(limit - 1), use),
           [&] { waitFor(weightRing, sub(use, c(limit))); });
    Value stage = acquire(weightRing, use);
    // [step][tile]: blocks read neighbouring stages at the same time.
    Value index = arith::ExtUIOp::create(b, loc, b.getI64Type(),
                                         add(mul(step, tiles), tile));
    Value offset = arith::MulIOp::create(
        b, loc, index,
        arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(kWeightStage)));
    CopyOp::create(b, loc, weights, offset, stage, s.getHint());
  };
  SmallVector<Value> uses = loop(
      block, c(tiling.tiles1), s.getBlocks(), c(0),
      [&](Value tile, ValueRange outer) {
        return loop(c(0), c(tiling.steps1), 1, outer,
                    [&](Value step, ValueRange inner) -> SmallVector<Value> {
                      fetch(inner[0], weights1, step, tiling.tiles1, tile);
                      return {add(inner[0], 1)};
                    });
      });
  when(hasUnit, [&] {
    Value first = mul(range, tiling.stepsPerRange);
    loop(c(0), rangeSteps(), 1, {},
         [&](Value step, ValueRange) -> SmallVector<Value> {
           fetch(add(uses[0], step), weights2, add(first, step), tiling.tiles2,
                 tile2);
           return {};
         });
  });
}

void DecodeKernelBuilder::streamTokens() {
  depend();
  Value epoch = EpochOp::create(b, loc, b.getI32Type(), words, s.getBlocks());
  // The math warps read it after their first wait on a token stage, whose
  // arming below orders this store.
  store(epoch, epochBuffer, c(0));
  int64_t columns = 128 / elementBytes;
  auto fetch = [&](Value use, Value map, Value step) {
    Value stage = acquire(tokenRing, use);
    CopyTensorOp::create(b, loc, map, mul(step, columns), c(0), stage,
                         CachePolicy::Normal);
  };
  WordWaitOp::create(b, loc, word(c(0)), epoch, c(s.getBlocks()));
  FenceAsyncOp::create(b, loc);
  SmallVector<Value> uses = loop(
      block, c(tiling.tiles1), s.getBlocks(), c(0),
      [&](Value, ValueRange outer) {
        return loop(c(0), c(tiling.steps1), 1, outer,
                    [&](Value step, ValueRange inner) -> SmallVector<Value> {
                      fetch(inner[0], inputMap, step);
                      return {add(inner[0], 1)};
                    });
      });
  when(hasUnit, [&] {
    Value tiles = min(c(tiling.tilesPerRange),
                      sub(c(tiling.tiles1), mul(range, tiling.tilesPerRange)));
    WordWaitOp::create(b, loc, word(add(range, 1)), epoch,
                       mul(tiles, kMathWarps));
    FenceAsyncOp::create(b, loc);
    Value first = mul(range, tiling.stepsPerRange);
    loop(c(0), rangeSteps(), 1, {},
         [&](Value step, ValueRange) -> SmallVector<Value> {
           fetch(add(uses[0], step), hiddenMap, add(first, step));
           return {};
         });
  });
}

//===----------------------------------------------------------------------===//
// Norm
//===----------------------------------------------------------------------===//

/// Requests a row: x, residual, weight and bias of every chunk, in order.
SmallVector<Value> DecodeKernelBuilder::loadRow(Value row) {
  SmallVector<Value> vectors;
  Type vector = VectorType::get(8, bf16);
  for (int64_t chunk = 0; chunk < p.width; chunk += kChunk) {
    Value column = add(mul(thread, 8), chunk);
    if (chunk + kChunk > p.width)
      column = select(less(column, c(p.width)), column, c(0));
    Value index = add(mul(row, p.width), column);
    for (auto [buffer, at] :
         {std::pair(x, index), std::pair(residual, index),
          std::pair(normWeight, column), std::pair(normBias, column)})
      vectors.push_back(buffer ? LoadOp::create(b, loc, vector, buffer, at,
                                                /*early=*/true)
                                     .getValue()
                               : Value());
  }
  return vectors;
}

void DecodeKernelBuilder::normalizeRow(Value row, ArrayRef<Value> loaded) {
  struct Chunk {
    Value column, inside;
    SmallVector<Value> x, weight, bias;
  };
  SmallVector<Chunk> chunks;
  for (size_t index = 0; index * kChunk < static_cast<size_t>(p.width);
       ++index) {
    ArrayRef<Value> vectors = loaded.slice(4 * index, 4);
    Chunk chunk;
    chunk.column = add(mul(thread, 8), index * kChunk);
    if (static_cast<int64_t>(index + 1) * kChunk > p.width)
      chunk.inside = less(chunk.column, c(p.width));
    chunk.x = unpack(vectors[0]);
    if (residual)
      chunk.x = round("stream", addEach(chunk.x, unpack(vectors[1])));
    if (stream)
      when(chunk.inside, [&] {
        store(pack(bf16, chunk.x), stream,
              add(mul(row, p.width), chunk.column));
      });
    // Columns past the end must not count in the statistics.
    if (chunk.inside)
      chunk.x =
          each(chunk.x, [&](Value v) { return select(chunk.inside, v, f(0)); });
    if (normWeight)
      chunk.weight = unpack(vectors[2]);
    if (normBias)
      chunk.bias = unpack(vectors[3]);
    chunks.push_back(chunk);
  }

  auto sum = [&](Value buffer, function_ref<Value(Value)> map) -> Value {
    Value total;
    for (Chunk &chunk : chunks) {
      for (Value v : chunk.x) {
        Value term = map(v);
        if (chunk.inside)
          term = select(chunk.inside, term, f(0));
        total = total ? fadd(total, term) : term;
      }
    }
    total = ReduceOp::create(b, loc, f32, total, buffer, kCopyWarps,
                             kCopyWarps + kMathWarps, kMathBarrier);
    return fdiv(total, f(p.width));
  };
  Value mean, scale;
  if (p.norm) {
    if (p.norm.getKind() == NormKind::Layer) {
      mean = sum(sumBuffers[1], [](Value v) { return v; });
      for (Chunk &chunk : chunks)
        chunk.x = each(chunk.x, [&](Value v) { return fsub(v, mean); });
    }
    Value square = sum(sumBuffers[0], [&](Value v) { return fmul(v, v); });
    Value eps = f(p.norm.getEps().getValueAsDouble());
    scale = fdiv(f(1), math::SqrtOp::create(b, loc, fadd(square, eps)));
  }

  for (Chunk &chunk : chunks) {
    SmallVector<Value> values = chunk.x;
    if (p.norm) {
      values = each(values, [&](Value v) { return fmul(v, scale); });
      bool rms = p.norm.getKind() == NormKind::RMS;
      bool before = rms && p.norm.getCast() == NormCast::BeforeWeight;
      SmallVector<Value> weight = chunk.weight;
      if (rms && p.norm.getOffset() != 0 && !weight.empty()) {
        weight = each(weight,
                      [&](Value v) { return fadd(v, f(p.norm.getOffset())); });
        if (before)
          weight = unpack(pack(bf16, weight));
      }
      if (before && !weight.empty())
        values = unpack(pack(bf16, values));
      if (!weight.empty())
        values = mulEach(values, weight);
      if (!chunk.bias.empty())
        values = addEach(values, chunk.bias);
      values = round("normed", values);
    }
    Value packed = quantize(values, inputScale);
    when(chunk.inside,
         [&] { store(packed, input, add(mul(row, p.width), chunk.column)); });
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Two accumulators over `steps` k-steps from ring use `use`. One group of
/// products stays in flight; the stage before it is released.
std::pair<SmallVector<Value>, Value>
DecodeKernelBuilder::mainLoop(Value use, Value steps) {
  MLIRContext *context = b.getContext();
  int64_t columns = 128 / elementBytes;
  Type lhs = SharedType::get(context, 64, columns, element, 128);
  Type rhs = SharedType::get(context, tokens, columns, element, 128);
  Value leader = equal(rem(thread, 128), 0);
  auto release = [&](Value condition, Value use) {
    when(condition, [&] {
      RingReleaseOp::create(b, loc, weightRing, use);
      RingReleaseOp::create(b, loc, tokenRing, use);
    });
  };
  Value zero = AccZeroOp::create(b, loc, acc);
  SmallVector<Value> results = loop(
      c(0), steps, 1, {zero, zero, use},
      [&](Value step, ValueRange carried) -> SmallVector<Value> {
        Value use = carried[2];
        Value weightStage = waitFor(weightRing, use);
        Value tokenStage = waitFor(tokenRing, use);
        Value offset = mul(group, kWeightStage / 2);
        SmallVector<Value> rows;
        for (int64_t half : {0, 1})
          rows.push_back(ViewOp::create(b, loc, lhs, weightStage,
                                        add(offset, half * kWeightStage / 4)));
        Value columns = ViewOp::create(b, loc, rhs, tokenStage, c(0));
        auto fenced = AccFenceOp::create(b, loc, TypeRange{acc, acc},
                                         ValueRange{carried[0], carried[1]});
        SmallVector<Value> next;
        for (int64_t half : {0, 1})
          next.push_back(MmaOp::create(b, loc, acc, rows[half], columns,
                                       fenced.getResult(half)));
        MmaCommitOp::create(b, loc);
        MmaWaitOp::create(b, loc, 1);
        release(both(less(c(0), step), leader), sub(use, c(1)));
        next.push_back(add(use, 1));
        return next;
      });
  auto done = AccWaitOp::create(b, loc, TypeRange{acc, acc},
                                ValueRange{results[0], results[1]});
  release(leader, sub(results[2], c(1)));
  return {llvm::to_vector_of<Value>(done.getResults()), results[2]};
}

Value DecodeKernelBuilder::activate(Value v) {
  // v / (1 + exp(-z)), with the hardware's exponential and reciprocal: their
  // error is far below the rounding to bf16 that follows.
  auto sigmoid = [&](Value z) -> Value {
    constexpr float kLog2e = 1.44269504f;
    auto fast = arith::FastMathFlagsAttr::get(
        b.getContext(), arith::FastMathFlags::afn | arith::FastMathFlags::arcp);
    Value e = math::Exp2Op::create(b, loc, fmul(z, f(-kLog2e)), fast);
    Value r = arith::DivFOp::create(b, loc, f(1), fadd(e, f(1)), fast);
    return fmul(v, r);
  };
  switch (p.activation) {
  case Activation::SiLU:
    return sigmoid(v);
  case Activation::QuickGELU:
    return sigmoid(fmul(v, f(1.702f)));
  case Activation::GELUTanh: {
    // v/2 (1 + tanh(z)) = v / (1 + exp(-2z)), which keeps its relative
    // accuracy for very negative v.
    Value cube = fmul(fmul(v, v), v);
    Value z = fadd(v, fmul(cube, f(0.044715f)));
    return sigmoid(fmul(z, f(1.59576912f)));
  }
  case Activation::GELU: {
    Value erf = math::ErfOp::create(b, loc, fmul(v, f(0.707106781f)));
    return fmul(fmul(v, f(0.5f)), fadd(erf, f(1)));
  }
  case Activation::ReLU:
    return arith::MaximumFOp::create(b, loc, v, f(0));
  case Activation::ReLU2: {
    Value r = arith::MaximumFOp::create(b, loc, v, f(0));
    return fmul(r, r);
  }
  }
  return v;
}

/// Activation and gate of one tile of the first product. Packing puts the
/// rows of a thread next to each other: gate and up of two hidden units, or
/// four hidden units.
void DecodeKernelBuilder::storeHidden(Value tileIndex, ValueRange accs) {
  Value unit = mul(tileIndex, tiling.hiddenPerTile);
  if (p.isGated())
    unit = add(add(add(unit, mul(group, 64)), mul(div(row8, 2), 16)),
               add(mul(warp, 4), mul(rem(row8, 2), 2)));
  else
    unit = add(add(unit, mul(group, 128)), add(mul(warp, 32), mul(row8, 4)));
  int64_t count = p.isGated() ? 2 : 4;
  Value inside, safe = unit;
  if (p.hidden % tiling.hiddenPerTile != 0) {
    inside = less(unit, c(p.hidden));
    safe = select(inside, unit, c(0));
  }
  auto loadBias = [&](Value buffer) -> SmallVector<Value> {
    if (!buffer)
      return {};
    return unpack(load(VectorType::get(count, bf16), buffer, safe));
  };
  SmallVector<Value> biasGate = loadBias(gateBias), biasUp = loadBias(upBias);

  auto epilogue = EpilogueOp::create(b, loc, accs);
  Block *body = b.createBlock(&epilogue.getBody());
  body->addArguments({b.getI32Type(), b.getI32Type(), f32, f32, f32, f32},
                     SmallVector<Location>(6, loc));
  Value token = body->getArgument(0);
  Value v0 = body->getArgument(2), v1 = body->getArgument(3),
        v2 = body->getArgument(4), v3 = body->getArgument(5);
  // Rows past the last token belong to the workspace too. Storing them spares
  // a branch for each column, which would keep the columns from overlapping.
  when(inside, [&] {
    SmallVector<Value> values;
    auto activateAll = [&](ArrayRef<Value> inputs) {
      return round("act", each(inputs, [&](Value v) { return activate(v); }));
    };
    if (p.isGated()) {
      SmallVector<Value> g =
          round("gate", finish({v0, v2}, alphaGate, biasGate));
      SmallVector<Value> u = round("up", finish({v1, v3}, alphaUp, biasUp));
      values = round("product", mulEach(activateAll(g), u));
    } else {
      SmallVector<Value> u =
          round("up", finish({v0, v1, v2, v3}, alphaUp, biasUp));
      values = activateAll(u);
    }
    store(quantize(values, hiddenScale), hidden,
          add(mul(token, p.hidden), unit));
  });
  b.setInsertionPointAfter(epilogue);
}

//===----------------------------------------------------------------------===//
// Split sums
//===----------------------------------------------------------------------===//

void DecodeKernelBuilder::storePartials(ValueRange accs) {
  // In fragment order: unit c of a range is the c-th column of every thread.
  int64_t columns = tokens / 4;
  Value first = mul(add(mul(tile2, tiling.ranges), range), columns);
  auto epilogue = EpilogueOp::create(b, loc, accs);
  Block *body = b.createBlock(&epilogue.getBody());
  body->addArguments({b.getI32Type(), b.getI32Type(), f32, f32, f32, f32},
                     SmallVector<Location>(6, loc));
  when(less(body->getArgument(0), count), [&] {
    Value unit = add(first, body->getArgument(1));
    store(pack(s.getPartials(), body->getArguments().drop_front(2)), partials,
          mul(add(mul(unit, kMathThreads), thread), 4));
  });
  b.setInsertionPointAfter(epilogue);
}

/// Sums the ranges in order, so that the result does not depend on which
/// block is early. This block takes every `ranges`-th column.
void DecodeKernelBuilder::sumPartials() {
  int64_t columns = tokens / 4;
  Value row = add(add(mul(tile2, 256), mul(group, 128)),
                  add(mul(warp, 32), mul(row8, 4)));
  Value inside;
  if (p.output % 256 != 0)
    inside = less(row, c(p.output));
  Value first = mul(tile2, tiling.ranges * columns);
  struct Column {
    Value token;
    SmallVector<Value> parts;
  };
  auto request = [&](Value column) {
    Column entry;
    entry.token =
        add(add(mul(rem(lane, 4), 2), mul(div(column, 2), 8)), rem(column, 2));
    Type vector = VectorType::get(4, s.getPartials());
    for (int64_t index = 0; index < tiling.ranges; ++index) {
      Value unit = add(add(first, index * columns), column);
      entry.parts.push_back(
          LoadOp::create(b, loc, vector, partials,
                         mul(add(mul(unit, kMathThreads), thread), 4),
                         /*early=*/true));
    }
    return entry;
  };
  auto complete = [&](const Column &entry) {
    when(both(less(entry.token, count), inside), [&] {
      Value at = add(mul(entry.token, p.output), row);
      Type narrow = VectorType::get(4, bf16);
      SmallVector<Value> other, bias;
      if (p.addStream) {
        Value index = add(mul(entry.token, p.width), row);
        other = unpack(load(narrow, x, index));
        if (residual)
          other = round("stream",
                        addEach(other, unpack(load(narrow, residual, index))));
      } else if (outputResidual) {
        other = unpack(load(narrow, outputResidual, at));
      }
      if (downBias)
        bias = unpack(load(narrow, downBias, row));
      SmallVector<Value> sums = unpack(entry.parts[0]);
      for (Value part : ArrayRef(entry.parts).drop_front())
        sums = addEach(sums, unpack(part));
      sums = finish(sums, alphaDown, bias);
      if (!other.empty())
        sums = addEach(other, round("down", sums));
      store(pack(bf16, sums), output, at);
    });
  };
  // Loads of all full rounds first: a column after the other would wait for L2
  // each time.
  int64_t full = columns / tiling.ranges * tiling.ranges;
  SmallVector<Column> entries;
  for (int64_t step = 0; step < full; step += tiling.ranges)
    entries.push_back(request(add(range, step)));
  for (const Column &entry : entries)
    complete(entry);
  if (full != columns)
    when(less(range, c(columns - full)),
         [&] { complete(request(add(range, full))); });
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void DecodeKernelBuilder::multiply() {
  Value all = id(IdKind::Thread);
  thread = sub(all, c(kCopyWarps * 32));
  Value warpIndex = sub(id(IdKind::Warp), c(kCopyWarps));
  group = div(warpIndex, 4);
  warp = rem(warpIndex, 4);
  lane = id(IdKind::Lane);
  row8 = div(lane, 4);
  Value leads = equal(lane, 0);
  depend();

  // Token rows go round the blocks.
  bool oneRow = tokens <= s.getBlocks();
  if (oneRow) {
    // Requested before anything else, because weights queue up behind.
    SmallVector<Value> loaded = loadRow(min(block, sub(count, c(1))));
    when(less(block, count), [&] { normalizeRow(block, loaded); });
  } else {
    loop(block, count, s.getBlocks(), {},
         [&](Value row, ValueRange) -> SmallVector<Value> {
           normalizeRow(row, loadRow(row));
           // The next row's sums reuse the scratch of this one's.
           barrier();
           return {};
         });
  }
  FenceAsyncOp::create(b, loc);
  barrier();
  when(equal(thread, 0), [&] { WordArriveOp::create(b, loc, word(c(0))); });

  SmallVector<Value> uses =
      loop(block, c(tiling.tiles1), s.getBlocks(), c(0),
           [&](Value tile, ValueRange carried) -> SmallVector<Value> {
             auto [accs, next] = mainLoop(carried[0], c(tiling.steps1));
             storeHidden(tile, accs);
             // Every warp arrives for itself.
             FenceAsyncOp::create(b, loc);
             WarpSyncOp::create(b, loc);
             when(leads, [&] {
               Value index = add(div(tile, tiling.tilesPerRange), 1);
               WordArriveOp::create(b, loc, word(index));
             });
             return {next};
           });

  when(hasUnit, [&] {
    auto [accs, next] = mainLoop(uses[0], rangeSteps());
    storePartials(accs);
    WarpSyncOp::create(b, loc);
    // A warp needs only the same warp of the other ranges.
    Value index =
        add(add(mul(tile2, kMathWarps), warpIndex), 1 + tiling.ranges);
    when(leads, [&] {
      Value mine = word(index);
      WordArriveOp::create(b, loc, mine);
      Value epoch = load(b.getI32Type(), epochBuffer, c(0));
      WordWaitOp::create(b, loc, mine, epoch, c(tiling.ranges));
    });
    WarpSyncOp::create(b, loc);
    sumPartials();
  });
}

PlannedKernel DecodeKernelBuilder::build(StringRef name) {
  addArguments();
  MLIRContext *context = b.getContext();
  constexpr int64_t threads = (kCopyWarps + kMathWarps) * 32;
  auto plan = b.getDictionaryAttr(
      {entry("arguments", b.getArrayAttr(plans)),
       entry("blocks", s.getBlocks()), entry("threads", threads),
       entry("shared_bytes", s.getSharedBytes()),
       entry("dependent", b.getBoolAttr(s.getDependent())),
       entry("max_tokens", tokens), entry("workspace_bytes", workspace),
       entry("zeroed_bytes", zeroed)});
  auto kernel = tile::KernelOp::create(
      b, loc, b.getStringAttr(name),
      TypeAttr::get(b.getFunctionType(types, {})), ArrayAttr(), ArrayAttr(),
      b.getI64IntegerAttr(s.getBlocks()), b.getI64IntegerAttr(threads),
      b.getI64IntegerAttr(s.getSharedBytes()), b.getUnitAttr());
  Block *body = b.createBlock(&kernel.getBody());
  for (auto [type, slot] : llvm::zip_equal(types, slots))
    *slot = body->addArgument(type, loc);

  auto makeRing = [&](int64_t stages, int64_t bytes, int64_t offset) -> Value {
    return RingCreateOp::create(b, loc, RingType::get(context, stages, bytes),
                                offset, /*consumers=*/2);
  };
  weightRing = makeRing(s.getWeightStages(), kWeightStage, 0);
  tokenRing = makeRing(s.getTokenStages(), tokens * 128,
                       s.getWeightStages() * kWeightStage);
  auto makeScratch = [&](Type type, int64_t count) -> Value {
    return ScratchOp::create(
        b, loc, BufferType::get(context, type, Memory::Shared), count);
  };
  epochBuffer = makeScratch(b.getI32Type(), 1);
  if (p.norm) {
    sumBuffers.push_back(makeScratch(f32, kMathWarps));
    if (p.norm.getKind() == NormKind::Layer)
      sumBuffers.push_back(makeScratch(f32, kMathWarps));
  }
  BarrierOp::create(b, loc, b.getI64IntegerAttr(0), IntegerAttr());
  if (s.getDependent())
    GridDependencyOp::create(b, loc, Dependency::Launch);
  block = id(IdKind::Block);
  // Units of the second product: an output tile and a range.
  int64_t units = tiling.tiles2 * tiling.ranges;
  hasUnit = units == s.getBlocks() ? Value() : less(block, c(units));
  tile2 = rem(block, tiling.tiles2);
  range = div(block, tiling.tiles2);

  auto roles =
      SpecializeOp::create(b, loc, b.getStrArrayAttr({"stream", "multiply"}),
                           b.getDenseI64ArrayAttr({kCopyWarps, kMathWarps}),
                           b.getDenseI64ArrayAttr({40, 232}), 2);
  b.createBlock(&roles.getRoles()[0]);
  {
    Value thread = id(IdKind::Thread);
    Block *role = b.getInsertionBlock();
    when(equal(thread, 0), [&] { streamWeights(); });
    b.setInsertionPointToEnd(role);
    when(equal(thread, 32), [&] { streamTokens(); });
  }
  b.createBlock(&roles.getRoles()[1]);
  multiply();
  b.setInsertionPointAfter(roles);
  tile::ReturnOp::create(b, loc);
  return {kernel, plan};
}

PlannedKernel fuse::buildDecodeKernel(const DecodeProblem &problem,
                                      ScheduleAttr schedule,
                                      gpu::GPUModuleOp module, StringRef name) {
  OpBuilder builder(problem.op->getContext());
  builder.setInsertionPointToEnd(module.getBody());
  return DecodeKernelBuilder(problem, schedule, builder).build(name);
}
