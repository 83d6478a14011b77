//===- LinearNames.h - Names of the linears of a function -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_LINEARNAMES_H
#define FUSE_ANALYSIS_LINEARNAMES_H

#include "fuse/IR/FuseAttrNames.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"

#include <string>

namespace fuse {

/// The linears of `function` in program order, each with its name in
/// checkpoints: the parameter of its weight without `.weight`, or
/// `linear#<n>` if the weight is not a parameter. Names are unique: a linear
/// that shares the weight of an earlier one gets `@<n>` appended.
llvm::MapVector<mlir::Operation *, std::string>
nameLinears(mlir::FunctionOpInterface function);

} // namespace fuse

#endif // FUSE_ANALYSIS_LINEARNAMES_H
