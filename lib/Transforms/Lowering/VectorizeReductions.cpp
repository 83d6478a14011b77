//===- VectorizeReductions.cpp - Block and vectorize reductions -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A sum along a contiguous dimension becomes a fixed number of partial sums,
// one per lane. A tree adds them at the end. The results of a block share the
// vectors that they load: if rows and columns are both blocked, each vector of
// one operand is combined with all vectors of the other.
//
// The partial sums of a result do not depend on its block or on the number of
// rows, and neither does its value.
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/Support/MathExtras.h"

namespace fuse {
#define GEN_PASS_DEF_VECTORIZEREDUCTIONSPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-vectorize-reductions"

using namespace mlir;
using namespace fuse;

namespace {

/// A reduction that can be vectorized.
struct Reduction {
  linalg::GenericOp op;
  /// Adds one term to the sum: fma, addf or addi.
  Operation *combiner;
  /// Static size of the reduction dimension, which is the last one.
  int64_t size;

  unsigned getNumParallel() { return op.getNumLoops() - 1; }
  Value getSumArgument() { return op.getBody()->getArguments().back(); }
};

} // namespace

/// Whether `map` reads the reduction dimension.
static bool readsReduction(AffineMap map) {
  return map.isFunctionOfDim(map.getNumDims() - 1);
}

/// Matches `op` as a reduction that can be vectorized. On failure, sets
/// `reason`.
static FailureOr<Reduction> matchReduction(linalg::GenericOp op, int64_t lanes,
                                           StringRef &reason) {
  auto fail = [&](StringRef why) {
    reason = why;
    return failure();
  };
  if (!op.hasPureBufferSemantics())
    return fail("operands are not buffers");
  auto iterators = op.getIteratorTypesArray();
  if (op.getNumReductionLoops() != 1 ||
      iterators.back() != utils::IteratorType::reduction)
    return fail("the last loop is not the only reduction");
  if (op.getNumLoops() < 2 || op.getNumLoops() > 3)
    return fail("there are not one or two parallel loops");
  if (op.getNumDpsInits() != 1 || op.hasIndexSemantics())
    return fail("the body is not a plain sum");
  int64_t size = op.getStaticLoopRanges().back();
  if (ShapedType::isDynamic(size))
    return fail("the number of terms is not static");

  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    AffineMap map = op.getMatchingIndexingMap(&operand);
    if (!type || !map.isProjectedPermutation())
      return fail("an operand is not read at plain indices");
    if (!type.getElementType().isIntOrFloat())
      return fail("an operand has elements of no known size");
    if (!readsReduction(map))
      continue;
    if (op.isDpsInit(&operand))
      return fail("the result depends on the reduction loop");
    auto [strides, offset] = type.getStridesAndOffset();
    if (map.getResults().back() !=
            getAffineDimExpr(map.getNumDims() - 1, op.getContext()) ||
        strides.back() != 1)
      return fail("an operand is not contiguous along the reduction");
  }

  Reduction reduction = {op, nullptr, size};
  Value sum = reduction.getSumArgument();
  Operation *combiner =
      op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  if (!combiner || !sum.hasOneUse() || *sum.user_begin() != combiner ||
      !isa<math::FmaOp, arith::AddFOp, arith::AddIOp>(combiner))
    return fail("the body does not add to the sum");
  if (auto fma = dyn_cast<math::FmaOp>(combiner); fma && fma.getC() != sum)
    return fail("the sum is a factor");
  for (Operation &member : op.getBody()->without_terminator()) {
    if (!OpTrait::hasElementwiseMappableTraits(&member) &&
        !isa<arith::ConstantOp>(member))
      return fail("the body has an op without a vector form");
    // Lanes after the last term are zero, and integers cannot be divided by
    // zero.
    if (size % lanes != 0 && !isSpeculatable(&member))
      return fail("the body has an op that is undefined for some values");
  }
  reduction.combiner = combiner;
  return reduction;
}

namespace {

/// Emits the sums of one block of results.
class BlockEmitter {
public:
  BlockEmitter(ImplicitLocOpBuilder &b, Reduction reduction, int64_t lanes,
               SmallVector<Value> origin, SmallVector<int64_t> block)
      : b(b), reduction(reduction), op(reduction.op), lanes(lanes),
        origin(std::move(origin)), block(std::move(block)) {}

