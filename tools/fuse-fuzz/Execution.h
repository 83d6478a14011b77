//===- Execution.h - Run random modules -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_EXECUTION_H
#define FUSE_TOOLS_FUSE_FUZZ_EXECUTION_H

#include "Checks.h"
#include "fuse/IO/HostTensor.h"

namespace fuse {

/// What random inputs are.
enum class Values {
  /// Small integers and halves.
  Exact,
  Normal,
  /// Values that overflow and saturate.
  Large,
  /// NaN, infinities, denormals and others among normal values.
  Special
};

/// Changes the values that `createInputs` has made.
void changeValues(HostTensor &tensor, Values values, Random &random);

/// Fills labels of losses, experts of tokens and numbers of items, and leaves
/// other tensors alone. Most are some; a few are none or, where anything goes,
/// what there is not.
void chooseIndices(mlir::BlockArgument argument, HostTensor &tensor,
                   Values values, Random &random);

/// Whether two results are the same, but for what numbers do not tell: the sign
/// of zeros and which NaN it is.
bool isSameBits(const HostTensor &lhs, const HostTensor &rhs);

/// Runs every function of `module` on random tensors, fused and unfused, and by
/// the optimized and the reference lowering. Fused and unfused must give the
/// same bits, the two lowerings may differ by the order of sums, and all of
/// them have to give what the interpreter reads from the contracts. With
/// `sweeps`, dynamic sizes are all those of `getBoundarySizes`, else three of
/// any. Returns the name of the first check that fails, after an error has been
/// emitted.
llvm::StringRef checkExecution(mlir::ModuleOp module, Random &random,
                               CheckCounts &counts, bool sweeps);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_EXECUTION_H
