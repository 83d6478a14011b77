//===- NNDialect.h - The nn dialect -----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNDIALECT_H
#define NN_IR_NNDIALECT_H

#include "fuse/IR/FuseDialect.h"
#include "mlir/IR/Dialect.h"

#include "nn/IR/NNDialect.h.inc"

#endif // NN_IR_NNDIALECT_H
