//===- MmaSchedule.h - Kernels with warp-level products ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_MMASCHEDULE_H
#define FUSE_SCHEDULE_MMASCHEDULE_H

#include "fuse/Schedule/CostModel.h"

namespace fuse {

/// Rows of a quarter of a packed tile, 16 for each of four warps.
constexpr int64_t kQuarterRows = 64;
/// Bytes of a row in a k-step, and of the k-step of a quarter.
constexpr int64_t kRowBytes = 128, kQuarterBytes = kQuarterRows * kRowBytes;

/// Describes `op`. If the mma kernels do not support it, sets `reason`.
std::optional<MlpProblem> describeMma(mlir::Operation *op, std::string &reason);

/// Tiles of one product. Weights are packed as for the Hopper kernels; a tile
/// is some of the quarters of their packed tiles of 256 rows, and quarters of a
/// tile may be in different packed tiles.
struct MmaProduct {
  /// Numbers of k-steps, and of packed tiles in memory.
  int64_t steps = 0, packedTiles = 0;
  /// Quarters with results, quarters of a tile, and number of tiles.
  int64_t quarters = 0, perTile = 0, tiles = 0;
};

/// Division of the kernels of a schedule into units.
struct MmaTiling {
  MmaTiling(const MlpProblem &problem, tile::MmaScheduleAttr schedule);

  MmaProduct gemm1, gemm2;
  /// Number of K-slices of GEMM2 that are not empty, and their k-steps.
  int64_t slices, stepsPerSlice;
  /// Quarters of GEMM1 whose hidden units a K-slice reads. Two quarters have a
  /// run of neighboring hidden units.
  int64_t quartersPerSlice = 0;
  /// Maximum number of token tiles.
  int64_t tokenTiles;

  /// Number of units of GEMM2 for the maximum number of tokens.
  int64_t getUnits() const { return gemm2.tiles * slices * tokenTiles; }
};

/// The reason why `schedule` is invalid for `problem`, or an empty string.
std::string getScheduleProblem(const MlpProblem &problem,
                               tile::MmaScheduleAttr schedule);

/// Predicted time of the kernels of `schedule` in microseconds.
double estimateMma(const MlpProblem &problem, tile::MmaScheduleAttr schedule,
                   const GpuModel &gpu);

/// The schedule for up to `tokens` tokens on a GPU with `sharedBytes` of shared
/// memory for a block. Null if 32 bits do not count the elements.
tile::MmaScheduleAttr selectMma(const MlpProblem &problem, int64_t tokens,
                                const GpuModel &gpu, int64_t sharedBytes);

/// Schedules for all numbers of tokens up to `tokens`. Null if there is no
/// kernel for a single token. `measured` returns a schedule for a bound, or
/// null if none was measured.
tile::DispatchAttr
selectMmaRanges(const MlpProblem &problem, int64_t tokens, const GpuModel &gpu,
                int64_t sharedBytes,
                llvm::function_ref<mlir::Attribute(int64_t)> measured);

} // namespace fuse

#endif // FUSE_SCHEDULE_MMASCHEDULE_H
