//===- Machine.h - Blocks, threads and what they share ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GPU of compute capability 9.0 without its speed: threads run one after the
// other on one thread of the host, in an order that a seed determines. Whatever
// PTX calls asynchronous happens as late or as early as the seed says.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_MACHINE_MACHINE_H
#define FUSE_EMULATOR_MACHINE_MACHINE_H

#include "instructions/Instruction.h"
#include "machine/Races.h"

#include <cstdlib>
#include <deque>
#include <list>
#include <random>
#include <unordered_map>

namespace fuse::emulator {

class Machine;
struct Grid;
struct Cluster;
struct Block;

constexpr unsigned kWarpSize = 32;

/// Of the device; what it has of each multiprocessor are Hopper's.
struct Limits {
  unsigned multiprocessors = 132;
  uint32_t sharedPerMultiprocessor = 228 * 1024;
  /// What a block may have, with kSharedBase bytes more of its own.
  uint32_t sharedPerBlock = 227 * 1024;
  unsigned threadsPerMultiprocessor = 2048;
  unsigned registersPerMultiprocessor = 65536;
  unsigned blocksPerMultiprocessor = 32;
  /// Instructions of all threads until a launch is taken to hang, which those
  /// that count to the end of time do; those that wait for each other are found
  /// at once.
  uint64_t instructions = uint64_t(1) << 40;
  /// Races.h; takes about as much time again.
  bool findsRaces = true;
};

/// Why a thread does not go on, now or after the instruction that it is at. It
/// is looked at again when something has changed.
struct BlockReason {
  /// Nothing: it can go on.
  bool (*isOver)(const Thread &) = nullptr;
  /// For isOver.
  uint64_t object = 0, state = 0;
  /// What it waits for, for messages: `a phase of the mbarrier at 1032`.
  std::string (*describe)(const Thread &) = nullptr;
  /// What it knows when it goes on.
  const VectorClock *acquired = nullptr;
};

struct Thread {
  Block *block;
  Warp *warp;
  /// In its block: x fastest. The lane is its remainder by 32.
  unsigned index;
  std::array<unsigned, 3> position;
  uint32_t pc = 0;
  bool hasEnded = false;
  /// At an instruction that lanes execute together.
  bool isAtWarpInstruction = false;
  BlockReason blockReason;
  /// The instruction that made it wait.
  uint32_t blockedAt = 0;
  /// Its own in Block::registers, of which the next is kWarpSize behind.
  uint64_t *registers = nullptr;
  std::vector<uint8_t> local;
  /// What it found when it looked last, by instruction: a second look that
  /// finds the same, without a change by this thread between them, waits until
  /// anything changes.
  struct Poll {
    uint64_t address = 0, value = 0, writes = 0, count = 0;
  };
  std::unordered_map<uint32_t, Poll> polls;
  /// Counts what this thread has changed outside of its registers.
  uint64_t writes = 0;
  /// Whether it has arrived at the barrier of its cluster without a wait since,
  /// and how many times: once in each generation.
  bool hasArrivedInCluster = false;
  uint64_t numClusterArrivals = 0;
  /// Its copies in groups, for AsyncCopies.cpp: see there.
  std::shared_ptr<void> copies;

  unsigned getLane() const { return index % kWarpSize; }
  Machine &getMachine() const;

  /// Registers are 64 bits; narrower values are extended with zeros, a
  /// predicate is 0 or 1, two halves are packed as PTX packs them.
  uint64_t get(const Value &value) const {
    uint64_t bits = value.isRegister
                        ? registers[size_t(value.index) * kWarpSize]
                        : value.bits;
    return value.isNegated ? bits ^ 1 : bits;
  }
  /// Does nothing for `_`.
  void set(const Value &value, uint64_t bits) {
    if (value.isRegister)
      registers[size_t(value.index) * kWarpSize] = bits;
  }

  /// Calls in handlers of loads that may wait for others (volatile, relaxed,
  /// acquire, test_wait): Outcome::Poll, or Wait with `waiting` set.
  Outcome poll(uint64_t address, uint64_t value);
};

struct Warp {
  Block *block;
  /// Of the block; threads[lane] is null behind the end of the block.
  unsigned index;
  std::array<Thread *, kWarpSize> threads{};

