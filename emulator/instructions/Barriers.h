//===- Barriers.h - mbarriers that copies use -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_INSTRUCTIONS_BARRIERS_H
#define FUSE_EMULATOR_INSTRUCTIONS_BARRIERS_H

#include "machine/Machine.h"

namespace fuse::emulator {

/// The mbarrier at an offset. Throws Fault if there is no mbarrier.
Mbarrier &getMbarrier(Block &block, uint32_t offset);
/// The same for an access by a thread, which must happen after the
/// initialization. An access by a copy (`isAsync`) also needs a fence after it.
Mbarrier &useMbarrier(const Thread &thread, Block &block, uint32_t offset,
                      bool isAsync);

/// Reports to an mbarrier that `bytes` have been copied. Threads that wait for
/// it acquire `known`.
void completeBytes(Block &block, uint32_t offset, int64_t bytes,
                   const VectorClock &known);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_INSTRUCTIONS_BARRIERS_H
