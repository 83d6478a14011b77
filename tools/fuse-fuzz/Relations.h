//===- Relations.h - Other functions with the same results ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Metamorphic relations: a function or its inputs are changed in a way of which
// the effect on the results is known, whatever these are.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_RELATIONS_H
#define FUSE_TOOLS_FUSE_FUZZ_RELATIONS_H

#include "ModuleGenerator.h"
#include "fuse/Runtime/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <functional>

namespace fuse {

using Tensors = std::vector<HostTensor>;

/// Another function, what it is run on, and how its results become those of
/// the first one.
struct Variant {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  Tensors inputs;
  std::function<Tensors(Tensors)> restore;
};

/// What changes the function: ops that compute what they are given, biases of
/// zero, powers of two, ops beside, another order.
struct Relation {
  llvm::StringRef name;
  /// Changes a copy of the function and of its inputs. Returns false where it
  /// does not apply.
  bool (*apply)(Variant &variant, Random &random);
};
llvm::ArrayRef<Relation> getRelations();

/// What every token of a function does not share with others, or nothing when
/// results of a token depend on others.
struct TokenUse {
  /// Whether an argument or result has a row for each token.
  llvm::SmallVector<bool> arguments, results;
  /// Whether tensors have scales of their own, which tokens share.
  bool isCoupled = false;
};
std::optional<TokenUse> getTokenUse(mlir::func::FuncOp function);

/// The slices of a tensor along its first dimension in another order; slices
/// may be missing.
HostTensor takeSlices(const HostTensor &tensor, llvm::ArrayRef<int64_t> order);
/// One tensor after the other, along the first dimension.
HostTensor joinSlices(const HostTensor &lhs, const HostTensor &rhs);
/// The numbers below `size` in random order.
llvm::SmallVector<int64_t> getOrder(int64_t size, Random &random);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_RELATIONS_H
