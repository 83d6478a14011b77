//===- AsyncCopies.cpp - Asynchronous copies ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, section 9.7.9.25. All checks happen when a copy is issued. Its
// bytes are read and written when it completes.
//
//===----------------------------------------------------------------------===//

#include "instructions/Barriers.h"
#include "instructions/LoadStore.h"
#include "machine/SharedMemory.h"
#include "machine/TensorMap.h"

#include <algorithm>
#include <cstring>

using namespace fuse;
using namespace fuse::emulator;

//===----------------------------------------------------------------------===//
// Copies and their groups
//===----------------------------------------------------------------------===//

namespace {

/// Instruction::detail of copies.
enum : uint64_t {
  /// The rank of the tensor, or zero.
  kRankBits = 7,
  kIsMulticast = 8,
  /// `.shared::cta`: only shared memory of the own block.
  kIsOwn = 16,
  kToGlobal = 32,
  kFromShared = 64,
  /// For groups: kIsPlain selects those of cp.async, and kIsRead waits only
  /// until their sources have been read.
  kIsPlain = 128,
  kIsRead = 256,
  kIsAll = 512,
  kIsNoIncrement = 1024,
  kHasSourceBytes = 2048,
};

/// A row in global memory. Of its `bytes`, those from `begin` to `end` exist.
/// The first of these is at `address`.
struct Row {
  uint64_t address = 0;
  uint32_t begin = 0, end = 0, bytes = 0;
};

struct Group {
  /// Copies that have not read their source, and that are not complete.
  unsigned numReading = 0, numPending = 0;
  /// The number of the group on the clock of the warp (Races::commit).
  uint32_t number = 0;
};

/// A pending arrival of cp.async.mbarrier.arrive. It happens when all earlier
/// copies of the thread are complete.
struct Arrival {
  SharedAddress barrier;
  unsigned numPending;
  std::shared_ptr<const VectorClock> clock;
};

struct Copy {
  const Instruction *instruction;
  /// Kernel, block and line, for messages.
  std::string origin;
  std::vector<Row> rows;
  /// Total bytes of all rows.
  uint32_t bytes = 0;
  /// Swizzle: bytes of a row in which chunks are permuted.
  unsigned swizzleBytes = 0;
  /// Elements outside of a tensor: zeros, or NaN of this many bytes.
  unsigned nanBytes = 0;
  /// The clock of the thread when it issued the copy.
  std::shared_ptr<const VectorClock> clock;
  std::shared_ptr<Group> group;
  std::vector<std::shared_ptr<Arrival>> arrivals;
  bool isComplete = false;
};

/// Groups of copies of a thread, the newest last.
struct Groups {
  std::shared_ptr<Group> open = std::make_shared<Group>();
  std::vector<std::shared_ptr<Group>> committed;
};

/// Thread::copies. `pending` has the incomplete copies of cp.async.
struct ThreadCopies {
  Groups bulk, plain;
  std::vector<std::shared_ptr<Copy>> pending;
};

} // namespace

static ThreadCopies &getCopies(Thread &thread) {
  if (!thread.copies)
    thread.copies = std::make_shared<ThreadCopies>();
  return *static_cast<ThreadCopies *>(thread.copies.get());
}

/// The clock of the thread, which waiters for its copy acquire.
static std::shared_ptr<const VectorClock> publish(Thread &thread) {
  auto clock = std::make_shared<VectorClock>();
  thread.getMachine().getRaces().arriveAsync(*thread.warp, *clock);
  return clock;
}

static std::shared_ptr<Copy> makeCopy(Thread &thread,
                                      const Instruction &instruction) {
  auto copy = std::make_shared<Copy>();
  copy->instruction = &instruction;
  copy->origin = "kernel " + thread.block->grid->program->header.name +
                 ", block " + printBlock(*thread.block) + ", line " +
                 std::to_string(instruction.line) + " (" + instruction.opcode +
                 "), on completion: ";
  ++thread.writes;
  return copy;
}

