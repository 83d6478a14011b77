//===- FuseDialect.cpp - The fuse dialect ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseDialect.h"
#include "fuse/IR/FuseAttrs.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace fuse;

#include "fuse/IR/FuseDialect.cpp.inc"

namespace {
/// Layers and kernels mean the same in every function. What runs nothing by
/// itself, such as models and slots, stays where it is.
struct FuseInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *op, Region *, bool, IRMapping &) const final {
    return isMemoryEffectFree(op);
  }
};
} // namespace

void FuseDialect::initialize() {
  registerAttributes();
  addInterfaces<FuseInliner>();
  addOperations<
#define GET_OP_LIST
#include "fuse/IR/FuseOps.cpp.inc"
      >();
}
