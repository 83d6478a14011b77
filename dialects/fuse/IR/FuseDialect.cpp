//===- FuseDialect.cpp - The fuse dialect ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseDialect.h"
#include "fuse/IR/FuseAttrs.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/IR/FuseShapes.h"
#include "fuse/Support/IRVersion.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace fuse;

#include "fuse/IR/FuseDialect.cpp.inc"

namespace {
/// Layer ops and fused ops mean the same in every function, so they can be
/// inlined.
struct FuseInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *op, Region *, bool, IRMapping &) const final {
    return isMemoryEffectFree(op) || isa<AllReduceOp>(op);
  }
};
} // namespace

void FuseDialect::getCanonicalizationPatterns(
    RewritePatternSet &patterns) const {
  populateShapePatterns(patterns);
}

void FuseDialect::initialize() {
  registerAttributes();
  addInterfaces<FuseInliner>();
  addVersionInterface(this);
  addOperations<
#define GET_OP_LIST
#include "fuse/IR/FuseOps.cpp.inc"
      >();
}
