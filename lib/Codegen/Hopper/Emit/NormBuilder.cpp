//===- NormBuilder.cpp - Emitter of norms ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NormBuilder.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

NormBuilder::NormBuilder(const MlpProblem &problem, CtaGroup ctaGroup,
                         OpBuilder &builder)
    : KernelBuilder(problem.op, builder), problem(problem), ctaGroup(ctaGroup),
      element(problem.isF8() ? problem.getStorageType() : narrowType) {}

void NormBuilder::addNormOperands() {
  addOperand(x, problem.x);
  addOperand(residual, problem.residual);
  addOperand(normWeight, problem.normWeight);
  addOperand(normBias, problem.normBias);
}

void NormBuilder::addNormResults() {
  if (problem.streamResult >= 0)
    addResult(stream, problem.streamResult);
  if (problem.normedResult >= 0)
    addResult(normed, problem.normedResult);
}

void NormBuilder::makeNormScratch() {
  if (problem.hasTokenScales())
    largestBuffer = makeScratch(f32, ctaGroup.last - ctaGroup.first);
  if (!problem.norm)
    return;
  // The sums of a layer norm's mean are read while those of its variance are
  // written.
  int64_t count = problem.norm.getKind() == NormKind::Layer ? 2 : 1;
  for (int64_t index = 0; index < count; ++index)
    sumBuffers.push_back(makeScratch(f32, ctaGroup.last - ctaGroup.first));
}

/// Requests a row: x, residual, weight and bias of every chunk, in order.
NormBuilder::Values NormBuilder::loadRow(Value row, bool early) {
  // Columns that all threads take at a time.
  int64_t chunkSize = ctaGroup.getThreads() * 8;
  Values vectors;
  Type vector = VectorType::get(8, narrowType);
  for (int64_t chunk = 0; chunk < problem.width; chunk += chunkSize) {
    Value column = add(mul(thread, 8), chunk);
    if (chunk + chunkSize > problem.width)
      column =
          select(less(column, constant(problem.width)), column, constant(0));
    Value index = add(mul(row, problem.width), column);
    for (auto [buffer, at] :
         {std::pair(x, index), std::pair(residual, index),
          std::pair(normWeight, column), std::pair(normBias, column)})
      vectors.push_back(buffer ? load(vector, buffer, at, early) : Value());
  }
  return vectors;
}

/// Eight columns of a row as its statistics see them. The stream is stored
/// where it is wanted.
NormBuilder::Chunk NormBuilder::openChunk(Value row, Value column, Value inside,
                                          ArrayRef<Value> vectors,
                                          bool storesStream) {
  Chunk chunk;
  chunk.column = column;
  chunk.inside = inside;
  chunk.x = unpack(vectors[0]);
  if (residual)
    chunk.x =
        round(RoundingPoint::Stream, addEach(chunk.x, unpack(vectors[1])));
  if (stream && storesStream)
    when(chunk.inside, [&] {
      store(pack(narrowType, chunk.x), stream,
            add(mul(row, problem.width), chunk.column));
    });
  // Columns past the end must not count in the statistics.
  if (chunk.inside)
    chunk.x = each(chunk.x, [&](Value v) {
      return select(chunk.inside, v, constantF32(0));
    });
  if (vectors[2])
    chunk.weight = unpack(vectors[2]);
  if (vectors[3])
    chunk.bias = unpack(vectors[3]);
  return chunk;
}

/// Adds what `map` makes of the columns of a chunk.
Value NormBuilder::sumChunk(Value total, const Chunk &chunk,
                            function_ref<Value(Value)> map) {
  for (Value v : chunk.x) {
    Value term = map(v);
    if (chunk.inside)
      term = select(chunk.inside, term, constantF32(0));
    total = total ? fadd(total, term) : term;
  }
  return total;
}