  WarpClock clock;
  /// Set by what lanes execute together where they have to come back to it when
  /// others have gone on: what they wait for.
  const char *blockedOn = nullptr;
  /// Products under way, for Products.cpp: see there.
  std::shared_ptr<void> wgmma;
};

/// An mbarrier, by its place in shared memory. The bytes there mean nothing.
struct Mbarrier {
  uint32_t expected = 0, pending = 0;
  int64_t bytes = 0;
  uint64_t phase = 0;
  VectorClock arrivals;
  /// Who initialized it and when by its own clock, and whether there was a
  /// fence behind that, without which copies do not know of it.
  uint32_t slot = 0, time = 0;
  unsigned thread = 0, line = 0;
  bool isFenced = false;
};

/// `bar` with a number.
struct NamedBarrier {
  /// In threads; those that are missing in a warp count. Nothing is expected
  /// before the first has arrived.
  unsigned arrived = 0, expected = 0;
  /// Expects all warps that have not ended.
  static constexpr unsigned kAll = ~0u;
  uint64_t generation = 0;
  VectorClock arrivals;
  /// Of `bar.red`: how many had a predicate, how many of these were true, and
  /// who gets the result.
  unsigned numVotes = 0, numTrue = 0;
  std::vector<std::pair<Thread *, const Instruction *>> readers;
};

/// Bytes of shared memory.
struct SharedRange {
  uint32_t begin, end;
};

/// Shared memory that something reads or writes which goes on while threads do.
struct PendingAccess {
  std::vector<SharedRange> ranges;
  bool isWrite;
  const Instruction *instruction;
  /// Products read rows whose values are unused. A write to one of these
  /// ranges, which are behind the others, is not a fault: `poison` gets their
  /// number and takes care that what is made of it is not a number.
  std::vector<SharedRange> poisonable = {};
  std::function<void(size_t)> poison = nullptr;
};

struct Block {
  Machine *machine;
  Grid *grid;
  Cluster *cluster;
  std::array<unsigned, 3> position;
  /// In the grid, x fastest, and in the cluster.
  unsigned index, rank;
  /// Among all blocks that ran.
  uint64_t number;
  unsigned multiprocessor;
  /// All of what it may address, from zero; in the beginning bytes are 0xff,
  /// which is NaN in all floats.
  std::vector<uint8_t> shared;
  std::deque<Thread> threads;
  std::deque<Warp> warps;
  /// By warp, number and lane, and zero. PTX has thousands, and most blocks of
  /// small shapes end early: pages that no warp has come to are not there.
  std::unique_ptr<uint64_t[], decltype(&std::free)> registers{nullptr,
                                                              std::free};
  std::unordered_map<uint32_t, Mbarrier> mbarriers;
  std::array<NamedBarrier, 16> barriers;
  /// By their id, and how many of them read and write parts of shared memory;
  /// SharedMemory.cpp keeps these.
  std::unordered_map<uint64_t, PendingAccess> pendingAccesses;
  uint64_t lastPendingAccess = 0;
  std::vector<uint16_t> readers, writers;
  /// Threads that have not ended.
  unsigned numRunning = 0;
  /// griddepcontrol.launch_dependents, or it has ended.
  bool hasTriggered = false;
};

struct Cluster {
  Grid *grid;
  std::array<unsigned, 3> position;
  unsigned index;
  std::vector<Block *> blocks;
  /// barrier.cluster: threads that have arrived, of all that have not ended.
  unsigned arrived = 0;
  uint64_t generation = 0;
  VectorClock arrivals;
};

struct LaunchShape {
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  uint32_t dynamicShared = 0;
  bool isCooperative = false;
  /// May begin when all blocks of the launch before it in the stream have
  /// triggered.
  bool isProgrammatic = false;
};

/// A launch.
struct Grid {
  uint64_t id;
  std::shared_ptr<const Program> program;
  /// Keeps variables of the module.
  std::shared_ptr<void> module;
  LaunchShape shape;
  std::vector<uint8_t> parameters;
  uint64_t stream;
  unsigned numBlocks, numStarted = 0, numEnded = 0, numTriggered = 0;
  /// The launch before in the stream while it has not ended.
  Grid *before = nullptr;
  /// What its warps know when they begin, which is in `base` then, and what is
  /// known behind it; griddepcontrol.wait gives `preceding`, the result of the
  /// launch before.
  std::shared_ptr<VectorClock> startClock, baseClock, endClock, precedingClock;
  std::list<Block> blocks;
  std::list<Cluster> clusters;
  bool hasEnded() const { return numEnded == numBlocks; }
};

/// What reads and writes are checked for.
enum class Access : uint8_t { Read, Write };

/// What is asynchronous is done at once under seed 0, under seed 1 when nothing
/// else goes on, and at random times from here on, as everything is in a random
/// order.
constexpr uint64_t kFirstRandomSeed = 2;

class Machine {
public:
  explicit Machine(Limits limits = {}, uint64_t seed = 0);
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;
  ~Machine();

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  /// Device memory is memory of the host at the same address, filled with 0xff.
  /// Returns zero when there is none.
  uint64_t allocate(uint64_t bytes, unsigned alignment = 512);
  /// Returns whether it was allocated.
  bool release(uint64_t address);
  /// Bytes of the allocation behind `address`, zero outside of all.
  uint64_t getExtent(uint64_t address) const;

  /// The bytes behind a global address; throws Fault outside of allocations
  /// (IllegalAddress) and off `alignment` (Misaligned).
  uint8_t *global(uint64_t address, uint64_t bytes, unsigned alignment);

  //===--------------------------------------------------------------------===//
  // Launches
  //===--------------------------------------------------------------------===//

