//===- TokenRanges.h - Schedules by the number of tokens --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SCHEDULE_TOKENRANGES_H
#define FUSE_SCHEDULE_TOKENRANGES_H

#include "fuse/Schedule/PrefillSchedule.h"

namespace fuse {

/// A measured schedule for up to `tokens` tokens, or null.
using FindMeasured = llvm::function_ref<mlir::Attribute(int64_t tokens)>;

/// Selects schedules for all numbers of tokens up to `tokens`, or up to the
/// maximum that the kernels support if it is less. The ranges of decode
/// schedules end at 8, 16, 32, 64 and 128 tokens, or later if these are faster.
/// After them, there are as few prefill schedules as possible that are close to
/// the best one everywhere. Schedules from `measured` precede those of the
/// model. Null if there is no kernel for a single token.
tile::DispatchAttr selectRanges(const MlpProblem &problem, int64_t tokens,
                                const GpuModel &gpu, FindMeasured measured);

} // namespace fuse

#endif // FUSE_SCHEDULE_TOKENRANGES_H