/// The mean over a row of what each thread has summed up.
Value NormBuilder::meanOf(Value total, Value buffer) {
  total = ReduceOp::create(builder, loc, f32, total, buffer, ctaGroup.first,
                           ctaGroup.last, ctaGroup.barrier,
                           /*max=*/false);
  return fdiv(total, constantF32(problem.width));
}

Value NormBuilder::scaleOf(Value square) {
  Value eps = constantF32(problem.norm.getEps().getValueAsDouble());
  return fdiv(constantF32(1),
              math::SqrtOp::create(builder, loc, fadd(square, eps)));
}

Value NormBuilder::findLargest(ArrayRef<Value> values) {
  Value largest;
  for (Value value : values) {
    Value magnitude = math::AbsFOp::create(builder, loc, value);
    largest = largest
                  ? arith::MaximumFOp::create(builder, loc, largest, magnitude)
                  : magnitude;
  }
  return largest;
}

Value NormBuilder::findLargestOfLanes(Value value, int64_t lanes) {
  return LaneMaxOp::create(builder, loc, f32, value, lanes);
}

Value NormBuilder::measureScale(Value largest) {
  QuantAttr quant = problem.quant;
  auto toF32 = [&](FloatAttr attr) {
    return constantF32(static_cast<float>(attr.getValueAsDouble()));
  };
  float code = APFloat::getLargest(cast<FloatType>(element).getFloatSemantics())
                   .convertToFloat();
  bool boundsScale = quant.getFloorKind() == ScaleFloor::Scale;
  Value floor = toF32(quant.getFloor());
  auto max = [&](Value x) -> Value {
    return arith::MaximumFOp::create(builder, loc, x, floor);
  };
  if (!boundsScale)
    largest = max(largest);
  if (FloatAttr upper = quant.getUpper())
    largest = arith::MinimumFOp::create(builder, loc, largest, toF32(upper));
  Value scale = quant.getScaleOp() == QuantOrder::Reciprocal
                    ? fmul(largest, constantF32(1.0f / code))
                    : fdiv(largest, constantF32(code));
  return boundsScale ? max(scale) : scale;
}

NormBuilder::Values NormBuilder::divideByScale(ArrayRef<Value> values,
                                               Value scale) {
  if (problem.quant.getOrder() == QuantOrder::Divide)
    return each(values, [&](Value v) { return fdiv(v, scale); });
  Value factor = fdiv(constantF32(1), scale);
  return each(values, [&](Value v) { return fmul(v, factor); });
}

/// Scales and weighs the columns of a chunk.
NormBuilder::Values NormBuilder::weighChunk(Value row, const Chunk &chunk,
                                            Value scale) {
  SmallVector<Value> values = chunk.x;
  if (problem.norm) {
    values = each(values, [&](Value v) { return fmul(v, scale); });
    bool rms = problem.norm.getKind() == NormKind::RMS;
    bool before = rms && problem.norm.getCast() == NormCast::BeforeWeight;
    SmallVector<Value> weight = chunk.weight;
    if (rms && problem.norm.getOffset() != 0 && !weight.empty()) {
      weight = each(weight, [&](Value v) {
        return fadd(v, constantF32(problem.norm.getOffset()));
      });
      if (before)
        weight = unpack(pack(narrowType, weight));
    }
    if (before && !weight.empty())
      values = unpack(pack(narrowType, values));
    if (!weight.empty())
      values = mulEach(values, weight);
    if (!chunk.bias.empty())
      values = addEach(values, chunk.bias);
    values = round(RoundingPoint::Normed, values);
  }
  if (normed)
    when(chunk.inside, [&] {
      store(pack(narrowType, values), normed,
            add(mul(row, problem.width), chunk.column));
    });
  return values;
}

/// Quantizes and stores the columns of a chunk.
void NormBuilder::storeChunk(Value row, const Chunk &chunk, Values values) {
  Value stored = chunk.inside;
  if (stored && inputColumns() != problem.width) {
    values = each(values, [&](Value v) {
      return select(chunk.inside, v, constantF32(0));
    });
    stored = less(chunk.column, constant(inputColumns()));
  }
  Value packed = quantizeChunk(row, chunk, values, stored);
  when(stored, [&] { store(packed, input, inputIndex(row, chunk.column)); });
}

