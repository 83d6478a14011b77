//===- Relations.h - Metamorphic relations of functions ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A metamorphic relation changes a function or its inputs so that the effect on
// the results is known, whatever the results are.
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

/// A changed function, its inputs, and the mapping of its results to those of
/// the original.
struct Variant {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  Tensors inputs;
  std::function<Tensors(Tensors)> restore;
};

/// A change of the function: identity ops, zero biases, powers of two,
/// additional ops, another order.
struct Relation {
  llvm::StringRef name;
  /// Changes a copy of the function and of its inputs. Returns false if the
  /// relation does not apply.
  bool (*apply)(Variant &variant, Random &random);
};
llvm::ArrayRef<Relation> getRelations();

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_RELATIONS_H
