//===- NNAttrs.h - Attributes of the nn dialect -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNATTRS_H
#define NN_IR_NNATTRS_H

#include "fuse/IR/FuseAttrs.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"
#include "nn/IR/NNDialect.h"

#include <optional>

#include "nn/IR/NNEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "nn/IR/NNAttrs.h.inc"

#endif // NN_IR_NNATTRS_H