/// Quantizes the columns of a chunk. With measured scales, sixteen lanes have a
/// group, of which all columns are in the row or none.
Value NormBuilder::quantizeChunk(Value row, const Chunk &chunk,
                                 ArrayRef<Value> values, Value stored) {
  if (!problem.quant)
    return quantize(values, inputScale);
  if (problem.hasTokenScales())
    return pack(element, divideByScale(values, tokenScale));
  constexpr int64_t lanes = kScaleBlock / 8;
  Value largest = findLargestOfLanes(findLargest(values), lanes - 1);
  Value scale = measureScale(largest);
  when(both(equal(rem(thread, lanes), 0), stored),
       [&] { storeInputScale(scale, row, div(chunk.column, kScaleBlock)); });
  return pack(element, divideByScale(values, scale));
}

void NormBuilder::normalizeRow(Value row, ArrayRef<Value> loaded) {
  int64_t chunkSize = ctaGroup.getThreads() * 8;
  SmallVector<Chunk> chunks;
  for (size_t index = 0; index * chunkSize < static_cast<size_t>(problem.width);
       ++index) {
    Value column = add(mul(thread, 8), index * chunkSize), inside;
    if (static_cast<int64_t>(index + 1) * chunkSize > problem.width)
      inside = less(column, constant(problem.width));
    chunks.push_back(openChunk(row, column, inside, loaded.slice(4 * index, 4),
                               /*storesStream=*/true));
  }

  auto sum = [&](Value buffer, function_ref<Value(Value)> map) -> Value {
    Value total;
    for (Chunk &chunk : chunks)
      total = sumChunk(total, chunk, map);
    return meanOf(total, buffer);
  };
  Value mean, scale;
  if (problem.norm) {
    if (problem.norm.getKind() == NormKind::Layer) {
      mean = sum(sumBuffers[1], [](Value v) { return v; });
      for (Chunk &chunk : chunks)
        chunk.x = each(chunk.x, [&](Value v) { return fsub(v, mean); });
    }
    scale = scaleOf(sum(sumBuffers[0], [&](Value v) { return fmul(v, v); }));
  }
  if (!problem.hasTokenScales()) {
    for (Chunk &chunk : chunks)
      finishChunk(row, chunk, scale);
    return;
  }
  SmallVector<Values> weighed;
  Values largest;
  for (Chunk &chunk : chunks) {
    weighed.push_back(weighChunk(row, chunk, scale));
    Value ofChunk = findLargest(weighed.back());
    largest.push_back(
        chunk.inside ? select(chunk.inside, ofChunk, constantF32(0)) : ofChunk);
  }
  tokenScale = measureScale(ReduceOp::create(
      builder, loc, f32, findLargest(largest), largestBuffer, ctaGroup.first,
      ctaGroup.last, ctaGroup.barrier, /*max=*/true));
  when(equal(thread, 0), [&] { storeInputScale(tokenScale, row, Value()); });
  for (auto [chunk, values] : llvm::zip_equal(chunks, weighed))
    storeChunk(row, chunk, values);
}