  /// Queues a launch in the order of its stream. `parameters` are laid out as
  /// the program says. Throws Fault(LaunchFailed) where it can never run.
  void launch(std::shared_ptr<const Program> program,
              std::shared_ptr<void> module, const LaunchShape &shape,
              std::vector<uint8_t> parameters, uint64_t stream);
  /// Runs until all launches (of a stream) have ended. After a Fault all
  /// launches are gone, and every later call throws the same again.
  void synchronize();
  void synchronize(uint64_t stream);
  bool isIdle(uint64_t stream) const;

  /// Blocks of a launch that one multiprocessor holds; of the registers those
  /// are counted that the launch bounds leave to each thread.
  unsigned getOccupancy(const ParsedKernel &kernel, unsigned threads,
                        uint32_t dynamicShared) const;

  //===--------------------------------------------------------------------===//
  // For instructions
  //===--------------------------------------------------------------------===//

  /// Something changed that threads may wait for.
  void change() { ++epoch; }
  uint64_t getEpoch() const { return epoch; }

  /// Calls `land` now or later, while other threads run.
  void defer(std::function<void()> complete);

  /// A number below `bound`, from the seed; zero where that is not random.
  uint64_t choose(uint64_t bound);

  /// Instructions that were executed.
  uint64_t getTime() const { return numInstructions; }
  Races &getRaces() { return races; }
  const Limits &getLimits() const { return limits; }

private:
  /// Shared memory, threads, registers and blocks.
  using Multiprocessor = std::array<uint32_t, 4>;

  Multiprocessor getNeeds(const Grid &grid) const;
  std::vector<unsigned> chooseMultiprocessors(const Grid &grid, unsigned count);
  void startCluster(Grid &grid, const std::vector<unsigned> &chosen);
  bool startBlocks();
  void endBlock(Block &block);
  void endGrids();
  void runThread(Thread &thread, uint64_t budget);
  bool runWarpInstructions(Warp &warp);
  bool runBlock(Block &block);
  bool completeOne();
  bool wake();
  bool runRound();
  void runUntil(const std::function<bool()> &isDone);
  [[noreturn]] void reportHang();

  Limits limits;
  uint64_t seed;
  std::mt19937_64 random;
  uint64_t epoch = 0, numInstructions = 0, lastGrid = 0, lastBlock = 0;
  std::map<uint64_t, uint64_t> allocations;
  std::list<Grid> grids;
  std::deque<std::function<void()>> deferred;
  /// What each has left.
  std::vector<Multiprocessor> multiprocessors;
  std::vector<Block *> running;
  /// The end of the allocation that was looked up last, behind an address.
  std::pair<uint64_t, uint64_t> recent{};
  Races races;
  /// What the host has waited for.
  std::shared_ptr<VectorClock> hostClock = std::make_shared<VectorClock>();
  std::unique_ptr<Fault> fault;
};

inline Machine &Thread::getMachine() const { return *block->machine; }

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// An address in shared memory is an offset of the own block, or has the rank
/// of a block in the cluster plus one in bits 24 to 31.
constexpr uint32_t kRankShift = 24;
/// Generic addresses with these bits above 32 are shared ones.
constexpr uint64_t kSharedWindow = uint64_t(0x7f00) << 32;
constexpr uint64_t kSharedWindowMask = ~uint64_t(0xffffffff);
/// And these are local ones.
constexpr uint64_t kLocalWindow = uint64_t(0x7f01) << 32;
/// And these are parameters of the kernel, which are only read.
constexpr uint64_t kParameterWindow = uint64_t(0x7f02) << 32;

/// The block that a shared address is in; throws Fault for a rank that the
/// cluster does not have.
Block &getBlockOf(Block &own, uint32_t address);
/// The offset without the rank.
constexpr uint32_t getOffset(uint32_t address) {
  return address & ((uint32_t(1) << kRankShift) - 1);
}

/// Checks that `bytes` from `offset` are in the shared memory of the block and
/// that nothing under way is in conflict: nothing that writes them, and for
/// Access::Write nothing that reads them. Throws Fault.
uint8_t *accessShared(Block &block, uint32_t offset, uint32_t bytes,
                      unsigned alignment, Access access);

/// Shared memory is read or written from here on until `endPendingAccess`:
/// accesses in conflict with it are a Fault, and so is its beginning if it is
/// in conflict with what is under way already.
uint64_t beginPendingAccess(Block &block, PendingAccess use);
void endPendingAccess(Block &block, uint64_t id);

/// LoadStore.cpp. The bytes behind a generic address, checked as those of its
/// space are; races are the caller's. Throws Fault.
uint8_t *accessGeneric(Thread &thread, uint64_t address, uint32_t bytes,
                       unsigned alignment, Access access);

/// Barriers.cpp. `bytes` have landed; who waits for that gets to know what is
/// `known`.
void completeBytes(Block &block, uint32_t offset, int64_t bytes,
                   const VectorClock &known);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_MACHINE_H
