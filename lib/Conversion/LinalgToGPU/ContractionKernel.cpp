//===- ContractionKernel.cpp - Tiled contractions -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A contraction has one reduction loop k and two parallel loops, m and n. No
// input that varies along k varies along both m and n. A block computes a tile
// of m and n; other parallel loops are batches.
//
// The body is arbitrary. Its values that do not vary along n (casts, a merged
// norm) are computed once per element of an m-k tile and stored in workgroup
// memory. Values that do not vary along m are stored likewise in n-k tiles. All
// other values are computed in registers for each point, in the order of k. The
// last step of k is shorter instead of masked, so zero need not be a neutral
// element.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fuse;

/// Threads of a block along m and along n. Each thread computes kPerThread
/// squared points that are kThreads apart, so that neighboring threads access
/// neighboring words.
static constexpr int64_t kThreads = 16;
static constexpr int64_t kPerThread = 4;
static constexpr int64_t kTile = kThreads * kPerThread;
static constexpr int64_t kStep = 16;
static constexpr int64_t kNumThreads = kThreads * kThreads;
/// Padding of the rows of a staged tile, in elements, so that threads that
/// write a column access different banks.
static constexpr int64_t kPadding = 4;
/// Bytes of workgroup memory that every chip provides without opt-in.
static constexpr int64_t kMaxWorkgroup = 48 * 1024;

namespace {

/// The loops and values of a contraction.
struct Contraction {
  unsigned m, n, k;
  SmallVector<unsigned> batches;
  /// Values computed per element of an m-k or n-k tile, and used by inner ops.
  SmallVector<Value> staged[2];
  /// Ops that are executed for every point.
  SmallVector<Operation *> inner;
  /// Inputs that vary along both m and n.
  SmallVector<OpOperand *> innerInputs;
};

/// Emits the kernel of one contraction.
class ContractionEmitter {
public:
  ContractionEmitter(GPUKernelBuilder &k, Contraction &contraction)
      : k(k), b(k.get()), op(k.getOp()), c(contraction) {}
  void emit();

private:
  Value isInside(Value index, unsigned loop);
  void stage(unsigned side, Value step);
  SmallVector<Value> compute(Value step, ValueRange carried);
  SmallVector<Value> computeStep(Value kk, Value step, ValueRange carried);
  Value loadInner(OpOperand &input, ArrayRef<Value> ivs);
  SmallVector<Value> getPoint(unsigned i, unsigned j);
  /// Executes `then` if the point is inside of the loops; otherwise yields
  /// zeros.
  SmallVector<Value> guard(ArrayRef<Value> ivs, TypeRange types,
                           function_ref<SmallVector<Value>()> then);

  unsigned getNumOutputs() { return op.getNumDpsInits(); }

  GPUKernelBuilder &k;
  ImplicitLocOpBuilder &b;
  linalg::GenericOp op;
  Contraction &c;
  /// Start of the block's tile along m and n, first index of this thread,
  /// thread id.
  Value tileStart[2], threadStart[2], thread;
  SmallVector<Value> batchIvs;
};

} // namespace

//===----------------------------------------------------------------------===//
// Analysis
//===----------------------------------------------------------------------===//

static bool names(AffineMap map, unsigned loop) {
  return map.isFunctionOfDim(loop);
}

/// Finds the innermost pair of parallel loops that forms a contraction.
static bool findLoops(linalg::GenericOp op, ArrayRef<unsigned> parallel,
                      Contraction &c) {
  SmallVector<AffineMap> inputs;
  for (OpOperand *input : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(input);
    if (names(map, c.k))
      inputs.push_back(map);
  }
  for (unsigned n : llvm::reverse(parallel)) {
    for (unsigned m : llvm::reverse(parallel)) {
      auto namesM = [&](AffineMap map) { return names(map, m); };
      auto namesN = [&](AffineMap map) { return names(map, n); };
      if (m >= n || llvm::none_of(inputs, namesM) ||
          llvm::none_of(inputs, namesN) ||
          llvm::any_of(inputs, [&](AffineMap map) {
            return namesM(map) && namesN(map);
          }))
        continue;
      c.m = m;
      c.n = n;
      for (unsigned loop : parallel)
        if (loop != m && loop != n)
          c.batches.push_back(loop);
      return true;
    }
  }
  return false;
}

