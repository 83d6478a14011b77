//===- FuseDialect.cpp - The fuse dialect ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseDialect.h"
#include "fuse/IR/FuseAttrs.h"
#include "fuse/IR/FuseOps.h"

using namespace mlir;
using namespace fuse;

#include "fuse/IR/FuseDialect.cpp.inc"

void FuseDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "fuse/IR/FuseOps.cpp.inc"
      >();
}
