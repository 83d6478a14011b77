//===- RowProblem.h - Fused ops with row kernels ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_ROWPROBLEM_H
#define FUSE_SCHEDULE_ROWPROBLEM_H

#include "fuse/Schedule/CostModel.h"

namespace fuse {

/// `fuse.norm_quantize` or `fuse.act_quantize`. The kernel processes rows as a
/// decode kernel does for its input and its hidden layer, for any number of
/// rows.
struct RowProblem : MlpProblem {
  mlir::Value factor;
  /// Result numbers of the activated value and of the product, or -1.
  int64_t actResult = -1, productResult = -1;

  bool isNorm() const { return llvm::isa<NormQuantizeOp>(op); }
};

/// Whether `op` is of one of these families.
bool isRowOp(mlir::Operation *op);

/// Describes `op`. If there is no kernel for it, sets `reason`.
std::optional<RowProblem> describeRows(mlir::Operation *op,
                                       std::string &reason);

/// Selects enough blocks to keep loads of every multiprocessor in flight.
tile::RowScheduleAttr selectRows(const RowProblem &problem,
                                 const GpuModel &gpu);

} // namespace fuse

#endif // FUSE_SCHEDULE_ROWPROBLEM_H