/// Classifies the values of the body by the loops along which they vary.
static bool classify(linalg::GenericOp op, Contraction &c) {
  enum Side { M = 1, N = 2, Inner = 4 };
  DenseMap<Value, unsigned> sides;
  for (OpOperand *input : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(input);
    unsigned side = (names(map, c.m) ? M : 0) | (names(map, c.n) ? N : 0);
    if (side == (M | N)) {
      side = Inner;
      c.innerInputs.push_back(input);
    }
    sides[op.getMatchingBlockArgument(input)] = side;
  }
  for (Value output : op.getRegionOutputArgs())
    sides[output] = Inner;

  llvm::SetVector<Value> staged[2];
  auto use = [&](Value value) {
    auto it = sides.find(value);
    if (it != sides.end() && it->second != Inner)
      staged[it->second == N].insert(value);
  };
  for (Operation &bodyOp : *op.getBody()) {
    if (bodyOp.getNumRegions() != 0 || !isPure(&bodyOp))
      return false;
    // Tiles hold numbers, so an index is computed for every point.
    unsigned side = isa<linalg::IndexOp>(bodyOp) ? Inner : 0;
    for (Value operand : bodyOp.getOperands())
      side |= sides.lookup(operand);
    bool isYield = bodyOp.hasTrait<OpTrait::IsTerminator>();
    if (isYield || side >= (M | N)) {
      side = Inner;
      for (Value operand : bodyOp.getOperands())
        use(operand);
      if (!isYield)
        c.inner.push_back(&bodyOp);
    }
    for (Value result : bodyOp.getResults())
      sides[result] = side;
  }

  int64_t bytes = 0;
  for (unsigned side : {0, 1}) {
    for (Value value : staged[side]) {
      if (!value.getType().isIntOrFloat())
        return false;
      bytes += llvm::divideCeil(value.getType().getIntOrFloatBitWidth(), 8) *
               kStep * (kTile + kPadding);
      c.staged[side].push_back(value);
    }
  }
  return bytes <= kMaxWorkgroup;
}

//===----------------------------------------------------------------------===//
// Emission
//===----------------------------------------------------------------------===//

/// Whether a tile index is inside of its loop, or null if all are.
Value ContractionEmitter::isInside(Value index, unsigned loop) {
  int64_t size = k.getStaticSize(loop);
  if (size != ShapedType::kDynamic && size % kTile == 0)
    return Value();
  return k.lessThan(index, k.getSize(loop));
}

