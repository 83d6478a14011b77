//===- Barriers.cpp - Barriers of blocks and clusters, mbarriers ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, section 9.7.13.
//
//===----------------------------------------------------------------------===//

#include "instructions/Barriers.h"
#include "instructions/LoadStore.h"
#include "machine/SharedMemory.h"

using namespace fuse;
using namespace fuse::emulator;

//===----------------------------------------------------------------------===//
// Named barriers
//===----------------------------------------------------------------------===//

namespace {

/// Instruction::detail of `bar`.
enum : uint64_t {
  kIsArrive = 1,
  /// The number of threads is an operand.
  kHasCount = 2,
  /// `.red`: operand 0 is the result, the last operand is the predicate.
  kRedPopc = 4,
  kRedAnd = 8,
  kRedOr = 16,
  kIsRed = kRedPopc | kRedAnd | kRedOr,
};

/// `.relaxed`, for all kinds of barriers: the barrier orders no accesses.
constexpr uint64_t kIsRelaxed = 256;

} // namespace

static unsigned countLanes(const Warp &warp) {
  unsigned result = 0;
  for (const Thread *thread : warp.threads)
    if (thread && !thread->hasEnded)
      ++result;
  return result;
}

/// Counts whole warps: missing and ended lanes count as arrived.
static unsigned countThreads(const Block &block) {
  unsigned result = 0;
  for (const Warp &warp : block.warps)
    if (countLanes(warp) != 0)
      result += kWarpSize;
  return result;
}

/// Begins the next generation if all threads have arrived.
static void completeIfDone(Block &block, NamedBarrier &barrier) {
  unsigned expected = barrier.expected;
  if (expected == NamedBarrier::kAll)
    expected = countThreads(block);
  if (barrier.arrived < expected || barrier.arrived == 0)
    return;
  for (auto [thread, instruction] : barrier.readers) {
    uint64_t result = barrier.numTrue;
    if (instruction->detail & kRedAnd)
      result = barrier.numTrue == barrier.numVotes;
    else if (instruction->detail & kRedOr)
      result = barrier.numTrue != 0;
    thread->set(instruction->operands[0], result);
  }
  ++barrier.generation;
  barrier.arrived = barrier.numVotes = barrier.numTrue = 0;
  barrier.readers.clear();
  block.machine->change();
}

static bool isNamedBarrierOver(const Thread &thread) {
  Block &block = *thread.block;
  NamedBarrier &barrier = block.barriers[thread.blockReason.object];
  // Warps that were expected may have ended since this thread arrived.
  if (barrier.generation == thread.blockReason.state &&
      barrier.expected == NamedBarrier::kAll)
    completeIfDone(block, barrier);
  return barrier.generation != thread.blockReason.state;
}

static std::string describeNamedBarrier(const Thread &thread) {
  const NamedBarrier &barrier =
      thread.block->barriers[thread.blockReason.object];
  unsigned expected = barrier.expected == NamedBarrier::kAll
                          ? countThreads(*thread.block)
                          : barrier.expected;
  return "barrier " + std::to_string(thread.blockReason.object) + ", where " +
         std::to_string(barrier.arrived) + " of " + std::to_string(expected) +
         " threads have arrived";
}

