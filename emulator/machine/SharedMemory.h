//===- SharedMemory.h - Shared memory and who uses it -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What barriers, copies and products have in common.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_MACHINE_SHAREDMEMORY_H
#define FUSE_EMULATOR_MACHINE_SHAREDMEMORY_H

#include "machine/Machine.h"

namespace fuse::emulator {

struct SharedAddress {
  Block *block;
  uint32_t offset;
};

/// The place of `[base + offset]`, which is Own, Cluster or Generic; throws
/// Fault where it is in no shared memory. Does not check its bounds.
SharedAddress getSharedAddress(const Thread &thread, StateSpace space,
                               const Value &base, const Value &offset);

/// The value of an operand that all `lanes` must have in common; throws Fault
/// where they do not, with `what` in the message.
uint64_t getUniform(const Warp &warp, uint32_t lanes, const Value &value,
                    const char *what);

/// Throws Fault where accessShared does, whatever is under way.
void checkShared(const Block &block, uint32_t offset, uint32_t bytes,
                 unsigned alignment);
/// Whether something under way writes to the 16 bytes from `chunk` on.
bool isBeingWritten(const Block &block, uint32_t chunk);

/// That bytes are an mbarrier, which nothing else may access, or no longer are.
void protectMbarrier(Block &block, uint32_t offset, bool isThere);

/// Barriers.cpp. Throws Fault where there is none.
Mbarrier &getMbarrier(Block &block, uint32_t offset);
/// The same for a thread, which has to come behind the initialization, and for
/// a copy of it, which has to come behind a fence after that.
Mbarrier &useMbarrier(const Thread &thread, Block &block, uint32_t offset,
                      bool isAsync);

/// `(0, 0, 0)`
std::string printBlock(const Block &block);
/// `mbarrier at 1032 of block (0, 0, 0)`, for messages.
std::string printSharedAddress(const char *what, const Block &block,
                               uint32_t offset);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_SHAREDMEMORY_H
