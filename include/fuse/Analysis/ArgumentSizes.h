//===- ArgumentSizes.h - Sizes as functions of arguments --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_ARGUMENTSIZES_H
#define FUSE_ANALYSIS_ARGUMENTSIZES_H

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Value.h"

#include <optional>

namespace fuse {

/// Dimension `dim` of a tensor as an expression over dimensions of arguments.
/// `getSymbol` returns the symbol of a dimension of an argument, or nothing if
/// it has none. Nothing if the size depends on more than these symbols.
std::optional<mlir::AffineExpr> computeSizeFromArguments(
    mlir::Value tensor, int64_t dim,
    llvm::function_ref<std::optional<mlir::AffineExpr>(mlir::BlockArgument,
                                                       int64_t)>
        getSymbol);

} // namespace fuse

#endif // FUSE_ANALYSIS_ARGUMENTSIZES_H
