//===- WeightRecipes.h - Layouts of stored weights --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_WEIGHTRECIPES_H
#define FUSE_ANALYSIS_WEIGHTRECIPES_H

#include "nn/IR/NNModules.h"

#include <variant>

namespace fuse {

/// A recipe for one site, or the reason why it does not apply to the members.
using RecipeOrProblem = std::variant<RecipeAttr, std::string>;

/// Instantiates the recipe `wanted` of a kernel for the modules `members`,
/// which are in `scope`. The stored weight is named `prefix` followed by the
/// name of the recipe.
RecipeOrProblem instantiate(RecipeAttr wanted, llvm::StringRef prefix,
                            mlir::Operation *scope,
                            llvm::ArrayRef<NetModuleOp> members,
                            mlir::SymbolTableCollection &tables);

/// A stored weight of a model.
struct StoredWeight {
  RecipeAttr recipe;
  /// The names of the sources in checkpoints.
  llvm::SmallVector<std::string> sources;
};

/// The distinct recipes of the fused calls of a model. Emits an error if two
/// recipes need one parameter in different layouts. Also emits an error if the
/// original parameter is not kept but still read, directly or by a tied name.
llvm::FailureOr<llvm::SmallVector<StoredWeight>> collectRecipes(ModelOp model);

} // namespace fuse

#endif // FUSE_ANALYSIS_WEIGHTRECIPES_H
