//===- TokenRanges.h - Schedules by the number of tokens ------ -*- C++ -*-===//
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

/// Schedules for every number of tokens up to `tokens`, or up to as many as the
/// kernels can count, whichever is less: kernels that read weights once for up
/// to 8, 16, 32, 64 and 128 tokens, or more where they are faster, and behind
/// them as few prefill schedules as come close to the best one everywhere. What
/// `measured` has goes before the model's choice. Null when there is no kernel
/// for a single token.
tile::DispatchAttr selectRanges(const MlpProblem &problem, int64_t tokens,
                                const GpuModel &gpu, FindMeasured measured);

} // namespace fuse

#endif // FUSE_SCHEDULE_TOKENRANGES_H
