//===- ReduceKernel.cpp - One block per reduction -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each of the n threads of a block reduces every n-th element, beginning with
// the neutral element, and stores its partial result in workgroup memory. A
// tree combines the partial results. The first thread combines the total with
// the initial value. The order of a sum is unspecified. Reductions that cannot
// be reordered use the pointwise kernel.
//
// Rows that the body gathers, such as those of an expert, are as large as a
// matrix and are read once, so memory bandwidth is the limit. Threads read
// them, and other inputs along the reduction, in vectors. Blocks that may read
// the same rows are adjacent, so that later reads hit the L2.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fuse;

/// Maximum number of elements that one thread reduces alone, if it is known.
static constexpr int64_t kMaxPerThread = 8;
/// Elements of a vector, and its alignment in bytes.
static constexpr int64_t kVector = 8, kVectorAlignment = 16;
/// Minimum number of vectors that a thread reads of a row, unless that leaves
/// fewer than 32 threads. It is enough to saturate the memory bandwidth.
static constexpr int64_t kVectorsPerThread = 4;

namespace {

/// The values that are read in vectors along the only reduction loop.
struct VectorReads {
  unsigned loop;
  /// Loads of the body whose last index is the reduction loop.
  SetVector<Operation *> loads;
  SmallVector<OpOperand *> inputs;
  /// Parallel loops whose index selects the gathered row.
  SmallVector<unsigned> gathered;

  /// Whether the address of every buffer is aligned for vectors.
  Value isAligned(GPUKernelBuilder &k) const;
  /// Copies the body for `kVector` points of the loop.
  SmallVector<Value> cloneBody(GPUKernelBuilder &k, MutableArrayRef<Value> ivs,
                               ArrayRef<Value> accumulators) const;
};

/// How one output combines partial results.
struct Combiner {
  /// A commutative op of the body, or an fma, which combines by addition.
  Operation *op;
  TypedAttr neutral;

  Value combine(GPUKernelBuilder &k, Value lhs, Value rhs) const {
    if (isa<math::FmaOp>(op))
      return arith::AddFOp::create(k.get(), lhs, rhs);
    IRMapping mapping;
    mapping.map(op->getOperand(0), lhs);
    mapping.map(op->getOperand(1), rhs);
    return k.get().clone(*op, mapping)->getResult(0);
  }
};

} // namespace

static std::optional<Combiner> getCombiner(linalg::GenericOp op,
                                           unsigned output) {
  BlockArgument accumulator = op.getRegionOutputArgs()[output];
  if (!accumulator.hasOneUse())
    return std::nullopt;
  Operation *user = *accumulator.getUsers().begin();
  Value yielded = op.getBody()->getTerminator()->getOperand(output);
  if (yielded != user->getResult(0) || !yielded.hasOneUse())
    return std::nullopt;

  Type type = accumulator.getType();
  if (auto fma = dyn_cast<math::FmaOp>(user)) {
    if (fma.getC() != accumulator)
      return std::nullopt;
    return Combiner{user, FloatAttr::get(type, 0.0)};
  }
  // Subtraction is not commutative and has only a right neutral element.
  if (!user->hasTrait<OpTrait::IsCommutative>() || user->getNumOperands() != 2)
    return std::nullopt;
  std::optional<TypedAttr> neutral = arith::getNeutralElement(user);
  if (!neutral)
    return std::nullopt;
  return Combiner{user, *neutral};
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

/// Whether `buffer` is row-major and its rows consist of whole vectors.
static bool hasVectorRows(Value buffer) {
  auto type = dyn_cast<MemRefType>(buffer.getType());
  if (!type || !type.getLayout().isIdentity() || type.getRank() == 0 ||
      !isa<BFloat16Type, Float16Type, Float32Type>(type.getElementType()))
    return false;
  return !type.isDynamicDim(type.getRank() - 1) &&
         type.getShape().back() % kVector == 0;
}

/// Loops on which a value of the body depends, through indices or inputs.
static llvm::SmallBitVector getLoopsOf(linalg::GenericOp op, Value value) {
  llvm::SmallBitVector loops(op.getNumLoops());
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() == op.getBody()) {
      AffineMap map =
          op.getMatchingIndexingMap(op.getMatchingOpOperand(argument));
      for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
        loops[loop] = map.isFunctionOfDim(loop);
    }
    return loops;
  }
  Operation *producer = value.getDefiningOp();
  if (producer->getBlock() != op.getBody())
    return loops;
  if (auto index = dyn_cast<linalg::IndexOp>(producer))
    loops.set(index.getDim());
  for (Value operand : producer->getOperands())
    loops |= getLoopsOf(op, operand);
  return loops;
}