/// Lets `weight` threads arrive. `expected` may be kAll.
static NamedBarrier &arrive(Block &block, uint64_t number, unsigned expected,
                            unsigned weight) {
  if (number >= block.barriers.size())
    throw Fault(Fault::IllegalInstruction,
                "barrier " + std::to_string(number) + " of " +
                    std::to_string(block.barriers.size()));
  if (expected == 0 || (expected != NamedBarrier::kAll &&
                        (expected % kWarpSize != 0 ||
                         expected > block.warps.size() * kWarpSize)))
    throw Fault(Fault::IllegalInstruction,
                "barrier of " + std::to_string(expected) +
                    " threads, expected a multiple of " +
                    std::to_string(kWarpSize) + " up to " +
                    std::to_string(block.warps.size() * kWarpSize));
  NamedBarrier &barrier = block.barriers[number];
  if (barrier.arrived == 0)
    barrier.expected = expected;
  if (barrier.expected != expected) {
    auto print = [](unsigned count) {
      return count == NamedBarrier::kAll ? std::string("all")
                                         : std::to_string(count);
    };
    throw Fault(Fault::IllegalInstruction,
                "barrier " + std::to_string(number) + " is used for " +
                    print(expected) + " threads, and for " +
                    print(barrier.expected) + " by those before");
  }
  barrier.arrived += weight;
  if (expected != NamedBarrier::kAll && barrier.arrived > expected)
    throw Fault(Fault::IllegalInstruction,
                std::to_string(barrier.arrived) + " threads at barrier " +
                    std::to_string(number) + ", which is for " +
                    std::to_string(expected));
  return barrier;
}

/// Lets lanes of a warp arrive at a barrier.
static void arriveLanes(Warp &warp, uint32_t lanes, unsigned weight,
                        const Instruction &instruction) {
  Block &block = *warp.block;
  bool isRed = (instruction.detail & kIsRed) != 0;
  const Value *number = &instruction.operands[isRed ? 1 : 0];
  uint64_t barrierNumber =
      static_cast<uint32_t>(getUniform(warp, lanes, *number, "the barrier"));
  unsigned expected = NamedBarrier::kAll;
  if (instruction.detail & kHasCount)
    expected = static_cast<unsigned>(
        getUniform(warp, lanes, number[1], "the number of threads"));
  NamedBarrier &barrier = arrive(block, barrierNumber, expected, weight);
  block.machine->getRaces().arrive(warp, barrier.arrivals);
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    if ((lanes >> lane & 1) == 0)
      continue;
    Thread &thread = *warp.threads[lane];
    ++thread.writes;
    if (isRed) {
      ++barrier.numVotes;
      barrier.numTrue += thread.get(instruction.operands.back()) != 0;
      barrier.readers.emplace_back(&thread, &instruction);
    }
    if ((instruction.detail & kIsArrive) == 0)
      thread.blockReason = {isNamedBarrierOver, barrierNumber,
                            barrier.generation, describeNamedBarrier,
                            &barrier.arrivals};
  }
  completeIfDone(block, barrier);
  block.machine->change();
}

static void executeAlignedBarrier(Warp &warp, uint32_t lanes,
                                  const Instruction &instruction) {
  arriveLanes(warp, lanes, kWarpSize, instruction);
}

/// Unaligned form: lanes arrive one by one. The first lane also counts for
/// lanes that are missing or have ended.
static Outcome executeBarrier(Thread &thread, const Instruction &instruction) {
  Warp &warp = *thread.warp;
  unsigned lane = 0;
  while (!warp.threads[lane] || warp.threads[lane]->hasEnded)
    ++lane;
  unsigned weight = 1;
  if (lane == thread.getLane())
    weight += kWarpSize - countLanes(warp);
  arriveLanes(warp, uint32_t(1) << thread.getLane(), weight, instruction);
  return Outcome::Poll;
}

