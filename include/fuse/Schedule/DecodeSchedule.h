//===- DecodeSchedule.h - Schedules of decode kernels -------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_DECODESCHEDULE_H
#define FUSE_SCHEDULE_DECODESCHEDULE_H

#include "fuse/Schedule/CostModel.h"

namespace fuse {

/// The schedule with the smallest estimate for up to `tokens` tokens. Null if
/// no schedule has all blocks resident, or if the kernel does not support that
/// number of tokens. `gemm1TileM` restricts schedules to that tile; 0 means
/// swap-AB.
tile::ScheduleAttr
selectDecode(const MlpProblem &problem, int64_t tokens, const GpuModel &gpu,
             std::optional<int64_t> gemm1TileM = std::nullopt);

} // namespace fuse

#endif // FUSE_SCHEDULE_DECODESCHEDULE_H