static std::optional<VectorReads>
findVectorReads(GPUKernelBuilder &k, ArrayRef<unsigned> parallel,
                ArrayRef<unsigned> reduction) {
  linalg::GenericOp op = k.getOp();
  if (reduction.size() != 1)
    return std::nullopt;
  VectorReads reads;
  reads.loop = reduction[0];
  int64_t size = k.getStaticSize(reads.loop);
  if (size == ShapedType::kDynamic || size % kVector != 0)
    return std::nullopt;

  llvm::SmallBitVector gathered(op.getNumLoops());
  for (auto load : op.getBody()->getOps<memref::LoadOp>()) {
    if (load.getIndices().empty() || !hasVectorRows(load.getMemRef()))
      continue;
    auto last = load.getIndices().back().getDefiningOp<linalg::IndexOp>();
    if (!last || last.getDim() != reads.loop)
      continue;
    llvm::SmallBitVector others(op.getNumLoops());
    for (Value index : load.getIndices().drop_back())
      others |= getLoopsOf(op, index);
    if (others.test(reads.loop))
      continue;
    for (Value index : load.getIndices().drop_back())
      if (auto plain = index.getDefiningOp<linalg::IndexOp>())
        gathered.set(plain.getDim());
    reads.loads.insert(load);
  }
  if (reads.loads.empty())
    return std::nullopt;
  for (unsigned loop : parallel)
    if (gathered.test(loop))
      reads.gathered.push_back(loop);

  for (OpOperand *input : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(input);
    if (!map.isFunctionOfDim(reads.loop) || !hasVectorRows(input->get()) ||
        !op.payloadUsesValueFromOperand(input))
      continue;
    auto last = dyn_cast<AffineDimExpr>(map.getResults().back());
    if (last && last.getPosition() == reads.loop &&
        llvm::none_of(map.getResults().drop_back(), [&](AffineExpr expr) {
          return expr.isFunctionOfDim(reads.loop);
        }))
      reads.inputs.push_back(input);
  }
  return reads;
}

Value VectorReads::isAligned(GPUKernelBuilder &k) const {
  ImplicitLocOpBuilder &b = k.get();
  SmallVector<Value> buffers;
  IRMapping captures = k.getCaptures();
  for (Operation *load : loads)
    buffers.push_back(captures.lookup(cast<memref::LoadOp>(load).getMemRef()));
  for (OpOperand *input : inputs)
    buffers.push_back(k.getView(*input));
  Value bits = k.getIndex(0);
  for (Value buffer : buffers)
    bits = arith::OrIOp::create(
        b, bits, memref::ExtractAlignedPointerAsIndexOp::create(b, buffer));
  Value low = arith::AndIOp::create(b, bits, k.getIndex(kVectorAlignment - 1));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, low, k.getIndex(0));
}