static uint64_t beginUse(SharedAddress shared, const Copy &copy, bool isWrite) {
  return beginPendingAccess(*shared.block,
                            {{{shared.offset, shared.offset + copy.bytes}},
                             isWrite,
                             copy.instruction});
}

/// Calls `complete` when the machine decides to. Adds the origin of the copy to
/// a fault.
template <typename Complete>
static void completeLater(Machine &machine, std::shared_ptr<Copy> copy,
                          Complete complete) {
  machine.defer([copy = std::move(copy), complete = std::move(complete)] {
    try {
      complete(*copy);
    } catch (const Fault &fault) {
      throw Fault(fault.code, copy->origin + fault.what());
    }
  });
}

//===----------------------------------------------------------------------===//
// Bytes of copies
//===----------------------------------------------------------------------===//

/// Bytes of the smallest unit of copies and swizzles.
static constexpr uint32_t kChunk = 16;

/// Checks the rows in global memory when a copy is issued.
static void checkRows(Thread &thread, const Copy &copy, bool isWrite) {
  Machine &machine = thread.getMachine();
  for (const Row &row : copy.rows) {
    uint32_t bytes = row.end - row.begin;
    if (bytes == 0)
      continue;
    (void)machine.global(row.address, bytes, 1);
    if (isWrite)
      machine.getRaces().writeAsync(thread, MemoryAddress(row.address), bytes);
    else
      machine.getRaces().readAsync(thread, MemoryAddress(row.address), bytes);
  }
}

/// The bytes that a copy reads from global memory.
static std::vector<uint8_t> readRows(Machine &machine, const Copy &copy) {
  std::vector<uint8_t> box(copy.bytes, copy.nanBytes == 0 ? 0 : 0xff);
  // NaN is all ones except for its sign.
  for (uint32_t i = copy.nanBytes; copy.nanBytes && i <= copy.bytes;
       i += copy.nanBytes)
    box[i - 1] = 0x7f;
  uint8_t *bytes = box.data();
  for (const Row &row : copy.rows) {
    if (uint32_t count = row.end - row.begin)
      std::memcpy(bytes + row.begin, machine.global(row.address, count, 1),
                  count);
    bytes += row.bytes;
  }
  return box;
}

static void writeRows(Machine &machine, const Copy &copy,
                      const std::vector<uint8_t> &box) {
  const uint8_t *bytes = box.data();
  for (const Row &row : copy.rows) {
    if (uint32_t count = row.end - row.begin)
      std::memcpy(machine.global(row.address, count, 1), bytes + row.begin,
                  count);
    bytes += row.bytes;
  }
}

static std::vector<uint8_t> readBox(const Copy &copy, SharedAddress shared) {
  std::vector<uint8_t> box(copy.bytes);
  for (uint32_t i = 0; i < copy.bytes; i += kChunk)
    std::memcpy(box.data() + i,
                shared.block->shared.data() +
                    swizzle(shared.offset + i, copy.swizzleBytes),
                kChunk);
  return box;
}

static void writeBox(const Copy &copy, SharedAddress shared,
                     const std::vector<uint8_t> &box) {
  for (uint32_t i = 0; i < copy.bytes; i += kChunk)
    std::memcpy(shared.block->shared.data() +
                    swizzle(shared.offset + i, copy.swizzleBytes),
                box.data() + i, kChunk);
}

/// Makes the only row the `bytes` bytes at a global address.
static void setRow(Copy &copy, uint64_t address, uint32_t bytes) {
  if (bytes % kChunk != 0)
    throw Fault(Fault::Misaligned, "a copy of " + std::to_string(bytes) +
                                       " bytes, not a multiple of 16");
  if (address % kChunk != 0)
    throw Fault(Fault::Misaligned,
                "a copy " + std::to_string(address % kChunk) +
                    " bytes after a multiple of 16 in global memory");
  copy.bytes = bytes;
  copy.rows = {{address, 0, copy.bytes, copy.bytes}};
}

