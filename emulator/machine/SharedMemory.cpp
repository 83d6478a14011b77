//===- SharedMemory.cpp - Checked access to shared memory -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "machine/SharedMemory.h"

#include <algorithm>

using namespace fuse;
using namespace fuse::emulator;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

std::string emulator::printBlock(const Block &block) {
  return "(" + std::to_string(block.position[0]) + ", " +
         std::to_string(block.position[1]) + ", " +
         std::to_string(block.position[2]) + ")";
}

std::string emulator::printSharedAddress(const char *what, const Block &block,
                                         uint32_t offset) {
  return std::string(what) + " at " + std::to_string(offset) + " of block " +
         printBlock(block);
}

Block &emulator::getBlockOf(Block &own, uint32_t address) {
  uint32_t rank = address >> kRankShift;
  if (rank == 0)
    return own;
  if (rank > own.cluster->blocks.size())
    throw Fault(Fault::IllegalAddress,
                "shared address " + std::to_string(address) +
                    " is not in a block of a cluster of " +
                    std::to_string(own.cluster->blocks.size()));
  Block &block = *own.cluster->blocks[rank - 1];
  // Another block may use its shared memory now.
  if (block.numRunning == 0)
    throw Fault(Fault::IllegalAddress, "shared memory of block " +
                                           printBlock(block) +
                                           ", which has ended");
  return block;
}

SharedAddress emulator::getSharedAddress(const Thread &thread, StateSpace space,
                                         const Value &base,
                                         const Value &offset) {
  uint64_t address = thread.get(base) + thread.get(offset);
  if (space == StateSpace::Generic &&
      (address & kSharedWindowMask) != kSharedWindow)
    throw Fault(Fault::IllegalAddress, "generic address " +
                                           std::to_string(address) +
                                           " is not in shared memory");
  uint32_t shared = static_cast<uint32_t>(address);
  Block &block = getBlockOf(*thread.block, shared);
  if (space == StateSpace::SharedCta && &block != thread.block)
    throw Fault(Fault::IllegalAddress,
                "an address of block " + printBlock(block) +
                    " where only shared memory of the own block is allowed");
  return {&block, getOffset(shared)};
}

