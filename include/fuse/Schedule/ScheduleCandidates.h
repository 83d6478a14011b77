//===- ScheduleCandidates.h - Schedules worth measuring ------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_SCHEDULECANDIDATES_H
#define FUSE_SCHEDULE_SCHEDULECANDIDATES_H

#include "fuse/Schedule/ScheduleTable.h"

namespace fuse {

/// A schedule, and the microseconds that the model expects; 0 where it has no
/// opinion.
struct RankedSchedule {
  mlir::Attribute schedule;
  double microseconds = 0;
};

/// Up to `count` distinct schedules of an op for up to `tokens` tokens that
/// fit it, the most promising first. The first is the model's own choice. What
/// the model cannot tell apart is ranked by how much it departs from that
/// choice, so that single changes of every field come early. Empty where the
/// scheduled path has no kernel.
std::vector<RankedSchedule> rankSchedules(mlir::Operation *op, int64_t tokens,
                                          const GpuModel &gpu, size_t count);

} // namespace fuse

#endif // FUSE_SCHEDULE_SCHEDULECANDIDATES_H