SmallVector<Value>
ContractionEmitter::guard(ArrayRef<Value> ivs, TypeRange types,
                          function_ref<SmallVector<Value>()> then) {
  Value condition;
  for (unsigned loop : {c.m, c.n}) {
    if (!ivs[loop])
      continue;
    Value inside = isInside(ivs[loop], loop);
    if (condition && inside)
      condition = arith::AndIOp::create(b, condition, inside);
    else if (inside)
      condition = inside;
  }
  if (!condition)
    return then();
  auto ifOp = scf::IfOp::create(b, types, condition, !types.empty());
  OpBuilder::InsertionGuard insertion(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  SmallVector<Value> values = then();
  if (types.empty())
    return {};
  scf::YieldOp::create(b, values);
  b.setInsertionPointToStart(ifOp.elseBlock());
  SmallVector<Value> zeros;
  for (Type type : types)
    zeros.push_back(k.getZero(type));
  scf::YieldOp::create(b, zeros);
  return SmallVector<Value>(ifOp.getResults());
}

/// Loop indices of point (i, j) of this thread, without k.
SmallVector<Value> ContractionEmitter::getPoint(unsigned i, unsigned j) {
  SmallVector<Value> ivs = batchIvs;
  ivs[c.m] = k.add(threadStart[0], k.getIndex(i * kThreads));
  ivs[c.n] = k.add(threadStart[1], k.getIndex(j * kThreads));
  return ivs;
}

/// Computes the tile of one side for one step. Consecutive threads have
/// consecutive k, because the operands of a linear are contiguous along k.
void ContractionEmitter::stage(unsigned side, Value step) {
  if (c.staged[side].empty())
    return;
  unsigned loop = side == 0 ? c.m : c.n;
  unsigned firstBuffer = side == 0 ? 0 : c.staged[0].size();
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.omitBlockArguments = true;
  options.inclusive = true;
  options.filter = [&](Operation *producer) {
    return producer->getBlock() == op.getBody();
  };
  SmallVector<Type> types;
  for (Value value : c.staged[side]) {
    types.push_back(value.getType());
    if (value.getDefiningOp())
      (void)getBackwardSlice(value, &slice, options);
  }

  Value kk = arith::RemUIOp::create(b, thread, k.getIndex(kStep));
  Value row = arith::DivUIOp::create(b, thread, k.getIndex(kStep));
  Value kIndex = k.add(step, kk);
  for (int64_t i = 0; i < kTile * kStep / kNumThreads; ++i) {
    Value local = k.add(row, k.getIndex(i * kNumThreads / kStep));
    SmallVector<Value> ivs = batchIvs;
    ivs[loop] = k.add(tileStart[side], local);
    ivs[c.k] = kIndex;
    auto compute = [&]() {
      IRMapping mapping = k.getCaptures();
      auto loadInput = [&](Value value) {
        auto argument = dyn_cast<BlockArgument>(value);
        if (!argument || mapping.contains(value) ||
            argument.getOwner() != op.getBody())
          return;
        OpOperand *input = op.getMatchingOpOperand(argument);
        mapping.map(value, k.load(*input, ivs));
      };
      for (Value value : c.staged[side])
        loadInput(value);
      for (Operation &bodyOp : *op.getBody()) {
        if (!slice.contains(&bodyOp))
          continue;
        for (Value operand : bodyOp.getOperands())
          loadInput(operand);
        k.cloneOp(bodyOp, mapping, ivs);
      }
      SmallVector<Value> values;
      for (Value value : c.staged[side])
        values.push_back(mapping.lookup(value));
      return values;
    };

    // Rows and columns beyond the loops are staged as zero and never used.
    SmallVector<Value> values;
    int64_t kSize = k.getStaticSize(c.k);
    if (kSize != ShapedType::kDynamic && kSize % kStep == 0) {
      values = guard(ivs, types, compute);
    } else {
      auto ifOp = scf::IfOp::create(
          b, types, k.lessThan(kIndex, k.getSize(c.k)), /*withElse=*/true);
      OpBuilder::InsertionGuard insertion(b);
      b.setInsertionPointToStart(ifOp.thenBlock());
      scf::YieldOp::create(b, guard(ivs, types, compute));
      b.setInsertionPointToStart(ifOp.elseBlock());
      SmallVector<Value> zeros;
      for (Type type : types)
        zeros.push_back(k.getZero(type));
      scf::YieldOp::create(b, zeros);
      values.assign(ifOp.result_begin(), ifOp.result_end());
    }
    for (auto [index, value] : llvm::enumerate(values))
      memref::StoreOp::create(b, value, k.getWorkgroup(firstBuffer + index),
                              ValueRange{kk, local});
  }
}

Value ContractionEmitter::loadInner(OpOperand &input, ArrayRef<Value> ivs) {
  Type type = getElementTypeOrSelf(input.get().getType());
  return guard(ivs, type,
               [&] { return SmallVector<Value>{k.load(input, ivs)}; })[0];
}

/// Computes all points of this thread for one index of k.
SmallVector<Value> ContractionEmitter::computeStep(Value kk, Value step,
                                                   ValueRange carried) {
  // Staged values of both sides for this thread's rows and columns.
  SmallVector<SmallVector<Value>> staged[2];
  for (unsigned side : {0, 1}) {
    unsigned firstBuffer = side == 0 ? 0 : c.staged[0].size();
    for (unsigned index = 0; index < c.staged[side].size(); ++index) {
      auto &values = staged[side].emplace_back();
      Value first =
          arith::SubIOp::create(b, threadStart[side], tileStart[side]);
      for (int64_t i = 0; i < kPerThread; ++i)
        values.push_back(memref::LoadOp::create(
            b, k.getWorkgroup(firstBuffer + index),
            ValueRange{kk, k.add(first, k.getIndex(i * kThreads))}));
    }
  }

  unsigned numPoints = kPerThread * kPerThread;
  SmallVector<Value> results(carried.size());
  Value kIndex = k.add(step, kk);
  for (unsigned i = 0; i < kPerThread; ++i) {
    for (unsigned j = 0; j < kPerThread; ++j) {
      unsigned point = i * kPerThread + j;
      IRMapping mapping = k.getCaptures();
      for (auto [index, value] : llvm::enumerate(c.staged[0]))
        mapping.map(value, staged[0][index][i]);
      for (auto [index, value] : llvm::enumerate(c.staged[1]))
        mapping.map(value, staged[1][index][j]);
      SmallVector<Value> ivs = getPoint(i, j);
      ivs[c.k] = kIndex;
      for (OpOperand *input : c.innerInputs)
        mapping.map(op.getMatchingBlockArgument(input), loadInner(*input, ivs));
      for (auto [output, argument] : llvm::enumerate(op.getRegionOutputArgs()))
        mapping.map(argument, carried[output * numPoints + point]);
      for (Operation *bodyOp : c.inner)
        k.cloneOp(*bodyOp, mapping, ivs);
      for (auto [output, value] :
           llvm::enumerate(op.getBody()->getTerminator()->getOperands()))
        results[output * numPoints + point] = mapping.lookupOrDefault(value);
    }
  }
  return results;
}

/// Computes one step of k, which may be shorter than kStep.
SmallVector<Value> ContractionEmitter::compute(Value step, ValueRange carried) {
  Value length = k.getIndex(kStep);
  int64_t kSize = k.getStaticSize(c.k);
  if (kSize == ShapedType::kDynamic || kSize % kStep != 0) {
    Value rest = arith::SubIOp::create(b, k.getSize(c.k), step);
    length = arith::MinSIOp::create(b, length, rest);
  }
  auto loop =
      scf::ForOp::create(b, k.getIndex(0), length, k.getIndex(1), carried);
  OpBuilder::InsertionGuard insertion(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(
      b, computeStep(loop.getInductionVar(), step, loop.getRegionIterArgs()));
  return SmallVector<Value>(loop.getResults());
}

void ContractionEmitter::emit() {
  thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  Value column = arith::RemUIOp::create(b, thread, k.getIndex(kThreads));
  Value row = arith::DivUIOp::create(b, thread, k.getIndex(kThreads));
  // Tiles of m and batches are numbered along x, because a grid can have many
  // more blocks along x than along y.
  Value blockX = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value blockY = gpu::BlockIdOp::create(b, gpu::Dimension::y);
  batchIvs.resize(op.getNumLoops());
  Value tileM = blockX;
  if (!c.batches.empty()) {
    // A ceildivui would need an expansion during the lowering to LLVM.
    Value tiles = arith::DivUIOp::create(
        b, k.add(k.getSize(c.m), k.getIndex(kTile - 1)), k.getIndex(kTile));
    tileM = arith::RemUIOp::create(b, blockX, tiles);
    k.delinearize(arith::DivUIOp::create(b, blockX, tiles), c.batches,
                  batchIvs);
  }
  tileStart[0] = k.mul(tileM, k.getIndex(kTile));
  tileStart[1] = k.mul(blockY, k.getIndex(kTile));
  threadStart[0] = k.add(tileStart[0], row);
  threadStart[1] = k.add(tileStart[1], column);

  SmallVector<Value> inits;
  for (unsigned output = 0; output < getNumOutputs(); ++output) {
    OpOperand *operand = op.getDpsInitOperand(output);
    Type type = getElementTypeOrSelf(operand->get().getType());
    for (unsigned i = 0; i < kPerThread; ++i) {
      for (unsigned j = 0; j < kPerThread; ++j) {
        SmallVector<Value> ivs = getPoint(i, j);
        inits.push_back(guard(ivs, type, [&] {
          return SmallVector<Value>{k.getInit(output, ivs)};
        })[0]);
      }
    }
  }

  auto loop = scf::ForOp::create(b, k.getIndex(0), k.getSize(c.k),
                                 k.getIndex(kStep), inits);
  b.setInsertionPointToStart(loop.getBody());
  // Wait until all threads have read the tiles of the previous step.
  gpu::BarrierOp::create(b);
  stage(0, loop.getInductionVar());
  stage(1, loop.getInductionVar());
  gpu::BarrierOp::create(b);
  scf::YieldOp::create(
      b, compute(loop.getInductionVar(), loop.getRegionIterArgs()));
  b.setInsertionPointAfter(loop);

  unsigned result = 0;
  for (unsigned output = 0; output < getNumOutputs(); ++output) {
    for (unsigned i = 0; i < kPerThread; ++i) {
      for (unsigned j = 0; j < kPerThread; ++j) {
        SmallVector<Value> ivs = getPoint(i, j);
        guard(ivs, TypeRange(), [&] {
          k.store(loop.getResult(result), *op.getDpsInitOperand(output), ivs);
          return SmallVector<Value>();
        });
        ++result;
      }
    }
  }
}

std::optional<Kernel> fuse::buildContractionKernel(GPUKernelBuilder &k) {
  linalg::GenericOp op = k.getOp();
  SmallVector<unsigned> parallel = k.getLoops(utils::IteratorType::parallel);
  SmallVector<unsigned> reduction = k.getLoops(utils::IteratorType::reduction);
  Contraction c;
  if (reduction.size() != 1)
    return std::nullopt;
  c.k = reduction[0];
  if (!findLoops(op, parallel, c) || !classify(op, c))
    return std::nullopt;

  auto space =
      gpu::AddressSpaceAttr::get(op.getContext(), gpu::AddressSpace::Workgroup);
  SmallVector<MemRefType> workgroup;
  for (auto &staged : c.staged)
    for (Value value : staged)
      workgroup.push_back(MemRefType::get({kStep, kTile + kPadding},
                                          value.getType(),
                                          MemRefLayoutAttrInterface(), space));
  k.begin("contract", kNumThreads, workgroup);
  ContractionEmitter(k, c).emit();

  OpBuilder &host = k.getHost();
  AffineExpr tiles = host.getAffineSymbolExpr(0).ceilDiv(kTile);
  AffineExpr blocks = tiles;
  SmallVector<OpFoldResult> sizes = {k.getLoopSizes()[c.m]};
  for (unsigned batch : c.batches) {
    blocks = blocks * host.getAffineSymbolExpr(sizes.size());
    sizes.push_back(k.getLoopSizes()[batch]);
  }
  OpFoldResult gridX =
      affine::makeComposedFoldedAffineApply(host, op.getLoc(), blocks, sizes);
  OpFoldResult gridY = affine::makeComposedFoldedAffineApply(
      host, op.getLoc(), tiles, {k.getLoopSizes()[c.n]});
  return Kernel{k.finish(), gridX, gridY, kNumThreads};
}
