//===- CostModel.h - Roofline model of decode kernels -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_COSTMODEL_H
#define FUSE_SCHEDULE_COSTMODEL_H

#include "fuse/Schedule/MlpProblem.h"

namespace fuse {

/// Tokens up to which activating whole 256-row tiles is as fast as the deferred
/// epilogue with half tiles (H200).
constexpr int64_t kWholeTokens = 64;

/// Tokens above which GEMM2 and the grid barriers are most of the time that
/// memory traffic does not hide (H200).
constexpr int64_t kManyTokens = 96;

/// Rates and latencies of a GPU in the cost model. The defaults are for the
/// H200.
struct GpuModel {
  int64_t multiprocessors = 132;
  /// Whether the GPU has the kernels of sm_90a. Others have mma kernels.
  bool isHopper = true;
  /// Shared memory that a block can have, in bytes.
  int64_t sharedBytes = 227 << 10;
  /// HBM bandwidth of the GPU, in bytes per microsecond.
  double memoryRate = 4.3e6;
  /// Bandwidth of one multiprocessor, in bytes per microsecond.
  double shareRate = 3.6e4;
  /// Clock rate in cycles per microsecond.
  double clock = 1.7e3;
  /// L2 bandwidth of all multiprocessors in bytes per microsecond: of bulk
  /// copies, and of loads and stores by threads.
  double copyRate = 1.15e7, l2Rate = 7.0e6;
  /// Microseconds for a grid barrier on a semaphore.
  double barrierTime = 1.5;
  /// Microseconds per tile that a K-slice waits for, and per K-slice whose
  /// partial sums are added.
  double tileWait = 0.03, sliceWait = 0.1;
  /// Microseconds that other blocks wait for each block with an extra 128-row
  /// tile. It is half as much for 65 to 96 tokens.
  double longWait = 0.1;
  /// Fraction of GEMM2's tensor core time that weight loads do not hide.
  double exposed = 0.3;
  /// The same fraction if blocks with an extra tile start their units last.
  double longExposed = 0.43;
  /// The same fraction with swap-AB, where weights arrive earlier than they are
  /// needed.
  double swapABExposed = 2.2;
  /// Cycles of a multiprocessor per activation of one hidden unit of one token.
  double activation = 0.25;
  /// Microseconds per additional token row that a block normalizes.
  double row = 1.5;
};

/// Predicted time of the kernel of `schedule` in microseconds, without the
/// launch.
double estimateDecode(const MlpProblem &problem, tile::ScheduleAttr schedule,
                      const GpuModel &gpu);

/// Whether two stages in flight per 256-row tile do not saturate HBM, although
/// the 128-row tiles would outnumber the multiprocessors.
bool leavesIdle(const MlpProblem &problem, const DecodeTiling &tiling,
                const GpuModel &gpu);

} // namespace fuse

#endif // FUSE_SCHEDULE_COSTMODEL_H
