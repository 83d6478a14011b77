//===- ArgumentSizes.cpp - Sizes as functions of arguments ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/ArgumentSizes.h"
#include "mlir/Interfaces/ValueBoundsOpInterface.h"

using namespace mlir;

std::optional<AffineExpr> fuse::computeSizeFromArguments(
    Value tensor, int64_t dim,
    llvm::function_ref<std::optional<AffineExpr>(BlockArgument, int64_t)>
        getSymbol) {
  AffineMap map;
  ValueDimList operands;
  auto isArgument = [](Value value, std::optional<int64_t> dim,
                       ValueBoundsConstraintSet &) {
    return dim && isa<BlockArgument>(value);
  };
  if (failed(ValueBoundsConstraintSet::computeBound(
          map, operands, presburger::BoundType::EQ, {tensor, dim}, isArgument)))
    return std::nullopt;
  SmallVector<AffineExpr> replacements;
  for (auto [value, operandDim] : operands) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || !operandDim)
      return std::nullopt;
    std::optional<AffineExpr> symbol = getSymbol(argument, *operandDim);
    if (!symbol)
      return std::nullopt;
    replacements.push_back(*symbol);
  }
  ArrayRef<AffineExpr> all = replacements;
  return map.getResult(0).replaceDimsAndSymbols(
      all.take_front(map.getNumDims()), all.drop_front(map.getNumDims()));
}
