//===- CostModel.h - Time of a schedule by roofline ----------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_COSTMODEL_H
#define FUSE_SCHEDULE_COSTMODEL_H

#include "fuse/Schedule/MlpProblem.h"

namespace fuse {

/// Tokens up to which activating whole tiles at once is as fast as deferring
/// half of them (H200).
constexpr int64_t kWholeTokens = 64;

/// Tokens above which GEMM2 and the grid barriers are most of the time that
/// memory traffic does not hide (H200).
constexpr int64_t kManyTokens = 96;

/// What the cost model knows of a GPU.
struct GpuModel {
  int64_t multiprocessors = 132;
  /// Bytes per microsecond from device memory, all multiprocessors together.
  double memoryRate = 4.3e6;
  /// Bytes per microsecond that one multiprocessor can take in.
  double shareRate = 3.6e4;
  /// Cycles per microsecond.
  double clock = 1.7e3;
  /// Bytes per microsecond between L2 and the multiprocessors: of copies, and
  /// of the loads and stores of threads.
  double copyRate = 1.15e7, l2Rate = 7.0e6;
  /// Microseconds for a meeting of blocks on a semaphore.
  double meeting = 1.5;
  /// Microseconds that each tile more to wait for takes, and each range whose
  /// sums are added.
  double tileWait = 0.03, rangeWait = 0.1;
  /// Microseconds for each block with a half tile more than the others, for
  /// which those wait: with 65 to 96 tokens half as many.
  double longWait = 0.1;
  /// Part of GEMM2's tensor time that weights do not hide.
  double exposed = 0.3;
  /// The same where blocks with a tile more come to their units last.
  double lateExposed = 0.43;
  /// The same where tokens are the left operand of GEMM1, which
  /// memory is ahead of.
  double swappedExposed = 2.2;
  /// Cycles of a multiprocessor for the activation of a hidden unit and token.
  double activation = 0.25;
  /// Microseconds for each further token row that a block normalizes.
  double row = 1.5;
};

/// Microseconds that the kernel of `schedule` takes, launch not included.
double estimateDecode(const MlpProblem &problem, tile::ScheduleAttr schedule,
                      const GpuModel &gpu);

/// Whether whole tiles, of which half ones are more than multiprocessors, are
/// too few to keep memory busy with two stages in flight to each.
bool leavesIdle(const MlpProblem &problem, const DecodeTiling &tiling,
                const GpuModel &gpu);

} // namespace fuse

#endif // FUSE_SCHEDULE_COSTMODEL_H