/// Sets the rows of a box at `coordinates`. Negative coordinates are outside of
/// the tensor.
static void setRows(Copy &copy, const TensorMap &map,
                    const std::array<int64_t, kMaxTensorRank> &coordinates) {
  copy.bytes = map.getBoxBytes();
  copy.swizzleBytes = map.swizzle;
  copy.nanBytes = map.fillsNan ? map.elementBytes : 0;
  Row row;
  row.bytes = map.box[0] * uint32_t(map.elementBytes);
  int64_t size = static_cast<int64_t>(map.sizes[0]);
  int64_t begin = std::clamp<int64_t>(-coordinates[0], 0, map.box[0]);
  int64_t end = std::clamp<int64_t>(size - coordinates[0], begin, map.box[0]);
  unsigned numRows = copy.bytes / row.bytes;
  for (unsigned number = 0; number < numRows; ++number) {
    uint64_t address =
        map.address + uint64_t(coordinates[0] + begin) * map.elementBytes;
    bool isThere = true;
    for (unsigned i = 1, rest = number; i < map.rank; ++i) {
      unsigned boxSize = map.getBoxSize(i);
      int64_t at = coordinates[i] + int64_t(rest % boxSize) * map.steps[i];
      rest /= boxSize;
      isThere &= at >= 0 && at < static_cast<int64_t>(map.sizes[i]);
      address += uint64_t(at) * map.strides[i - 1];
    }
    row.begin = row.end = 0;
    if (isThere) {
      row.address = address;
      row.begin = static_cast<uint32_t>(begin * map.elementBytes);
      row.end = static_cast<uint32_t>(end * map.elementBytes);
    }
    copy.rows.push_back(row);
  }
}

/// Sets the rows for `[map, {coordinates}]` and moves `operand` past them.
static void setTensorRows(Thread &thread, Copy &copy, const Value *&operand) {
  constexpr unsigned mapBytes = 128, mapAlignment = 64;
  uint64_t address = thread.get(operand[0]) + thread.get(operand[1]);
  TensorMap map = readTensorMap(
      accessGeneric(thread, address, mapBytes, mapAlignment, Access::Read));
  operand += 2;
  unsigned rank = copy.instruction->detail & kRankBits;
  if (rank != map.rank)
    throw Fault(Fault::IllegalInstruction,
                "a tensor of " + std::to_string(map.rank) +
                    " dimensions in a copy of " + std::to_string(rank));
  std::array<int64_t, kMaxTensorRank> coordinates{};
  for (unsigned i = 0; i < rank; ++i)
    coordinates[i] = static_cast<int32_t>(thread.get(*operand++));
  setRows(copy, map, coordinates);
}

/// The alignment of shared memory for a copy.
static unsigned getAlignment(const Copy &copy) {
  constexpr unsigned ofTensors = 128;
  return copy.instruction->detail & kRankBits ? ofTensors : kChunk;
}

//===----------------------------------------------------------------------===//
// To shared memory
//===----------------------------------------------------------------------===//

/// The blocks that receive a copy: one, or all blocks of a multicast mask.
static std::vector<Block *>
getTargets(Thread &thread, SharedAddress destination, const Value *mask) {
  if (!mask)
    return {destination.block};
  std::vector<Block *> targets;
  size_t numBlocks = thread.block->cluster->blocks.size();
  uint32_t bits = static_cast<uint16_t>(thread.get(*mask));
  for (uint32_t rank = 0; bits >> rank != 0; ++rank) {
    if (!(bits >> rank & 1))
      continue;
    if (rank >= numBlocks)
      throw Fault(Fault::IllegalInstruction,
                  "a mask of " + std::to_string(bits) + " for a cluster of " +
                      std::to_string(numBlocks));
    targets.push_back(&getBlockOf(*thread.block, (rank + 1) << kRankShift));
  }
  return targets;
}

