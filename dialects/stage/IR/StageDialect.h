//===- StageDialect.h - The stage dialect -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef STAGE_IR_STAGEDIALECT_H
#define STAGE_IR_STAGEDIALECT_H

#include "mlir/IR/Dialect.h"

#include "stage/IR/StageDialect.h.inc"

#endif // STAGE_IR_STAGEDIALECT_H
