//===- PointwiseKernel.cpp - One thread per point -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "fuse/Support/Inject.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace fuse;

Kernel fuse::buildPointwiseKernel(GPUKernelBuilder &k) {
  constexpr int64_t numThreads = 256;
  SmallVector<unsigned> parallel = k.getLoops(utils::IteratorType::parallel);
  SmallVector<unsigned> reduction = k.getLoops(utils::IteratorType::reduction);
  linalg::GenericOp op = k.getOp();

  k.begin(reduction.empty() ? "map" : "map_reduce", numThreads);
  ImplicitLocOpBuilder &b = k.get();
  Value thread = gpu::ThreadIdOp::create(b, gpu::Dimension::x);
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value number = k.add(k.mul(block, k.getIndex(numThreads)), thread);
  auto guard = scf::IfOp::create(
      b,
      isInjected("gpu-tail") ? k.lessThan(number, k.add(number, k.getIndex(1)))
                             : k.lessThan(number, k.getNumPoints(parallel)),
      /*withElse=*/false);
  b.setInsertionPointToStart(guard.thenBlock());

  SmallVector<Value> ivs(op.getNumLoops());
  k.delinearize(number, parallel, ivs);
  SmallVector<Value> inits;
  for (unsigned i = 0, e = op.getNumDpsInits(); i < e; ++i)
    inits.push_back(k.getInit(i, ivs));
  SmallVector<Value> results =
      k.buildLoops(reduction, ivs, inits, [&](ArrayRef<Value> carried) {
        return k.cloneBody(ivs, carried);
      });
  for (auto [i, result] : llvm::enumerate(results))
    k.store(result, *op.getDpsInitOperand(i), ivs);
  return {k.finish(), k.getNumBlocks(parallel, numThreads),
          k.getHost().getIndexAttr(1), numThreads};
}