/// Issues a copy that completes at an mbarrier. `read` returns its bytes on
/// completion.
template <typename Read>
static void beginToShared(Thread &thread, const std::shared_ptr<Copy> &copy,
                          SharedAddress destination, const Value *barrier,
                          const Value *mask, Read read) {
  Machine &machine = thread.getMachine();
  StateSpace space = copy->instruction->detail & kIsOwn
                         ? StateSpace::SharedCta
                         : StateSpace::SharedCluster;
  SharedAddress at = getSharedAddress(thread, space, barrier[0], barrier[1]);
  if (!mask && at.block != destination.block)
    throw Fault(Fault::IllegalAddress,
                "a copy to block " + printBlock(*destination.block) +
                    " with the " +
                    printSharedAddress("mbarrier", *at.block, at.offset));
  std::vector<Block *> targets = getTargets(thread, destination, mask);
  std::vector<uint64_t> ids;
  for (Block *block : targets) {
    (void)accessShared(*block, destination.offset, copy->bytes,
                       getAlignment(*copy), Access::Write);
    (void)useMbarrier(thread, *block, at.offset, /*isAsync=*/true);
    machine.getRaces().writeAsync(
        thread, MemoryAddress(*block, destination.offset), copy->bytes);
    ids.push_back(
        beginUse({block, destination.offset}, *copy, /*isWrite=*/true));
  }
  copy->clock = publish(thread);
  for (size_t i = 0; i < targets.size(); ++i)
    completeLater(
        machine, copy,
        [&machine, read, target = SharedAddress{targets[i], destination.offset},
         id = ids[i], barrier = at.offset](Copy &copy) {
          writeBox(copy, target, read(machine, copy));
          endPendingAccess(*target.block, id);
          completeBytes(*target.block, barrier, copy.bytes, *copy.clock);
        });
}

/// Operands: `[destination], [source], bytes, [mbarrier], mask`. The source is
/// a tensor, global memory or shared memory.
static Outcome executeToShared(Thread &thread, const Instruction &instruction) {
  const Value *operand = instruction.operands.data();
  uint64_t detail = instruction.detail;
  auto copy = makeCopy(thread, instruction);
  SharedAddress destination = getSharedAddress(
      thread,
      detail & kIsOwn ? StateSpace::SharedCta : StateSpace::SharedCluster,
      operand[0], operand[1]);
  operand += 2;
  if (detail & kFromShared) {
    SharedAddress source =
        getSharedAddress(thread, StateSpace::SharedCta, operand[0], operand[1]);
    setRow(*copy, 0, static_cast<uint32_t>(thread.get(operand[2])));
    (void)accessShared(*source.block, source.offset, copy->bytes, kChunk,
                       Access::Read);
    thread.getMachine().getRaces().readAsync(
        thread, MemoryAddress(*source.block, source.offset), copy->bytes);
    uint64_t id = beginUse(source, *copy, /*isWrite=*/false);
    beginToShared(thread, copy, destination, operand + 3, nullptr,
                  [source, id](Machine &, const Copy &copy) {
                    endPendingAccess(*source.block, id);
                    return readBox(copy, source);
                  });
    return Outcome::Next;
  }
  if (detail & kRankBits) {
    setTensorRows(thread, *copy, operand);
  } else {
    setRow(*copy, thread.get(operand[0]) + thread.get(operand[1]),
           static_cast<uint32_t>(thread.get(operand[2])));
    operand += 3;
  }
  checkRows(thread, *copy, /*isWrite=*/false);
  beginToShared(thread, copy, destination, operand,
                detail & kIsMulticast ? operand + 2 : nullptr, readRows);
  return Outcome::Next;
}

//===----------------------------------------------------------------------===//
// To global memory
//===----------------------------------------------------------------------===//

