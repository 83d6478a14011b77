//===- NormBuilder.h - Emitter of norms ---------------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_HOPPER_EMIT_NORMBUILDER_H
#define FUSE_CODEGEN_HOPPER_EMIT_NORMBUILDER_H

#include "KernelBuilder.h"

namespace fuse {

/// Emits `[residual add] [norm] [quantize]` of token rows, each by all
/// threads of a CTA group of warps.
class NormBuilder : public KernelBuilder {
public:
  /// The warps of the CTA group and the named barrier of their threads.
  struct CtaGroup {
    int64_t first, last, barrier;
    int64_t getThreads() const { return (last - first) * 32; }
  };

  NormBuilder(const MlpProblem &problem, CtaGroup ctaGroup,
              mlir::OpBuilder &builder);
  virtual ~NormBuilder() = default;

protected:
  /// x, residual, weight and bias of every vector of a row, in order; null
  /// for those that the problem does not have.
  /// `early` loads are issued before whatever follows.
  Values loadRow(Value row, bool early);
  void normalizeRow(Value row, llvm::ArrayRef<Value> loaded);
  void normalizeRowInPasses(Value row);
  /// Normalizes rows `first`, `first + stride`, ... below `count`. The next
  /// row is in flight while a row waits for its sums.
  void normalizeAll(Value first, Value count, int64_t stride);
  void addNormOperands();
  void addNormResults();
  /// Shared memory for the sums over a row.
  void makeNormScratch();
  /// Stores the scale of a row's group of columns.
  virtual void storeInputScale(Value scale, Value row, Value group) {}
  /// Where an element of the quantized input goes: a row after the other.
  virtual Value inputIndex(Value row, Value column) {
    return add(mul(row, problem.width), column);
  }
  /// Columns of a row that are stored; those past its end are zero.
  virtual int64_t inputColumns() const { return problem.width; }
  /// All threads of the CTA group.
  void barrier() {
    tile::BarrierOp::create(builder, loc,
                            builder.getI64IntegerAttr(ctaGroup.barrier),
                            builder.getI64IntegerAttr(ctaGroup.getThreads()));
  }

  /// Rounds values where the contract has a rounding point.
  Values round(RoundingPoint point, llvm::ArrayRef<Value> values) {
    if (!problem.roundsAt(point))
      return llvm::to_vector(values);
    return unpack(pack(narrowType, values));
  }
  /// Values over a scale, in the type that products read.
  Value quantize(llvm::ArrayRef<Value> values, Value scale) {
    return KernelBuilder::quantize(values, scale, problem.scales, element);
  }
  /// The largest magnitude of values.
  Value findLargest(llvm::ArrayRef<Value> values);
  Value findLargestOfLanes(Value value, int64_t lanes);
  /// The scale of values whose largest magnitude is `largest`, and values over
  /// such a scale.
  Value measureScale(Value largest);
  Values divideByScale(llvm::ArrayRef<Value> values, Value scale);

private:
  /// Eight columns of a row, and whether they are inside of it where some are
  /// not.
  struct Chunk {
    Value column, inside;
    Values x, weight, bias;
  };
  Chunk openChunk(Value row, Value column, Value inside,
                  llvm::ArrayRef<Value> vectors, bool storesStream);
  Value sumChunk(Value total, const Chunk &chunk,
                 llvm::function_ref<Value(Value)> map);
  Value meanOf(Value total, Value buffer);
  Value scaleOf(Value square);
  void finishChunk(Value row, const Chunk &chunk, Value scale) {
    storeChunk(row, chunk, weighChunk(row, chunk, scale));
  }
  Values weighChunk(Value row, const Chunk &chunk, Value scale);
  void storeChunk(Value row, const Chunk &chunk, Values values);
  Value quantizeChunk(Value row, const Chunk &chunk,
                      llvm::ArrayRef<Value> values, Value stored);

protected:
  const MlpProblem &problem;
  CtaGroup ctaGroup;
  /// Type of the quantized input: that of its scales, or bf16.
  mlir::Type element;
  Value x, residual, normWeight, normBias, stream, normed, inputScale;
  /// Where the quantized input goes, and the index of the thread in the CTA
  /// group.
  Value input, thread;
  Values sumBuffers;

private:
  /// Scratch for the largest magnitude of a row, and its scale.
  Value largestBuffer, tokenScale;
};

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_EMIT_NORMBUILDER_H
