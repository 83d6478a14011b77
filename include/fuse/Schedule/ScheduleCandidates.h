//===- ScheduleCandidates.h - Candidates for measurements -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_SCHEDULECANDIDATES_H
#define FUSE_SCHEDULE_SCHEDULECANDIDATES_H

#include "fuse/Schedule/ScheduleTable.h"

namespace fuse {

/// A schedule and its predicted time in microseconds; 0 if the model has no
/// estimate.
struct RankedSchedule {
  mlir::Attribute schedule;
  double microseconds = 0;
};

/// Up to `count` distinct valid schedules of an op for up to `tokens` tokens,
/// the most promising first. The first is the model's choice. Schedules with
/// similar estimates are ranked by the number of fields that differ from this
/// choice, so that single changes of every field come early. Empty if the
/// scheduled path has no kernel.
std::vector<RankedSchedule> rankSchedules(mlir::Operation *op, int64_t tokens,
                                          const GpuModel &gpu, size_t count);

/// The same for mma kernels.
std::vector<RankedSchedule> rankMma(const MlpProblem &problem, int64_t tokens,
                                    const GpuModel &gpu, size_t count);

} // namespace fuse

#endif // FUSE_SCHEDULE_SCHEDULECANDIDATES_H