  void emit();

private:
  /// One result of the block: its offsets from the block's origin.
  using Position = SmallVector<int64_t, 2>;

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }
  Type vectorOf(Type element) { return VectorType::get({lanes}, element); }
  /// Indices of an operand for one result and one term.
  SmallVector<Value> indicesOf(AffineMap map, const Position &position,
                               Value term);
  /// The vector of a value of the body: `count` terms, and zeros in the other
  /// lanes.
  Value materialize(Value value, const Position &position, Value term,
                    int64_t count);
  Value load(OpOperand &operand, const Position &position, Value term,
             int64_t count);
  /// Adds `count` terms to the partial sums of all results.
  SmallVector<Value> accumulate(ValueRange sums, Value term, int64_t count);
  /// The sum of all lanes.
  Value addLanes(Value vector);
  Value plus(Value lhs, Value rhs) {
    if (isa<IntegerType>(getElementTypeOrSelf(lhs.getType())))
      return arith::AddIOp::create(b, lhs, rhs);
    return arith::AddFOp::create(b, lhs, rhs);
  }

  ImplicitLocOpBuilder &b;
  Reduction reduction;
  linalg::GenericOp op;
  int64_t lanes;
  SmallVector<Value> origin;
  SmallVector<int64_t> block;
  SmallVector<Position> positions;
  /// Existing vectors, by value and the offsets on which they depend.
  DenseMap<std::pair<Value, uint64_t>, Value> cache;
  /// Dimensions that each value of the body depends on, as a bit set.
  DenseMap<Value, unsigned> dependences;

  unsigned dependencesOf(Value value);
};

} // namespace

unsigned BlockEmitter::dependencesOf(Value value) {
  auto [entry, inserted] = dependences.try_emplace(value, 0);
  if (!inserted)
    return entry->second;
  unsigned bits = 0;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() == op.getBody()) {
      AffineMap map =
          op.getMatchingIndexingMap(op.getMatchingOpOperand(argument));
      for (unsigned dim = 0; dim < block.size(); ++dim)
        if (map.isFunctionOfDim(dim))
          bits |= 1u << dim;
    }
  } else if (value.getDefiningOp()->getBlock() == op.getBody()) {
    for (Value operand : value.getDefiningOp()->getOperands())
      bits |= dependencesOf(operand);
  }
  return dependences[value] = bits;
}

SmallVector<Value>
BlockEmitter::indicesOf(AffineMap map, const Position &position, Value term) {
  SmallVector<Value> indices;
  for (AffineExpr result : map.getResults()) {
    unsigned dim = cast<AffineDimExpr>(result).getPosition();
    if (dim == block.size()) {
      indices.push_back(term);
      continue;
    }
    Value offset = origin[dim];
    if (position[dim] != 0)
      offset = arith::AddIOp::create(b, offset, index(position[dim]));
    indices.push_back(offset);
  }
  return indices;
}

Value BlockEmitter::load(OpOperand &operand, const Position &position,
                         Value term, int64_t count) {
  AffineMap map = op.getMatchingIndexingMap(&operand);
  Value buffer = operand.get();
  Type element = cast<MemRefType>(buffer.getType()).getElementType();
  SmallVector<Value> indices = indicesOf(map, position, term);
  if (!readsReduction(map)) {
    Value scalar = memref::LoadOp::create(b, buffer, indices);
    return vector::BroadcastOp::create(b, vectorOf(element), scalar);
  }
  if (count == lanes)
    return vector::LoadOp::create(b, cast<VectorType>(vectorOf(element)),
                                  buffer, indices);
  // Assemble the remaining terms from parts whose sizes are powers of two. Zero
  // is all zero bits in every type, including types without a constant.
  Type bits = b.getIntegerType(element.getIntOrFloatBitWidth());
  Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(vectorOf(bits)));
  Value all = arith::BitcastOp::create(b, vectorOf(element), zeros);
  int64_t done = 0;
  for (int64_t part = lanes / 2; part > 0; part /= 2) {
    if (!(count & part))
      continue;
    indices.back() =
        done == 0 ? term
                  : arith::AddIOp::create(b, term, index(done)).getResult();
    Value piece = vector::LoadOp::create(b, VectorType::get({part}, element),
                                         buffer, indices);
    all = vector::InsertStridedSliceOp::create(b, piece, all, done, int64_t(1));
    done += part;
  }
  return all;
}

