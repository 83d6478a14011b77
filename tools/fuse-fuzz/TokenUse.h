//===- TokenUse.h - What a function does to tokens ------------ -*- C++ -*-===//
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

#endif // FUSE_TOOLS_FUSE_FUZZ_TOKENUSE_H