/// Operands: `[destination], [source], bytes` or `[map, {coordinates}],
/// [source]`. All bytes are read before any are written.
static Outcome executeToGlobal(Thread &thread, const Instruction &instruction) {
  const Value *operand = instruction.operands.data();
  Machine &machine = thread.getMachine();
  auto copy = makeCopy(thread, instruction);
  if (instruction.detail & kRankBits) {
    setTensorRows(thread, *copy, operand);
  } else {
    setRow(*copy, thread.get(operand[0]) + thread.get(operand[1]),
           static_cast<uint32_t>(thread.get(operand[4])));
    operand += 2;
  }
  SharedAddress source =
      getSharedAddress(thread, StateSpace::SharedCta, operand[0], operand[1]);
  (void)accessShared(*source.block, source.offset, copy->bytes,
                     getAlignment(*copy), Access::Read);
  machine.getRaces().readAsync(
      thread, MemoryAddress(*source.block, source.offset), copy->bytes);
  checkRows(thread, *copy, /*isWrite=*/true);
  uint64_t id = beginUse(source, *copy, /*isWrite=*/false);
  copy->group = getCopies(thread).bulk.open;
  ++copy->group->numReading;
  ++copy->group->numPending;
  completeLater(machine, copy, [&machine, copy, source, id](Copy &) {
    endPendingAccess(*source.block, id);
    --copy->group->numReading;
    machine.change();
    completeLater(machine, copy,
                  [&machine, box = readBox(*copy, source)](Copy &copy) {
                    writeRows(machine, copy, box);
                    --copy.group->numPending;
                    machine.change();
                  });
  });
  return Outcome::Next;
}

//===----------------------------------------------------------------------===//
// cp.async
//===----------------------------------------------------------------------===//

static void arriveIfDone(Machine &machine, Arrival &arrival) {
  if (arrival.numPending != 0)
    return;
  Mbarrier &barrier =
      getMbarrier(*arrival.barrier.block, arrival.barrier.offset);
  if (barrier.pending == 0)
    throw Fault(Fault::IllegalInstruction,
                "more arrivals than expected at the " +
                    printSharedAddress("mbarrier", *arrival.barrier.block,
                                       arrival.barrier.offset));
  --barrier.pending;
  completeBytes(*arrival.barrier.block, arrival.barrier.offset, 0,
                *arrival.clock);
  machine.change();
}

/// Operands: `[destination], [source], bytes, bytes of the source`.
static Outcome executePlain(Thread &thread, const Instruction &instruction) {
  const std::vector<Value> &operands = instruction.operands;
  Machine &machine = thread.getMachine();
  auto copy = makeCopy(thread, instruction);
  SharedAddress destination =
      getSharedAddress(thread, StateSpace::SharedCta, operands[0], operands[1]);
  copy->bytes = static_cast<uint32_t>(thread.get(operands[4]));
  uint32_t sourceBytes = copy->bytes;
  if (instruction.detail & kHasSourceBytes)
    sourceBytes = static_cast<uint32_t>(thread.get(operands[5]));
  if (sourceBytes > copy->bytes)
    throw Fault(Fault::IllegalInstruction,
                "a copy of " + std::to_string(sourceBytes) + " bytes to " +
                    std::to_string(copy->bytes));
  uint64_t address = thread.get(operands[2]) + thread.get(operands[3]);
  copy->rows = {{address, 0, sourceBytes, copy->bytes}};
  // cp.async uses the generic proxy.
  if (sourceBytes != 0) {
    (void)machine.global(address, sourceBytes, copy->bytes);
    machine.getRaces().read(thread, MemoryAddress(address), sourceBytes);
  }
  (void)accessShared(*destination.block, destination.offset, copy->bytes,
                     copy->bytes, Access::Write);
  machine.getRaces().write(
      thread, MemoryAddress(*destination.block, destination.offset),
      copy->bytes);
  uint64_t id = beginUse(destination, *copy, /*isWrite=*/true);
  ThreadCopies &copies = getCopies(thread);
  copy->group = copies.plain.open;
  ++copy->group->numReading;
  ++copy->group->numPending;
  auto &pending = copies.pending;
  pending.erase(
      std::remove_if(pending.begin(), pending.end(),
                     [](const auto &other) { return other->isComplete; }),
      pending.end());
  pending.push_back(copy);
  completeLater(machine, copy, [&machine, destination, id](Copy &copy) {
    std::vector<uint8_t> bytes = readRows(machine, copy);
    std::copy(bytes.begin(), bytes.end(),
              destination.block->shared.begin() + destination.offset);
    endPendingAccess(*destination.block, id);
    --copy.group->numReading;
    --copy.group->numPending;
    copy.isComplete = true;
    for (const std::shared_ptr<Arrival> &arrival : copy.arrivals) {
      --arrival->numPending;
      arriveIfDone(machine, *arrival);
    }
    machine.change();
  });
  return Outcome::Next;
}

