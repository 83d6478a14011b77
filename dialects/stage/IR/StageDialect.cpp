//===- StageDialect.cpp - The stage dialect -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "stage/IR/StageDialect.h"
#include "fuse/Support/IRVersion.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/InliningUtils.h"
#include "stage/IR/StageOps.h"

using namespace mlir;
using namespace stage;

#include "stage/IR/StageDialect.cpp.inc"

namespace {
/// A graph means the same in every function, so it can be inlined.
struct StageInliner : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;

  bool isLegalToInline(Operation *op, Region *, bool, IRMapping &) const final {
    return true;
  }
};
} // namespace

void StageDialect::initialize() {
  registerAttributes();
  addInterfaces<StageInliner>();
  fuse::addVersionInterface(this);
  addOperations<
#define GET_OP_LIST
#include "stage/IR/StageOps.cpp.inc"
      >();
}