/// `bar` means the same as `barrier` with `.aligned`.
static void decodeBarrier(const ParsedInstruction &parsed,
                          Instruction &result) {
  Parts parts(parsed);
  (void)parts.take("cta");
  bool isAligned = parts.take("aligned") || parsed.opcode[0] == "bar";
  enum Kind { Red, Arrive, Sync };
  int kind = parts.takeOne({"red", "arrive", "sync"});
  size_t count = parsed.operands.size();
  std::vector<Expected> expected(2, {Expected::In, 32});
  if (kind == Red) {
    int operation = parts.takeOne({"popc", "and", "or"});
    if (operation < 0 || !parts.take(operation == 0 ? "u32" : "pred"))
      throw std::runtime_error(parsed.opcode[0] + ".red must be .popc.u32, "
                                                  ".and.pred or .or.pred");
    constexpr uint64_t operations[] = {kRedPopc, kRedAnd, kRedOr};
    result.detail = operations[operation] | (count == 4 ? kHasCount : 0);
    if (count == 3)
      expected.pop_back();
    expected.insert(expected.begin(), {Expected::Out, operation ? 1U : 32U});
    expected.push_back({Expected::In, 1});
  } else if (kind == Arrive) {
    result.detail = kIsArrive | kHasCount;
  } else {
    result.detail = count == 2 ? kHasCount : 0;
  }
  parts.finish();
  if (kind < 0)
    throw std::runtime_error(parsed.opcode[0] +
                             " must be .sync, .arrive or .red");
  checkOperands(parsed, result, expected, /*isLastOptional=*/kind == Sync);
  if (isAligned)
    result.executeByWarp = executeAlignedBarrier;
  else
    result.execute = executeBarrier;
}

//===----------------------------------------------------------------------===//
// Barriers of clusters
//===----------------------------------------------------------------------===//

/// Begins the next generation if all threads that have not ended have arrived.
/// Threads that ended after they arrived do not count twice.
static void completeIfDone(Cluster &cluster) {
  unsigned numRunning = 0;
  for (const Block *block : cluster.blocks)
    numRunning += block->numRunning;
  if (cluster.arrived < numRunning || cluster.arrived == 0)
    return;
  for (const Block *block : cluster.blocks)
    for (const Thread &thread : block->threads)
      if (!thread.hasEnded && thread.numClusterArrivals == cluster.generation)
        return;
  cluster.arrived = 0;
  ++cluster.generation;
  cluster.blocks.front()->machine->change();
}

static bool isClusterBarrierOver(const Thread &thread) {
  Cluster &cluster = *thread.block->cluster;
  if (cluster.generation == thread.blockReason.state)
    completeIfDone(cluster);
  return cluster.generation != thread.blockReason.state;
}

static std::string describeClusterBarrier(const Thread &thread) {
  return "the barrier of its cluster, where " +
         std::to_string(thread.block->cluster->arrived) +
         " threads have arrived";
}

static Outcome arriveInCluster(Thread &thread, const Instruction &instruction) {
  Cluster &cluster = *thread.block->cluster;
  if (thread.hasArrivedInCluster)
    throw Fault(Fault::IllegalInstruction,
                "barrier.cluster.arrive follows another one without a wait");
  thread.hasArrivedInCluster = true;
  thread.numClusterArrivals = cluster.generation + 1;
  ++thread.writes;
  ++cluster.arrived;
  const WarpClock &clock = thread.warp->clock;
  if (!(instruction.detail & kIsRelaxed))
    thread.getMachine().getRaces().arrive(*thread.warp, cluster.arrivals);
  else if (clock.hasFenced)
    cluster.arrivals.join(clock.atLastFence);
  completeIfDone(cluster);
  return Outcome::Next;
}

static Outcome waitInCluster(Thread &thread, const Instruction &) {
  if (!thread.hasArrivedInCluster)
    throw Fault(Fault::IllegalInstruction,
                "barrier.cluster.wait without an arrive before");
  thread.hasArrivedInCluster = false;
  thread.blockReason = {isClusterBarrierOver, 0, thread.numClusterArrivals - 1,
                        describeClusterBarrier,
                        &thread.block->cluster->arrivals};
  return Outcome::Poll;
}

template <Execute execute>
static void executeOnLanes(Warp &warp, uint32_t lanes,
                           const Instruction &instruction) {
  for (unsigned lane = 0; lane < kWarpSize; ++lane)
    if (lanes >> lane & 1)
      (void)execute(*warp.threads[lane], instruction);
}