/// cp.async.mbarrier.arrive. Without `.noinc` the arrival is added to those
/// that the mbarrier expects.
static Outcome executeArrive(Thread &thread, const Instruction &instruction) {
  auto arrival = std::make_shared<Arrival>();
  arrival->barrier = getSharedAddress(
      thread,
      instruction.detail & kIsOwn ? StateSpace::SharedCta : StateSpace::Generic,
      instruction.operands[0], instruction.operands[1]);
  Mbarrier &barrier = useMbarrier(thread, *arrival->barrier.block,
                                  arrival->barrier.offset, /*isAsync=*/false);
  if (!(instruction.detail & kIsNoIncrement))
    ++barrier.pending;
  arrival->clock = publish(thread);
  arrival->numPending = 0;
  for (const std::shared_ptr<Copy> &copy : getCopies(thread).pending) {
    if (copy->isComplete)
      continue;
    copy->arrivals.push_back(arrival);
    ++arrival->numPending;
  }
  ++thread.writes;
  arriveIfDone(thread.getMachine(), *arrival);
  return Outcome::Next;
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

static Outcome executeCommit(Thread &thread, const Instruction &instruction) {
  ThreadCopies &copies = getCopies(thread);
  Groups &groups = instruction.detail & kIsPlain ? copies.plain : copies.bulk;
  groups.open->number = thread.getMachine().getRaces().commit(*thread.warp);
  groups.committed.push_back(std::move(groups.open));
  groups.open = std::make_shared<Group>();
  return Outcome::Next;
}

/// BlockReason::state of a wait: how many of the newest groups may be under
/// way, above the bits of the instruction.
static constexpr unsigned kCountShift = 32;

static bool isWaitOver(const Thread &thread) {
  uint64_t state = thread.blockReason.state;
  auto &copies = *static_cast<ThreadCopies *>(thread.copies.get());
  auto &committed = (state & kIsPlain ? copies.plain : copies.bulk).committed;
  uint64_t count = state >> kCountShift;
  if (count >= committed.size())
    return true;
  auto end = committed.end() - static_cast<ptrdiff_t>(count);
  if (std::any_of(
          committed.begin(), end, [&](const std::shared_ptr<Group> &group) {
            return state & kIsRead ? group->numReading : group->numPending;
          }))
    return false;
  Races::await(*thread.warp, *thread.warp, end[-1]->number);
  // Groups whose sources have been read can be waited for again.
  if (!(state & kIsRead))
    committed.erase(committed.begin(), end);
  return true;
}

static std::string describeWait(const Thread &thread) {
  const char *what =
      thread.blockReason.state & kIsPlain ? "cp.async" : "cp.async.bulk";
  return std::string("all but ") +
         std::to_string(thread.blockReason.state >> kCountShift) +
         " groups of " + what;
}

static Outcome executeWait(Thread &thread, const Instruction &instruction) {
  if (instruction.detail & kIsAll)
    (void)executeCommit(thread, instruction);
  uint64_t count =
      instruction.detail & kIsAll ? 0 : thread.get(instruction.operands[0]);
  (void)getCopies(thread);
  thread.blockReason = {
      isWaitOver, 0, count << kCountShift | instruction.detail, describeWait};
  // The thread continues after the wait.
  return Outcome::Poll;
}

//===----------------------------------------------------------------------===//
// Prefetches
//===----------------------------------------------------------------------===//

/// Operands: `[source], bytes` or `[map, {coordinates}]`. A prefetch only
/// checks that the memory exists.
static Outcome executePrefetch(Thread &thread, const Instruction &instruction) {
  const Value *operand = instruction.operands.data();
  Copy copy;
  copy.instruction = &instruction;
  if (instruction.detail & kRankBits)
    setTensorRows(thread, copy, operand);
  else
    setRow(copy, thread.get(operand[0]) + thread.get(operand[1]),
           static_cast<uint32_t>(thread.get(operand[2])));
  for (const Row &row : copy.rows)
    if (uint32_t bytes = row.end - row.begin)
      (void)thread.getMachine().global(row.address, bytes, 1);
  return Outcome::Next;
}

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

/// The address spaces in order: destination, then source.
static std::string takeSpaces(const ParsedInstruction &parsed, Parts &parts) {
  std::string result;
  for (const std::string &part : parsed.opcode)
    if ((part == "global" || part.compare(0, 6, "shared") == 0) &&
        parts.take(part))
      result += "." + part;
  return result;
}

/// cp.async.bulk and cp.async.bulk.tensor.
static void decodeBulk(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 3);
  unsigned rank = parts.takeRank();
  if (parts.take("tensor") != (rank != 0))
    throw std::runtime_error("a copy with dimensions must be .tensor");
  if (rank)
    (void)parts.take("tile");
  std::string spaces = takeSpaces(parsed, parts);
  bool hasGroup = parts.take("bulk_group");
  bool hasBarrier = parts.take("mbarrier::complete_tx::bytes");
  bool isMulticast = parts.take("multicast::cluster");
  bool hasPolicy = parts.take("L2::cache_hint");
  parts.finish();
  bool isToGlobal = spaces == ".global.shared::cta" && hasGroup;
  result.detail = rank;
  if (isToGlobal)
    result.detail |= kToGlobal;
  else if (spaces == ".shared::cta.global")
    result.detail |= kIsOwn;
  else if (spaces == ".shared::cluster.shared::cta" && rank == 0)
    result.detail |= kFromShared;
  else if (spaces != ".shared::cluster.global")
    throw std::runtime_error("the emulator does not know copies of " + spaces);
  if (hasBarrier == isToGlobal)
    throw std::runtime_error("copies to shared memory, and only those, need "
                             ".mbarrier::complete_tx::bytes");
  if (isMulticast && spaces != ".shared::cluster.global")
    throw std::runtime_error("multicast is from .global to .shared::cluster");
  // A tensor map with coordinates is one side of the copy and determines the
  // number of bytes.
  std::vector<Expected> expected = {{Expected::Address}};
  expected.insert(isToGlobal ? expected.begin() : expected.end(),
                  {Expected::Address, rank ? 32U : 0, rank});
  if (!rank)
    expected.push_back({Expected::In, 32});
  if (!isToGlobal)
    expected.push_back({Expected::Address});
  if (isMulticast) {
    result.detail |= kIsMulticast;
    expected.push_back({Expected::In, 16});
  }
  if (hasPolicy)
    expected.push_back({Expected::In, 64});
  checkOperands(parsed, result, expected);
  result.execute = isToGlobal ? executeToGlobal : executeToShared;
}

