//===- FuseAttrs.h - Attributes of the fuse dialect -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEATTRS_H
#define FUSE_IR_FUSEATTRS_H

#include "fuse/IR/FuseDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpImplementation.h"

#include <optional>

#include "fuse/IR/FuseEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fuse/IR/FuseAttrs.h.inc"

namespace fuse {

/// The reason why `scale` is not a valid quantization scale, or nothing if it
/// is valid. A scale is positive and finite, and it and its reciprocal are
/// normal numbers in f32.
std::optional<llvm::StringLiteral> getScaleProblem(double scale);

/// Prints the shortest decimal that parses back to `number`, an f64.
void printShortest(mlir::AsmPrinter &printer, mlir::FloatAttr number);

} // namespace fuse

#endif // FUSE_IR_FUSEATTRS_H