/// The same for a CTA group with few registers: a pass over the row for each of
/// its sums, and one that stores.
void NormBuilder::normalizeRowInPasses(Value row) {
  // Vectors in flight at a time, of four registers each.
  constexpr int64_t kVectorsInFlight = 4;
  Type vector = VectorType::get(8, narrowType);
  int64_t chunkSize = ctaGroup.getThreads() * 8;
  int64_t chunks = llvm::divideCeil(problem.width, chunkSize);
  // `buffers` are those of which a chunk needs columns, null for others.
  auto pass = [&](std::array<Value, 4> buffers, ValueRange carried,
                  function_ref<Values(const Chunk &, ValueRange)> body) {
    int64_t needed = llvm::count_if(buffers, [](Value v) { return bool(v); });
    int64_t together =
        std::min(chunks, std::max<int64_t>(1, kVectorsInFlight / needed));
    auto all = static_cast<int64_t>(llvm::alignTo(chunks, together));
    bool isRagged = all * chunkSize != problem.width;
    bool isLast = carried.empty();
    auto visit = [&](Value first, ValueRange carried) -> Values {
      SmallVector<std::array<Value, 4>> loaded(together);
      SmallVector<std::pair<Value, Value>> places;
      for (int64_t at = 0; at < together; ++at) {
        Value column = add(mul(add(first, at), chunkSize), mul(thread, 8));
        Value inside;
        if (isRagged)
          inside = less(column, constant(problem.width));
        places.push_back({column, inside});
        Value from = inside ? select(inside, column, constant(0)) : column;
        for (auto [index, buffer] : llvm::enumerate(buffers))
          if (buffer)
            loaded[at][index] =
                load(vector, buffer,
                     index < 2 ? add(mul(row, problem.width), from) : from);
      }
      Values values = llvm::to_vector_of<Value>(carried);
      for (auto [place, vectors] : llvm::zip_equal(places, loaded))
        values = body(openChunk(row, place.first, place.second, vectors,
                                /*storesStream=*/isLast),
                      values);
      return values;
    };
    Values results =
        loop(constant(0), constant(chunks), together, carried, visit);
    std::prev(builder.getInsertionPoint())
        ->setAttr(kRolledAttrName, builder.getUnitAttr());
    return results;
  };
  auto sum = [&](Value buffer, function_ref<Value(Value)> map) -> Value {
    auto body = [&](const Chunk &chunk, ValueRange carried) -> Values {
      return {sumChunk(carried[0], chunk, map)};
    };
    return meanOf(
        pass({x, residual, Value(), Value()}, constantF32(0), body)[0], buffer);
  };
  Value mean, scale;
  if (problem.norm) {
    if (problem.norm.getKind() == NormKind::Layer)
      mean = sum(sumBuffers[1], [](Value v) { return v; });
    auto center = [&](Value v) { return mean ? fsub(v, mean) : v; };
    scale = scaleOf(sum(sumBuffers[0], [&](Value v) {
      Value difference = center(v);
      return fmul(difference, difference);
    }));
  }
  pass({x, residual, normWeight, normBias}, {},
       [&](const Chunk &chunk, ValueRange) -> Values {
         Chunk centered = chunk;
         if (mean)
           centered.x = each(chunk.x, [&](Value v) { return fsub(v, mean); });
         finishChunk(row, centered, scale);
         return {};
       });
}

void NormBuilder::normalizeAll(Value first, Value count, int64_t stride) {
  // What is the same for all rows is read once.
  auto loadOrLast = [&](Value row) {
    return loadRow(min(row, sub(count, constant(1))), /*early=*/false);
  };
  Values requested = loadOrLast(first);
  auto isOfRow = [](size_t index) { return index % 4 < 2; };
  auto getCarried = [&](ArrayRef<Value> loaded) {
    Values carried;
    for (auto [index, value] : llvm::enumerate(loaded))
      if (value && isOfRow(index))
        carried.push_back(value);
    return carried;
  };
  loop(first, count, stride, getCarried(requested),
       [&](Value row, ValueRange carried) -> SmallVector<Value> {
         Values current = requested;
         for (auto [index, value] : llvm::enumerate(current))
           if (value && isOfRow(index)) {
             value = carried.front();
             carried = carried.drop_front();
           }
         Values next = getCarried(loadOrLast(add(row, stride)));
         normalizeRow(row, current);
         // The next row's sums reuse the scratch of this one's.
         if (problem.norm || problem.hasTokenScales())
           barrier();
         return next;
       });
}
