//===- WeightRecipes.h - Layouts that kernels store weights in --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_WEIGHTRECIPES_H
#define FUSE_ANALYSIS_WEIGHTRECIPES_H

#include "fuse/IR/FuseModules.h"

#include <variant>

namespace fuse {

/// A recipe for one site, or why its members can not follow the recipe.
using RecipeOrProblem = std::variant<RecipeAttr, std::string>;

/// The recipe `wanted` of a kernel, whose sources are `position:name`, for the
/// modules `members`. What is stored is called `prefix` and the recipe's name.
RecipeOrProblem instantiate(RecipeAttr wanted, llvm::StringRef prefix,
                            llvm::ArrayRef<NetModuleOp> members,
                            mlir::SymbolTableCollection &tables);

/// The distinct recipes of the fused calls of a model. Emits an error when a
/// parameter is wanted in two layouts, or is not kept though something reads
/// it as it is, be it by a name that is tied to it.
llvm::FailureOr<llvm::SmallVector<RecipeAttr>> collectRecipes(ModelOp model);

} // namespace fuse

#endif // FUSE_ANALYSIS_WEIGHTRECIPES_H
