//===- DecodeSchedule.h - Schedules of decode kernels -------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_DECODESCHEDULE_H
#define FUSE_SCHEDULE_DECODESCHEDULE_H

#include "fuse/Schedule/CostModel.h"

namespace fuse {

/// The schedule with the smallest estimate for up to `tokens` tokens, or null
/// when the blocks of none are all resident, or for more tokens than the
/// kernel has. With `firstRows`, of those with tiles of so many rows of the
/// first product, or with 0 of those with tokens on the left.
tile::ScheduleAttr
selectDecode(const DecodeProblem &problem, int64_t tokens, const GpuModel &gpu,
             std::optional<int64_t> firstRows = std::nullopt);

} // namespace fuse

#endif // FUSE_SCHEDULE_DECODESCHEDULE_H
