//===- FuseDialect.cpp - The fuse dialect ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseDialect.h"
#include "fuse/IR/FuseAttrs.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Support/IRVersion.h"
#include "mlir/Transforms/InliningUtils.h"

using namespace mlir;
using namespace fuse;

#include "fuse/IR/FuseDialect.cpp.inc"

namespace {
/// Layer ops and fused ops mean the same in every function, so they can be
/// inlined. Ops that are not executed, such as models and slots, cannot.
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
  addVersionInterface(this);
  addOperations<
#define GET_OP_LIST
#include "fuse/IR/FuseOps.cpp.inc"
      >();
}

LogicalResult FuseDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  if (attribute.getName() == kVersionAttrName)
    return verifyVersion(op, attribute.getValue());
  return success();
}