/// Whether the barrier is relaxed. `otherwise` is the name of the default.
static bool takeRelaxed(Parts &parts, const char *otherwise) {
  return parts.takeOne({otherwise, "relaxed"}) == 1;
}

static void decodeClusterBarrier(const ParsedInstruction &parsed,
                                 Instruction &result) {
  Parts parts(parsed, 2);
  int kind = parts.takeOne({"arrive", "wait"});
  bool isArrive = kind == 0;
  if (takeRelaxed(parts, isArrive ? "release" : "acquire"))
    result.detail = kIsRelaxed;
  bool isAligned = parts.take("aligned");
  parts.finish();
  if (kind < 0)
    throw std::runtime_error("barrier.cluster must be .arrive or .wait");
  checkOperands(parsed, result, {});
  if (isAligned)
    result.executeByWarp = isArrive ? executeOnLanes<arriveInCluster>
                                    : executeOnLanes<waitInCluster>;
  else
    result.execute = isArrive ? arriveInCluster : waitInCluster;
}

//===----------------------------------------------------------------------===//
// Mbarriers
//===----------------------------------------------------------------------===//

namespace {

/// Instruction::detail of `mbarrier`. The lowest two bits are the StateSpace.
enum : uint64_t {
  kSpaceBits = 3,
  kIsExpect = 4,
  kIsComplete = 8,
  kNoComplete = 16,
  kIsDrop = 32,
  kIsParity = 64,
  kIsTry = 128,
};

/// Limits of the counters of an mbarrier, from the PTX ISA.
constexpr uint32_t kMaxArrivals = (1u << 20) - 1;
constexpr int64_t kMaxBytes = (1 << 20) - 1;

/// The state of an mbarrier: its phase in the lower bits, and its pending
/// arrivals from kPendingShift on.
constexpr unsigned kPendingShift = 40;
constexpr uint64_t kPhaseMask = (uint64_t(1) << kPendingShift) - 1;

} // namespace

Mbarrier &emulator::getMbarrier(Block &block, uint32_t offset) {
  accessShared(block, offset, 0, 8, Access::Read);
  auto found = block.mbarriers.find(offset);
  if (found == block.mbarriers.end())
    throw Fault(Fault::IllegalInstruction,
                printSharedAddress("an mbarrier", block, offset) +
                    " has not been initialized");
  return found->second;
}

Mbarrier &emulator::useMbarrier(const Thread &thread, Block &block,
                                uint32_t offset, bool isAsync) {
  Mbarrier &barrier = getMbarrier(block, offset);
  const WarpClock &clock = thread.warp->clock;
  if (barrier.slot != clock.slot && barrier.time > clock.now.get(barrier.slot))
    throw Fault(Fault::LaunchFailed,
                printSharedAddress("an mbarrier", block, offset) +
                    " is used in no order with line " +
                    std::to_string(barrier.line) + ", which initializes it");
  if (isAsync && !barrier.isFenced)
    throw Fault(Fault::LaunchFailed,
                printSharedAddress("an mbarrier", block, offset) +
                    " is used by a copy, and line " +
                    std::to_string(barrier.line) +
                    " has initialized it without fence.mbarrier_init or "
                    "fence.proxy.async after it");
  return barrier;
}

static void completeIfDone(Block &block, uint32_t offset, Mbarrier &barrier) {
  if (barrier.bytes > kMaxBytes || barrier.bytes < -kMaxBytes)
    throw Fault(Fault::IllegalInstruction,
                printSharedAddress("the mbarrier", block, offset) +
                    " waits for " + std::to_string(barrier.bytes) +
                    " bytes, outside of +-" + std::to_string(kMaxBytes));
  if (barrier.pending != 0)
    return;
  if (barrier.bytes < 0)
    throw Fault(Fault::LaunchFailed,
                std::to_string(-barrier.bytes) +
                    " bytes more than expected have landed at the " +
                    printSharedAddress("mbarrier", block, offset));
  if (barrier.bytes > 0)
    return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  block.machine->change();
}

