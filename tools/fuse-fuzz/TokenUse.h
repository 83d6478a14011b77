//===- TokenUse.h - Dependences of a function between tokens ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_TOKENUSE_H
#define FUSE_TOOLS_FUSE_FUZZ_TOKENUSE_H

#include "ModuleGenerator.h"
#include "fuse/IO/HostTensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fuse {

/// Describes how a function uses tokens. There is none if the result of a token
/// depends on other tokens in an unsupported way.
struct TokenUse {
  /// Whether each argument or result has one row per token.
  llvm::SmallVector<bool> arguments, results;
  /// Whether tokens share dynamic scales per tensor.
  bool isCoupled = false;
};
std::optional<TokenUse> getTokenUse(mlir::func::FuncOp function);

/// Selects slices of a tensor along its first dimension, in the given order.
HostTensor takeSlices(const HostTensor &tensor, llvm::ArrayRef<int64_t> order);
/// Concatenates two tensors along the first dimension.
HostTensor joinSlices(const HostTensor &lhs, const HostTensor &rhs);
/// The numbers below `size` in random order.
llvm::SmallVector<int64_t> getOrder(int64_t size, Random &random);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_TOKENUSE_H
