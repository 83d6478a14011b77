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

/// Distributions of random inputs.
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
/// other tensors unchanged. Most indices are valid. A few mean none or, if
/// invalid values are allowed, are out of range.
void chooseIndices(mlir::BlockArgument argument, HostTensor &tensor,
                   Values values, Random &random);

/// Whether two results have the same bits, ignoring the sign of zeros and the
/// payload of NaNs.
bool isSameBits(const HostTensor &lhs, const HostTensor &rhs);

/// Runs every function of `module` on random tensors, fused and unfused, with
/// the optimized and the reference lowering. Fused and unfused must give the
/// same bits. The two lowerings may differ by the order of summation. All
/// results must be within the contracts. With `sweeps`, dynamic sizes are all
/// those of `getBoundarySizes`, otherwise three random ones. Returns the name
/// of the first check that fails, after an error has been emitted.
llvm::StringRef checkExecution(mlir::ModuleOp module, Random &random,
                               CheckCounts &counts, bool sweeps);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_EXECUTION_H