void emulator::completeBytes(Block &block, uint32_t offset, int64_t bytes,
                             const VectorClock &known) {
  Mbarrier &barrier = getMbarrier(block, offset);
  barrier.bytes -= bytes;
  barrier.arrivals.join(known);
  completeIfDone(block, offset, barrier);
  block.machine->change();
}

static Outcome executeInit(Thread &thread, const Instruction &instruction) {
  StateSpace space = static_cast<StateSpace>(instruction.detail & kSpaceBits);
  SharedAddress address = getSharedAddress(
      thread, space, instruction.operands[0], instruction.operands[1]);
  uint32_t count = static_cast<uint32_t>(thread.get(instruction.operands[2]));
  if (count == 0 || count > kMaxArrivals)
    throw Fault(Fault::IllegalInstruction,
                "mbarrier for " + std::to_string(count) +
                    " arrivals, not 1 to " + std::to_string(kMaxArrivals));
  // This check also finds an existing mbarrier.
  accessShared(*address.block, address.offset, 8, 8, Access::Write);
  Mbarrier barrier;
  barrier.expected = barrier.pending = count;
  const WarpClock &clock = thread.warp->clock;
  barrier.slot = clock.slot;
  barrier.time = clock.now.get(clock.slot);
  barrier.thread = thread.index;
  barrier.line = instruction.line;
  address.block->mbarriers[address.offset] = barrier;
  protectMbarrier(*address.block, address.offset, true);
  ++thread.writes;
  thread.getMachine().change();
  return Outcome::Next;
}

static Outcome executeInval(Thread &thread, const Instruction &instruction) {
  StateSpace space = static_cast<StateSpace>(instruction.detail & kSpaceBits);
  SharedAddress address = getSharedAddress(
      thread, space, instruction.operands[0], instruction.operands[1]);
  (void)useMbarrier(thread, *address.block, address.offset, /*isAsync=*/false);
  address.block->mbarriers.erase(address.offset);
  protectMbarrier(*address.block, address.offset, false);
  ++thread.writes;
  return Outcome::Next;
}

/// Operands: `state, [address], number`. The optional number counts arrivals or
/// bytes.
static Outcome executeArrive(Thread &thread, const Instruction &instruction) {
  const std::vector<Value> &operands = instruction.operands;
  uint64_t detail = instruction.detail;
  SharedAddress address =
      getSharedAddress(thread, static_cast<StateSpace>(detail & kSpaceBits),
                       operands[1], operands[2]);
  Mbarrier &barrier =
      useMbarrier(thread, *address.block, address.offset, /*isAsync=*/false);
  uint32_t number =
      operands.size() > 3 ? static_cast<uint32_t>(thread.get(operands[3])) : 1;
  uint32_t count = (detail & kIsExpect) != 0 ? 1 : number;
  if (count == 0 || count > barrier.pending ||
      ((detail & kNoComplete) != 0 && count == barrier.pending))
    throw Fault(
        Fault::IllegalInstruction,
        std::to_string(count) + " arrivals at the " +
            printSharedAddress("mbarrier", *address.block, address.offset) +
            ", which waits for " + std::to_string(barrier.pending) +
            ((detail & kNoComplete) != 0 ? " and must go on to" : ""));
  thread.set(operands[0], uint64_t(barrier.pending) << kPendingShift |
                              (barrier.phase & kPhaseMask));
  if (detail & kIsExpect)
    barrier.bytes += number;
  if (detail & kIsDrop)
    barrier.expected -= count;
  barrier.pending -= count;
  if (!(detail & kIsRelaxed))
    thread.getMachine().getRaces().arrive(*thread.warp, barrier.arrivals);
  completeIfDone(*address.block, address.offset, barrier);
  ++thread.writes;
  thread.getMachine().change();
  return Outcome::Next;
}