static void decodePlain(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  bool isSmall = parts.take("ca");
  if (!isSmall)
    (void)parts.take("cg");
  std::string spaces = takeSpaces(parsed, parts);
  bool hasPolicy = parts.take("L2::cache_hint");
  parts.takeOne({"L2::64B", "L2::128B", "L2::256B"});
  parts.finish();
  if (spaces != ".shared.global" && spaces != ".shared::cta.global")
    throw std::runtime_error("the emulator does not know cp.async of " +
                             spaces);
  std::vector<Expected> expected = {
      {Expected::Address}, {Expected::Address}, {Expected::Constant, 32}};
  if (parsed.operands.size() == 4U + hasPolicy) {
    result.detail |= kHasSourceBytes;
    expected.push_back({Expected::In, 32});
  }
  if (hasPolicy)
    expected.push_back({Expected::In, 64});
  checkOperands(parsed, result, expected);
  uint64_t bytes = parsed.operands[2].value;
  if (bytes != 16 && !(isSmall && (bytes == 4 || bytes == 8)))
    throw std::runtime_error("cp.async copies 16 bytes, with .ca also 4 or 8");
  result.execute = executePlain;
}

static void decodeArrive(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 4);
  if (takeCtaSpace(parts) == StateSpace::SharedCta)
    result.detail |= kIsOwn;
  if (parts.take("noinc"))
    result.detail |= kIsNoIncrement;
  (void)parts.take("b64");
  parts.finish();
  checkOperands(parsed, result, {{Expected::Address}});
  result.execute = executeArrive;
}

