//===- SharedMemory.h - Checked access to shared memory ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that barriers, copies and matrix products share.
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

/// The shared address of `[base + offset]` in a space that is SharedCta,
/// SharedCluster or Generic. Throws Fault if it is not in shared memory. Does
/// not check bounds.
SharedAddress getSharedAddress(const Thread &thread, StateSpace space,
                               const Value &base, const Value &offset);

/// The value of an operand that must be equal in all `lanes`. Throws Fault with
/// `what` in the message if it differs.
uint64_t getUniform(const Warp &warp, uint32_t lanes, const Value &value,
                    const char *what);

/// Throws Fault for a wrong range or alignment, as accessShared does, but
/// ignores pending accesses.
void checkShared(const Block &block, uint32_t offset, uint32_t bytes,
                 unsigned alignment);
/// Whether a pending access writes the 16 bytes from `chunk` on.
bool isBeingWritten(const Block &block, uint32_t chunk);

/// Marks bytes as an mbarrier, which other instructions may not access, or
/// removes the mark.
void protectMbarrier(Block &block, uint32_t offset, bool isThere);

/// For example `(0, 0, 0)`.
std::string printBlock(const Block &block);
/// For example `mbarrier at 1032 of block (0, 0, 0)`, for messages.
std::string printSharedAddress(const char *what, const Block &block,
                               uint32_t offset);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_SHAREDMEMORY_H