Value BlockEmitter::materialize(Value value, const Position &position,
                                Value term, int64_t count) {
  unsigned bits = dependencesOf(value);
  uint64_t place = 0;
  for (auto [dim, offset] : llvm::enumerate(position))
    if (bits & (1u << dim))
      place |= uint64_t(offset + 1) << (16 * dim);
  auto key = std::make_pair(value, place);
  if (Value known = cache.lookup(key))
    return known;
  Value result;
  if (auto argument = dyn_cast<BlockArgument>(value);
      argument && argument.getOwner() == op.getBody()) {
    result = load(*op.getMatchingOpOperand(argument), position, term, count);
  } else if (Operation *def = value.getDefiningOp();
             def && def->getBlock() == op.getBody() &&
             !isa<arith::ConstantOp>(def)) {
    SmallVector<Value> operands;
    for (Value operand : def->getOperands())
      operands.push_back(materialize(operand, position, term, count));
    Operation *vectorized =
        b.create(def->getLoc(), def->getName().getIdentifier(), operands,
                 vectorOf(value.getType()), def->getAttrs());
    result = vectorized->getResult(0);
  } else {
    // A scalar from outside of the body, or a constant.
    if (def && def->getBlock() == op.getBody())
      value = b.clone(*def)->getResult(0);
    result = vector::BroadcastOp::create(b, vectorOf(value.getType()), value);
  }
  return cache[key] = result;
}

SmallVector<Value> BlockEmitter::accumulate(ValueRange sums, Value term,
                                            int64_t count) {
  cache.clear();
  Value mask;
  if (count != lanes) {
    SmallVector<bool> active(lanes, false);
    std::fill_n(active.begin(), count, true);
    mask = arith::ConstantOp::create(
        b, DenseElementsAttr::get(VectorType::get({lanes}, b.getI1Type()),
                                  active));
  }
  SmallVector<Value> results;
  for (auto [position, sum] : llvm::zip_equal(positions, sums)) {
    SmallVector<Value> operands;
    for (Value operand : reduction.combiner->getOperands())
      operands.push_back(operand == reduction.getSumArgument()
                             ? sum
                             : materialize(operand, position, term, count));
    Operation *combined =
        b.create(reduction.combiner->getLoc(),
                 reduction.combiner->getName().getIdentifier(), operands,
                 sum.getType(), reduction.combiner->getAttrs());
    Value result = combined->getResult(0);
    // In lanes beyond the end, a term need not be 0.
    if (mask)
      result = arith::SelectOp::create(b, mask, result, sum);
    results.push_back(result);
  }
  return results;
}

Value BlockEmitter::addLanes(Value vector) {
  for (int64_t width = lanes / 2; width > 0; width /= 2) {
    Value low = vector::ExtractStridedSliceOp::create(b, vector, int64_t(0),
                                                      width, int64_t(1));
    Value high = vector::ExtractStridedSliceOp::create(b, vector, width, width,
                                                       int64_t(1));
    vector = plus(low, high);
  }
  return vector::ExtractOp::create(b, vector, int64_t(0));
}

void BlockEmitter::emit() {
  positions.push_back(Position());
  for (int64_t size : block) {
    SmallVector<Position> extended;
    for (const Position &position : positions)
      for (int64_t offset = 0; offset < size; ++offset) {
        extended.push_back(position);
        extended.back().push_back(offset);
      }
    positions = std::move(extended);
  }

  Type element = reduction.getSumArgument().getType();
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(vectorOf(element)));
  SmallVector<Value> sums(positions.size(), zero);
  int64_t whole = reduction.size - reduction.size % lanes;
  if (whole > 0) {
    auto loop =
        scf::ForOp::create(b, index(0), index(whole), index(lanes), sums);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> next =
        accumulate(loop.getRegionIterArgs(), loop.getInductionVar(), lanes);
    scf::YieldOp::create(b, next);
    sums.assign(loop.getResults().begin(), loop.getResults().end());
  }
  if (whole != reduction.size)
    sums = accumulate(sums, index(whole), reduction.size - whole);

  OpOperand *init = op.getDpsInitOperand(0);
  AffineMap map = op.getMatchingIndexingMap(init);
  for (auto [position, sum] : llvm::zip_equal(positions, sums)) {
    SmallVector<Value> indices = indicesOf(map, position, Value());
    Value start = memref::LoadOp::create(b, init->get(), indices);
    memref::StoreOp::create(b, plus(start, addLanes(sum)), init->get(),
                            indices);
  }
}

