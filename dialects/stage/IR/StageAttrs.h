//===- StageAttrs.h - Attributes of the stage dialect -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef STAGE_IR_STAGEATTRS_H
#define STAGE_IR_STAGEATTRS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"
#include "stage/IR/StageDialect.h"

#include <optional>

#include "stage/IR/StageEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "stage/IR/StageAttrs.h.inc"

#endif // STAGE_IR_STAGEATTRS_H
