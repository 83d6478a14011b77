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
#include "fuse/IO/HostTensor.h"
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

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_RELATIONS_H