SmallVector<Value> VectorReads::cloneBody(GPUKernelBuilder &k,
                                          MutableArrayRef<Value> ivs,
                                          ArrayRef<Value> accumulators) const {
  linalg::GenericOp op = k.getOp();
  ImplicitLocOpBuilder &b = k.get();
  Value first = ivs[loop];
  auto read = [&](Value buffer, ValueRange indices) -> Value {
    Type element = cast<MemRefType>(buffer.getType()).getElementType();
    return vector::LoadOp::create(b, VectorType::get({kVector}, element),
                                  buffer, indices, /*nontemporal=*/false,
                                  llvm::MaybeAlign(kVectorAlignment));
  };
  DenseMap<Value, Value> vectors;
  for (OpOperand *input : inputs)
    vectors[op.getMatchingBlockArgument(input)] =
        read(k.getView(*input), k.getIndices(*input, ivs));

  SmallVector<Value> results(accumulators);
  for (int64_t i = 0; i < kVector; ++i) {
    ivs[loop] = k.add(first, k.getIndex(i));
    IRMapping mapping = k.getCaptures();
    auto take = [&](Value value) {
      mapping.map(value, vector::ExtractOp::create(b, vectors[value], i));
    };
    for (OpOperand *input : op.getDpsInputOperands()) {
      Value argument = op.getMatchingBlockArgument(input);
      if (vectors.contains(argument))
        take(argument);
      else if (op.payloadUsesValueFromOperand(input))
        mapping.map(argument, k.load(*input, ivs));
    }
    mapping.map(op.getRegionOutputArgs(), results);
    for (Operation &bodyOp : op.getBody()->without_terminator()) {
      if (!loads.contains(&bodyOp)) {
        k.cloneOp(bodyOp, mapping, ivs);
        continue;
      }
      // The indices of the first point are those of the vector.
      auto load = cast<memref::LoadOp>(bodyOp);
      if (i == 0) {
        SmallVector<Value> indices;
        for (Value index : load.getIndices())
          indices.push_back(mapping.lookupOrDefault(index));
        vectors[load] = read(mapping.lookup(load.getMemRef()), indices);
      }
      take(load);
    }
    for (auto [result, value] :
         llvm::zip(results, op.getBody()->getTerminator()->getOperands()))
      result = mapping.lookupOrDefault(value);
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

/// Reduces the elements of one thread: every `numThreads`-th element, or every
/// `numThreads`-th vector.
static SmallVector<Value>
reduceInThread(GPUKernelBuilder &k, ArrayRef<unsigned> reduction,
               const std::optional<VectorReads> &reads, Value thread,
               int64_t numThreads, MutableArrayRef<Value> ivs,
               ArrayRef<Value> neutral) {
  ImplicitLocOpBuilder &b = k.get();
  auto buildLoop = [&](Value begin, int64_t step,
                       function_ref<SmallVector<Value>(ArrayRef<Value>)> body) {
    auto loop = scf::ForOp::create(b, begin, k.getNumPoints(reduction),
                                   k.getIndex(step), neutral);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    k.delinearize(loop.getInductionVar(), reduction, ivs);
    SmallVector<Value> carried(loop.getRegionIterArgs());
    scf::YieldOp::create(b, body(carried));
    return SmallVector<Value>(loop.getResults());
  };
  if (!reads)
    return buildLoop(thread, numThreads, [&](ArrayRef<Value> carried) {
      return k.cloneBody(ivs, carried);
    });

  Value begin = k.mul(thread, k.getIndex(kVector));
  int64_t step = numThreads * kVector;
  auto choice = scf::IfOp::create(b, TypeRange(ValueRange(neutral)),
                                  reads->isAligned(k), /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  scf::YieldOp::create(b, buildLoop(begin, step, [&](ArrayRef<Value> carried) {
                         return reads->cloneBody(k, ivs, carried);
                       }));
  // The same elements in the same order, so that the sum is the same.
  b.setInsertionPointToStart(choice.elseBlock());
  scf::YieldOp::create(b, buildLoop(begin, step, [&](ArrayRef<Value> carried) {
                         Value first = ivs[reads->loop];
                         SmallVector<Value> results(carried);
                         for (int64_t i = 0; i < kVector; ++i) {
                           ivs[reads->loop] = k.add(first, k.getIndex(i));
                           results = k.cloneBody(ivs, results);
                         }
                         return results;
                       }));
  return SmallVector<Value>(choice.getResults());
}

/// Combines the values of all threads of a block in a tree. The first thread
/// then has the total in the first element of each buffer.
static void reduceInBlock(GPUKernelBuilder &k, ArrayRef<Combiner> combiners,
                          Value thread, int64_t numThreads,
                          ValueRange partials) {
  ImplicitLocOpBuilder &b = k.get();
  for (auto [i, partial] : llvm::enumerate(partials))
    memref::StoreOp::create(b, partial, k.getWorkgroup(i), thread);
  for (int64_t half = numThreads / 2; half > 0; half /= 2) {
    gpu::BarrierOp::create(b);
    auto active = scf::IfOp::create(b, k.lessThan(thread, k.getIndex(half)),
                                    /*withElse=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(active.thenBlock());
    Value other = k.add(thread, k.getIndex(half));
    for (auto [i, combiner] : llvm::enumerate(combiners)) {
      Value buffer = k.getWorkgroup(i);
      Value lhs = memref::LoadOp::create(b, buffer, thread);
      Value rhs = memref::LoadOp::create(b, buffer, other);
      memref::StoreOp::create(b, combiner.combine(k, lhs, rhs), buffer, thread);
    }
  }
}

std::optional<Kernel> fuse::buildReduceKernel(GPUKernelBuilder &k) {
  linalg::GenericOp op = k.getOp();
  SmallVector<unsigned> parallel = k.getLoops(utils::IteratorType::parallel);
  SmallVector<unsigned> reduction = k.getLoops(utils::IteratorType::reduction);
  if (reduction.empty())
    return std::nullopt;

  SmallVector<Combiner> combiners;
  for (unsigned i = 0, e = op.getNumDpsInits(); i < e; ++i) {
    std::optional<Combiner> combiner = getCombiner(op, i);
    if (!combiner)
      return std::nullopt;
    combiners.push_back(*combiner);
  }

  // At most one thread per element, if their number is known.
  int64_t numThreads = 256, elements = 1;
  for (unsigned loop : reduction) {
    int64_t size = k.getStaticSize(loop);
    elements = size == ShapedType::kDynamic || elements > numThreads
                   ? numThreads
                   : elements * size;
  }
  // One thread reduces a few elements faster than a block could synchronize.
  if (elements <= kMaxPerThread && !parallel.empty())
    return std::nullopt;
  while (numThreads > 32 && numThreads / 2 >= elements)
    numThreads /= 2;
  std::optional<VectorReads> reads = findVectorReads(k, parallel, reduction);
  if (reads) {
    int64_t vectors = k.getStaticSize(reads->loop) / kVector;
    while (numThreads > 32 && numThreads * kVectorsPerThread > vectors)
      numThreads /= 2;
    // Loops that select gathered rows are outermost, so that blocks that read
    // the same rows are adjacent.
    SmallVector<unsigned> order = reads->gathered;
    for (unsigned loop : parallel)
      if (!llvm::is_contained(order, loop))
        order.push_back(loop);
    parallel = order;
  }

  SmallVector<MemRefType> workgroup;
  auto space =
      gpu::AddressSpaceAttr::get(op.getContext(), gpu::AddressSpace::Workgroup);
  for (Value init : op.getDpsInits())
    workgroup.push_back(MemRefType::get({numThreads},
                                        getElementTypeOrSelf(init.getType()),
                                        MemRefLayoutAttrInterface(), space));

  k.begin("reduce", numThreads, workgroup);
  ImplicitLocOpBuilder &b = k.get();
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  SmallVector<Value> ivs(op.getNumLoops());
  k.delinearize(block, parallel, ivs);

  SmallVector<Value> neutral;
  for (Combiner &combiner : combiners)
    neutral.push_back(arith::ConstantOp::create(b, combiner.neutral));
  SmallVector<Value> partials =
      reduceInThread(k, reduction, reads, thread, numThreads, ivs, neutral);
  reduceInBlock(k, combiners, thread, numThreads, partials);

  // The first thread wrote the total itself, so no barrier is needed.
  auto first = scf::IfOp::create(
      b,
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, k.getIndex(0)),
      /*withElse=*/false);
  b.setInsertionPointToStart(first.thenBlock());
  for (auto [i, combiner] : llvm::enumerate(combiners)) {
    Value total = memref::LoadOp::create(b, k.getWorkgroup(i), k.getIndex(0));
    Value result = combiner.combine(k, k.getInit(i, ivs), total);
    k.store(result, *op.getDpsInitOperand(i), ivs);
  }

  return Kernel{k.finish(), k.getNumBlocks(parallel, /*perBlock=*/1),
                k.getHost().getIndexAttr(1), numThreads};
}