uint64_t emulator::getUniform(const Warp &warp, uint32_t lanes,
                              const Value &value, const char *what) {
  uint64_t result = 0;
  bool isFirst = true;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((lanes >> lane & 1) == 0)
      continue;
    uint64_t bits = warp.threads[lane]->get(value);
    if (!isFirst && bits != result)
      throw Fault(Fault::IllegalInstruction,
                  std::string(what) + " differs in a warp: " +
                      std::to_string(result) + " and, in lane " +
                      std::to_string(lane) + ", " + std::to_string(bits));
    result = bits;
    isFirst = false;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// Granularity of Block::readers and Block::writers, in bytes. These counters
/// only show where the exact check is needed.
static constexpr uint32_t kGranule = 16;

/// Size of an mbarrier in bytes.
static constexpr uint32_t kMbarrierBytes = 8;

static bool overlaps(const SharedRange &a, uint32_t begin, uint32_t end) {
  return a.begin < end && begin < a.end;
}

static void checkConflicts(const Block &block, uint32_t begin, uint32_t end,
                           Access access) {
  for (const auto &[id, other] : block.pendingAccesses) {
    if (!other.isWrite && access == Access::Read)
      continue;
    for (size_t i = 0; i < other.poisonable.size(); ++i)
      if (overlaps(other.poisonable[i], begin, end))
        other.poison(i);
    for (const SharedRange &range : other.ranges) {
      if (!overlaps(range, begin, end))
        continue;
      throw Fault(Fault::LaunchFailed,
                  printSharedAddress(access == Access::Read ? "read" : "write",
                                     block, begin) +
                      " while " + other.instruction->opcode + " of line " +
                      std::to_string(other.instruction->line) +
                      (other.isWrite ? " still writes it" : " still reads it"));
    }
  }
  for (const auto &[offset, barrier] : block.mbarriers)
    if (overlaps({offset, offset + kMbarrierBytes}, begin, end))
      throw Fault(Fault::LaunchFailed,
                  std::string(access == Access::Read ? "read" : "write") +
                      " of an " +
                      printSharedAddress("mbarrier", block, offset));
}

static bool hasAny(const std::vector<uint16_t> &numbers, uint32_t begin,
                   uint32_t end) {
  for (uint32_t i = begin / kGranule; i <= (end - 1) / kGranule; ++i)
    if (numbers[i] != 0)
      return true;
  return false;
}

void emulator::checkShared(const Block &block, uint32_t offset, uint32_t bytes,
                           unsigned alignment) {
  if (offset < kSharedBase || offset > block.shared.size() ||
      bytes > block.shared.size() - offset)
    throw Fault(Fault::IllegalAddress,
                std::to_string(bytes) + " bytes of " +
                    printSharedAddress("shared memory", block, offset) +
                    ", which has addresses from " +
                    std::to_string(kSharedBase) + " to " +
                    std::to_string(block.shared.size()));
  if (offset % alignment != 0)
    throw Fault(Fault::Misaligned,
                printSharedAddress("shared memory", block, offset) +
                    " is not aligned to " + std::to_string(alignment));
}

uint8_t *emulator::accessShared(Block &block, uint32_t offset, uint32_t bytes,
                                unsigned alignment, Access access) {
  checkShared(block, offset, bytes, alignment);
  if (bytes != 0 && !block.writers.empty()) {
    uint32_t end = offset + bytes;
    if (hasAny(block.writers, offset, end) ||
        (access == Access::Write && hasAny(block.readers, offset, end)))
      checkConflicts(block, offset, end, access);
  }
  return block.shared.data() + offset;
}

/// Adds `step` to the counter of each granule in a range.
static void count(Block &block, const SharedRange &range, bool isWrite,
                  int step) {
  if (block.writers.empty()) {
    size_t numGranules = (block.shared.size() + kGranule - 1) / kGranule;
    block.readers.resize(numGranules);
    block.writers.resize(numGranules);
  }
  if (range.begin == range.end)
    return;
  std::vector<uint16_t> &numbers = isWrite ? block.writers : block.readers;
  for (uint32_t i = range.begin / kGranule; i <= (range.end - 1) / kGranule;
       ++i)
    numbers[i] = static_cast<uint16_t>(numbers[i] + step);
}

uint64_t emulator::beginPendingAccess(Block &block, PendingAccess use) {
  for (const SharedRange &range : use.ranges)
    accessShared(block, range.begin, range.end - range.begin, 1,
                 use.isWrite ? Access::Write : Access::Read);
  for (const auto *ranges : {&use.ranges, &use.poisonable})
    for (const SharedRange &range : *ranges)
      count(block, range, use.isWrite, 1);
  uint64_t id = ++block.lastPendingAccess;
  block.pendingAccesses.emplace(id, std::move(use));
  return id;
}

bool emulator::isBeingWritten(const Block &block, uint32_t chunk) {
  return !block.writers.empty() && block.writers[chunk / kGranule] != 0;
}

void emulator::endPendingAccess(Block &block, uint64_t id) {
  auto found = block.pendingAccesses.find(id);
  if (found == block.pendingAccesses.end())
    return;
  const PendingAccess &use = found->second;
  for (const auto *ranges : {&use.ranges, &use.poisonable})
    for (const SharedRange &range : *ranges)
      count(block, range, use.isWrite, -1);
  block.pendingAccesses.erase(found);
}

void emulator::protectMbarrier(Block &block, uint32_t offset, bool isThere) {
  count(block, {offset, offset + kMbarrierBytes}, /*isWrite=*/true,
        isThere ? 1 : -1);
}
