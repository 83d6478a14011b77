//===- FuseDialect.h - The fuse dialect -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEDIALECT_H
#define FUSE_IR_FUSEDIALECT_H

#include "mlir/IR/Dialect.h"

#include "fuse/IR/FuseDialect.h.inc"

#endif // FUSE_IR_FUSEDIALECT_H