/// mbarrier.expect_tx and complete_tx, which act like a copy.
static Outcome executeBytes(Thread &thread, const Instruction &instruction) {
  const std::vector<Value> &operands = instruction.operands;
  SharedAddress address = getSharedAddress(
      thread, static_cast<StateSpace>(instruction.detail & kSpaceBits),
      operands[0], operands[1]);
  int64_t bytes = static_cast<uint32_t>(thread.get(operands[2]));
  if (instruction.detail & kIsComplete) {
    completeBytes(*address.block, address.offset, bytes, {});
  } else {
    Mbarrier &barrier =
        useMbarrier(thread, *address.block, address.offset, /*isAsync=*/false);
    barrier.bytes += bytes;
    completeIfDone(*address.block, address.offset, barrier);
  }
  ++thread.writes;
  thread.getMachine().change();
  return Outcome::Next;
}

/// A parity is that of a completed phase, a state contains the phase itself.
static bool isPhaseOver(const Mbarrier &barrier, uint64_t state,
                        bool isParity) {
  if (isParity)
    return (barrier.phase & 1) != state;
  return (barrier.phase & kPhaseMask) != (state & kPhaseMask);
}

static bool isTryWaitOver(const Thread &thread) {
  auto found = thread.block->mbarriers.find(
      static_cast<uint32_t>(thread.blockReason.object));
  // If the mbarrier is gone, executing the instruction again reports it.
  return found == thread.block->mbarriers.end() ||
         isPhaseOver(found->second, thread.blockReason.state,
                     thread.blockReason.object >> 32 != 0);
}

static std::string describeTryWait(const Thread &thread) {
  uint32_t offset = static_cast<uint32_t>(thread.blockReason.object);
  const Mbarrier &barrier = thread.block->mbarriers.at(offset);
  return "phase " + std::to_string(barrier.phase) + " of the " +
         printSharedAddress("mbarrier", *thread.block, offset) +
         ", which waits for " + std::to_string(barrier.pending) + " of " +
         std::to_string(barrier.expected) + " arrivals and " +
         std::to_string(barrier.bytes) + " bytes";
}

static Outcome executeWait(Thread &thread, const Instruction &instruction) {
  const std::vector<Value> &operands = instruction.operands;
  uint64_t detail = instruction.detail;
  bool isParity = (detail & kIsParity) != 0;
  SharedAddress address =
      getSharedAddress(thread, static_cast<StateSpace>(detail & kSpaceBits),
                       operands[1], operands[2]);
  if (address.block != thread.block)
    throw Fault(Fault::IllegalAddress,
                "a wait for an mbarrier of another block");
  const Mbarrier &barrier =
      useMbarrier(thread, *address.block, address.offset, /*isAsync=*/false);
  uint64_t state = thread.get(operands[3]);
  if (isParity) {
    state = static_cast<uint32_t>(state);
    if (state > 1)
      throw Fault(Fault::IllegalInstruction,
                  "a parity of " + std::to_string(state));
  }
  bool isOver = isPhaseOver(barrier, state, isParity);
  thread.set(operands[0], isOver);
  if (isOver) {
    if (!(detail & kIsRelaxed))
      Races::await(*thread.warp, barrier.arrivals);
    return Outcome::Next;
  }
  if (detail & kIsTry) {
    thread.blockReason = {isTryWaitOver,
                          uint64_t(isParity) << 32 | address.offset, state,
                          describeTryWait};
    return Outcome::Wait;
  }
  return thread.poll(kSharedWindow | address.offset, barrier.phase);
}

static Outcome executePendingCount(Thread &thread,
                                   const Instruction &instruction) {
  thread.set(instruction.operands[0],
             thread.get(instruction.operands[1]) >> kPendingShift);
  return Outcome::Next;
}