/// Whether the opcode is `cp.async.bulk.*_group` and not `cp.async.*_group`.
static bool isBulk(const ParsedInstruction &parsed) {
  return parsed.opcode[2] == "bulk";
}

static void decodeCommit(const ParsedInstruction &parsed, Instruction &result) {
  Parts(parsed, isBulk(parsed) ? 4 : 3).finish();
  checkOperands(parsed, result, {});
  result.detail = isBulk(parsed) ? 0 : kIsPlain;
  result.execute = executeCommit;
}

static void decodeWait(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, isBulk(parsed) ? 4 : 3);
  if (!isBulk(parsed))
    result.detail = kIsPlain;
  else if (parts.take("read"))
    result.detail = kIsRead;
  parts.finish();
  checkOperands(parsed, result, {{Expected::Constant, 32}});
  result.execute = executeWait;
}

static void decodeWaitAll(const ParsedInstruction &parsed,
                          Instruction &result) {
  Parts(parsed, 3).finish();
  checkOperands(parsed, result, {});
  result.detail = kIsPlain | kIsAll;
  result.execute = executeWait;
}

static void decodePrefetch(const ParsedInstruction &parsed,
                           Instruction &result) {
  Parts parts(parsed, 4);
  unsigned rank = parts.takeRank();
  if (parts.take("tensor") != (rank != 0))
    throw std::runtime_error("a prefetch with dimensions must be .tensor");
  if (rank)
    (void)parts.take("tile");
  (void)parts.take("L2");
  (void)parts.take("global");
  bool hasPolicy = parts.take("L2::cache_hint");
  parts.finish();
  result.detail = rank;
  std::vector<Expected> expected = {{Expected::Address, rank ? 32U : 0, rank}};
  if (!rank)
    expected.push_back({Expected::In, 32});
  if (hasPolicy)
    expected.push_back({Expected::In, 64});
  checkOperands(parsed, result, expected);
  result.execute = executePrefetch;
}

const Opcode emulator::kAsyncCopies[] = {
    {"cp.async", decodePlain},
    {"cp.async.commit_group", decodeCommit},
    {"cp.async.wait_group", decodeWait},
    {"cp.async.wait_all", decodeWaitAll},
    {"cp.async.mbarrier.arrive", decodeArrive},
    {"cp.async.bulk", decodeBulk},
    {"cp.async.bulk.commit_group", decodeCommit},
    {"cp.async.bulk.wait_group", decodeWait},
    {"cp.async.bulk.prefetch", decodePrefetch},
    {nullptr, nullptr}};
