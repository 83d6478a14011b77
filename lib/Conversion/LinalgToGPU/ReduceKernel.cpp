//===- ReduceKernel.cpp - One block per reduction -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Threads of a block each reduce every n-th element, starting at the neutral
// element, and leave their partial results in workgroup memory, where they are
// combined as a tree. The first thread combines the total with the initial
// value. The order of a sum is not part of its meaning; whatever cannot be
// reordered is left to the pointwise kernel.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fuse;

/// As many elements as one thread reduces, where that is known.
static constexpr int64_t kMaxPerThread = 8;

namespace {

/// How one output combines partial results.
struct Combiner {
  /// A binary op of the body, or a fused multiply-add, which adds.
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
  // Subtraction has a neutral element on one side only and does not commute.
  if (!user->hasTrait<OpTrait::IsCommutative>() || user->getNumOperands() != 2)
    return std::nullopt;
  std::optional<TypedAttr> neutral = arith::getNeutralElement(user);
  if (!neutral)
    return std::nullopt;
  return Combiner{user, *neutral};
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

  // No more threads than elements where that is known.
  int64_t numThreads = 256, elements = 1;
  for (unsigned loop : reduction) {
    int64_t size = k.getStaticSize(loop);
    elements = size == ShapedType::kDynamic || elements > numThreads
                   ? numThreads
                   : elements * size;
  }
  // A few elements are reduced by one thread before a block of them has met.
  if (elements <= kMaxPerThread && !parallel.empty())
    return std::nullopt;
  while (numThreads > 32 && numThreads / 2 >= elements)
    numThreads /= 2;

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
  auto loop = scf::ForOp::create(b, thread, k.getNumPoints(reduction),
                                 k.getIndex(numThreads), neutral);
  b.setInsertionPointToStart(loop.getBody());
  k.delinearize(loop.getInductionVar(), reduction, ivs);
  SmallVector<Value> carried(loop.getRegionIterArgs());
  scf::YieldOp::create(b, k.cloneBody(ivs, carried));
  b.setInsertionPointAfter(loop);

  for (auto [i, partial] : llvm::enumerate(loop.getResults()))
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

  // The first thread wrote the total itself: no barrier is due.
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

  OpBuilder &host = k.getHost();
  AffineExpr blocks = host.getAffineConstantExpr(1);
  SmallVector<OpFoldResult> sizes;
  for (unsigned dim : parallel) {
    blocks = blocks * host.getAffineSymbolExpr(sizes.size());
    sizes.push_back(k.getLoopSizes()[dim]);
  }
  return Kernel{
      k.finish(),
      affine::makeComposedFoldedAffineApply(host, op.getLoc(), blocks, sizes),
      host.getIndexAttr(1), numThreads};
}