/// The remaining parts of every mbarrier opcode: `.shared.b64`.
static void finish(Parts &parts, StateSpace space, Instruction &result) {
  (void)parts.take("b64");
  parts.finish();
  result.detail |= static_cast<uint64_t>(space);
}

static void decodeInit(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  finish(parts, takeCtaSpace(parts), result);
  checkOperands(parsed, result, {{Expected::Address}, {Expected::In, 32}});
  result.execute = executeInit;
}

static void decodeInval(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  finish(parts, takeCtaSpace(parts), result);
  checkOperands(parsed, result, {{Expected::Address}});
  result.execute = executeInval;
}

/// mbarrier.arrive and arrive_drop.
static void decodeArrive(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  if (parts.take("expect_tx"))
    result.detail |= kIsExpect;
  if (parts.take("noComplete"))
    result.detail |= kNoComplete;
  if (parsed.opcode[1] == "arrive_drop")
    result.detail |= kIsDrop;
  if (takeRelaxed(parts, "release"))
    result.detail |= kIsRelaxed;
  parts.takeOne({"cta", "cluster"});
  StateSpace space = takeSharedSpace(parts);
  bool hasNumber = (result.detail & (kIsExpect | kNoComplete)) != 0;
  finish(parts, space, result);
  checkOperands(parsed, result,
                {{Expected::Out, 64}, {Expected::Address}, {Expected::In, 32}},
                /*isLastOptional=*/!hasNumber);
  if (space == StateSpace::SharedCluster &&
      parsed.operands[0].kind != Operand::Kind::None)
    throw std::runtime_error(
        "an arrival with .shared::cluster has no state, expected _");
  result.execute = executeArrive;
}

static void decodeBytes(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  (void)parts.take("relaxed");
  parts.takeOne({"cta", "cluster"});
  finish(parts, takeSharedSpace(parts), result);
  checkOperands(parsed, result, {{Expected::Address}, {Expected::In, 32}});
  if (parsed.opcode[1] == "complete_tx")
    result.detail |= kIsComplete;
  result.execute = executeBytes;
}

/// mbarrier.test_wait and try_wait. The time limit of try_wait is ignored.
static void decodeWait(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  bool isTry = parsed.opcode[1] == "try_wait", isParity = parts.take("parity");
  if (isTry)
    result.detail |= kIsTry;
  if (isParity)
    result.detail |= kIsParity;
  if (takeRelaxed(parts, "acquire"))
    result.detail |= kIsRelaxed;
  parts.takeOne({"cta", "cluster"});
  finish(parts, takeCtaSpace(parts), result);
  std::vector<Expected> expected = {{Expected::Out, 1},
                                    {Expected::Address},
                                    {Expected::In, isParity ? 32U : 64U}};
  if (isTry)
    expected.push_back({Expected::In, 32});
  checkOperands(parsed, result, expected, /*isLastOptional=*/isTry);
  result.execute = executeWait;
}

static void decodePendingCount(const ParsedInstruction &parsed,
                               Instruction &result) {
  Parts parts(parsed, 2);
  (void)parts.take("b64");
  parts.finish();
  checkOperands(parsed, result, {{Expected::Out, 32}, {Expected::In, 64}});
  result.execute = executePendingCount;
}

const Opcode emulator::kBarriers[] = {
    {"bar", decodeBarrier},
    {"barrier", decodeBarrier},
    {"barrier.cluster", decodeClusterBarrier},
    {"mbarrier.init", decodeInit},
    {"mbarrier.inval", decodeInval},
    {"mbarrier.arrive", decodeArrive},
    {"mbarrier.arrive_drop", decodeArrive},
    {"mbarrier.expect_tx", decodeBytes},
    {"mbarrier.complete_tx", decodeBytes},
    {"mbarrier.test_wait", decodeWait},
    {"mbarrier.try_wait", decodeWait},
    {"mbarrier.pending_count", decodePendingCount},
    {nullptr, nullptr}};