/// Emits nested loops over the parallel dimensions `dims`. Each dimension has a
/// loop over blocks and a loop over the remaining single results.
static void emitLoops(ImplicitLocOpBuilder &b, Reduction reduction,
                      ArrayRef<unsigned> dims, ArrayRef<OpFoldResult> sizes,
                      int64_t lanes, ArrayRef<int64_t> blockSizes,
                      SmallVector<Value> origin, SmallVector<int64_t> block) {
  if (dims.empty()) {
    BlockEmitter(b, reduction, lanes, std::move(origin), std::move(block))
        .emit();
    return;
  }
  unsigned dim = dims.front();
  int64_t blockSize = blockSizes[dim];
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(b, value);
  };
  auto emitLoop = [&](Value from, Value to, int64_t step) {
    auto loop = scf::ForOp::create(b, from, to, index(step));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    origin[dim] = loop.getInductionVar();
    block[dim] = step;
    emitLoops(b, reduction, dims.drop_front(), sizes, lanes, blockSizes, origin,
              block);
  };
  if (std::optional<int64_t> size = getConstantIntValue(sizes[dim])) {
    int64_t whole = *size - *size % blockSize;
    if (whole > 0)
      emitLoop(index(0), index(whole), blockSize);
    if (whole != *size)
      emitLoop(index(whole), index(*size), 1);
    return;
  }
  Value size = cast<Value>(sizes[dim]);
  if (blockSize == 1)
    return emitLoop(index(0), size, 1);
  Value rest = arith::RemUIOp::create(b, size, index(blockSize));
  Value whole = arith::SubIOp::create(b, size, rest);
  emitLoop(index(0), whole, blockSize);
  emitLoop(whole, size, 1);
}

namespace {

struct VectorizeReductionsPass
    : fuse::impl::VectorizeReductionsPassBase<VectorizeReductionsPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(checkOptions()))
      return signalPassFailure();
    SmallVector<linalg::GenericOp> ops;
    getOperation()->walk([&](linalg::GenericOp op) {
      if (op.getNumReductionLoops() != 0)
        ops.push_back(op);
    });
    for (linalg::GenericOp op : ops) {
      StringRef reason;
      FailureOr<Reduction> reduction = matchReduction(op, lanes, reason);
      if (failed(reduction)) {
        LLVM_DEBUG(llvm::dbgs()
                   << "left as loops, " << reason << ": " << op << "\n");
        ++numDeclined;
        continue;
      }
      vectorize(*reduction);
      ++numVectorized;
    }
  }

  LogicalResult checkOptions() {
    int64_t numLanes = lanes, numRows = rows, numColumns = columns;
    if (!llvm::isPowerOf2_64(numLanes) || numLanes > 64)
      return getOperation()->emitError()
             << "expected 'lanes' to be a power of two up to 64, got "
             << numLanes;
    if (std::min(numRows, numColumns) < 1 || std::max(numRows, numColumns) > 16)
      return getOperation()->emitError()
             << "expected 'rows' and 'columns' from 1 to 16, got " << numRows
             << " and " << numColumns;
    return success();
  }

  void vectorize(Reduction reduction) {
    linalg::GenericOp op = reduction.op;
    ImplicitLocOpBuilder b(op.getLoc(), op);
    SmallVector<OpFoldResult> sizes;
    for (Range range : cast<linalg::LinalgOp>(op.getOperation())
                           .createLoopRanges(b, op.getLoc()))
      sizes.push_back(range.size);
    unsigned numParallel = reduction.getNumParallel();
    // The columns of a product are the rows of a weight. They are the outer
    // loop, so that a block of them stays in the cache for all tokens.
    SmallVector<unsigned> dims = {0};
    if (numParallel == 2)
      dims.insert(dims.begin(), 1);
    emitLoops(b, reduction, dims, sizes, lanes, {rows, columns},
              SmallVector<Value>(numParallel),
              SmallVector<int64_t>(numParallel, 1));
    op.erase();
  }
};

} // namespace
