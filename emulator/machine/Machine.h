//===- Machine.h - Blocks, threads and the scheduler ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An emulated GPU of compute capability 9.0. Threads run one after another on
// one thread of the host, in an order that a seed determines. The seed also
// decides how late asynchronous operations complete.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_MACHINE_MACHINE_H
#define FUSE_EMULATOR_MACHINE_MACHINE_H

#include "machine/Instruction.h"
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

/// Device limits. Values per multiprocessor are those of sm_90.
struct Limits {
  unsigned multiprocessors = 132;
  uint32_t sharedPerMultiprocessor = 228 * 1024;
  /// Bytes of shared memory per block, in addition to kSharedBase bytes that
  /// the system reserves.
  uint32_t sharedPerBlock = 227 * 1024;
  unsigned threadsPerMultiprocessor = 2048;
  unsigned registersPerMultiprocessor = 65536;
  unsigned blocksPerMultiprocessor = 32;
  /// Limit of instructions of all threads in one synchronization. Beyond it a
  /// launch counts as hanging. It catches infinite loops; a deadlock is found
  /// at once.
  uint64_t instructions = uint64_t(1) << 40;
  /// Whether to detect races (Races.h). This roughly doubles the run time.
  bool findsRaces = true;
};

/// Why a thread is blocked, now or after its current instruction. It is
/// evaluated again whenever shared state changes.
struct BlockReason {
  /// Whether the thread can continue. Null if it is not blocked.
  bool (*isOver)(const Thread &) = nullptr;
  /// Arguments of isOver, such as the offset and the phase of an mbarrier.
  uint64_t object = 0, state = 0;
  /// Describes the awaited event for messages: `a phase of the mbarrier at
  /// 1032`.
  std::string (*describe)(const Thread &) = nullptr;
  /// The clock that the thread acquires when it continues, or null.
  const VectorClock *acquired = nullptr;
};

struct Thread {
  Block *block;
  Warp *warp;
  /// Linear index in the block, x fastest. The lane is `index % kWarpSize`.
  unsigned index;
  std::array<unsigned, 3> position;
  uint32_t pc = 0;
  bool hasEnded = false;
  /// The thread has reached an instruction that lanes execute together.
  bool isAtWarpInstruction = false;
  BlockReason blockReason;
  /// The instruction at which the thread blocked.
  uint32_t blockedAt = 0;
  /// Points into Block::registers. Consecutive registers of a thread are
  /// kWarpSize elements apart.
  uint64_t *registers = nullptr;
  std::vector<uint8_t> local;
  /// The result of the last poll, by instruction. A second poll with the same
  /// result, and without a store by this thread since, blocks until shared
  /// state changes.
  struct Poll {
    uint64_t address = 0, value = 0, writes = 0, count = 0;
  };
  std::unordered_map<uint32_t, Poll> polls;
  /// Number of changes that this thread made outside of its registers.
  uint64_t writes = 0;
  /// Whether the thread has arrived at the cluster barrier and not yet waited,
  /// and how often it has arrived: once in each generation.
  bool hasArrivedInCluster = false;
  uint64_t numClusterArrivals = 0;
  /// State of AsyncCopies.cpp: groups of copies.
  std::shared_ptr<void> copies;

  unsigned getLane() const { return index % kWarpSize; }
  Machine &getMachine() const;

  /// Registers have 64 bits. Narrower values are zero-extended, a predicate is
  /// 0 or 1, and two halves are packed as PTX packs them.
  uint64_t get(const Value &value) const {
    uint64_t bits = value.isRegister
                        ? registers[size_t(value.index) * kWarpSize]
                        : value.bits;
    return value.isNegated ? bits ^ 1 : bits;
  }
  /// Does nothing if the operand is `_`.
  void set(const Value &value, uint64_t bits) {
    if (value.isRegister)
      registers[size_t(value.index) * kWarpSize] = bits;
  }

  /// To be returned by instructions that may poll (volatile, relaxed and
  /// acquire loads, test_wait). Returns Outcome::Poll, or Outcome::Wait and
  /// sets `blockReason`.
  Outcome poll(uint64_t address, uint64_t value);
};

struct Warp {
  Block *block;
  /// Index in the block. `threads[lane]` is null for lanes beyond the end of
  /// the block.
  unsigned index;
  std::array<Thread *, kWarpSize> threads{};

  WarpClock clock;
  /// What an instruction of the whole warp waits for. If it is set, the
  /// instruction is executed again later. Null otherwise.
  const char *blockedOn = nullptr;
  /// State of Wgmma.cpp: pending products.
  std::shared_ptr<void> wgmma;
};

/// An mbarrier. Its bytes in shared memory have no meaning.
struct Mbarrier {
  uint32_t expected = 0, pending = 0;
  int64_t bytes = 0;
  uint64_t phase = 0;
  VectorClock arrivals;
  /// The initialization: slot and time of the warp, thread and PTX line.
  /// `isFenced` is set by a later fence, before which copies cannot use it.
  uint32_t slot = 0, time = 0;
  unsigned thread = 0, line = 0;
  bool isFenced = false;
};

/// One of the 16 named barriers of `bar`.
struct NamedBarrier {
  /// Counted in threads, where missing lanes of a warp count too. `expected` is
  /// meaningful after the first arrival.
  unsigned arrived = 0, expected = 0;
  /// Value of `expected`: all warps that have not ended.
  static constexpr unsigned kAll = ~0u;
  uint64_t generation = 0;
  VectorClock arrivals;
  /// For `bar.red`: the number of predicates, the number of true ones, and the
  /// threads that get the result.
  unsigned numVotes = 0, numTrue = 0;
  std::vector<std::pair<Thread *, const Instruction *>> readers;
};

/// A range of bytes in shared memory.
struct SharedRange {
  uint32_t begin, end;
};

/// Shared memory that an asynchronous copy or product reads or writes.
struct PendingAccess {
  std::vector<SharedRange> ranges;
  bool isWrite;
  const Instruction *instruction;
  /// Ranges with rows of a product whose results may be unused. A write to one
  /// of them is not a fault. Instead, `poison` gets the index of the range and
  /// sets the affected results to NaN.
  std::vector<SharedRange> poisonable = {};
  std::function<void(size_t)> poison = nullptr;
};

struct Block {
  Machine *machine;
  Grid *grid;
  Cluster *cluster;
  std::array<unsigned, 3> position;
  /// Linear index in the grid, x fastest, and rank in the cluster.
  unsigned index, rank;
  /// Unique number of the block in this machine.
  uint64_t number;
  unsigned multiprocessor;
  /// The shared memory, from address zero. It is initialized with 0xff, which
  /// is NaN in all float types.
  std::vector<uint8_t> shared;
  std::deque<Thread> threads;
  std::deque<Warp> warps;
  /// Indexed by [warp][register][lane], initialized with zero. PTX declares
  /// thousands of registers, and most blocks of small shapes end early. calloc
  /// therefore leaves untouched pages unallocated.
  std::unique_ptr<uint64_t[], decltype(&std::free)> registers{nullptr,
                                                              std::free};
  std::unordered_map<uint32_t, Mbarrier> mbarriers;
  std::array<NamedBarrier, 16> barriers;
  /// Pending accesses by id. `readers` and `writers` count them for each 16
  /// bytes of shared memory. SharedMemory.cpp maintains these members.
  std::unordered_map<uint64_t, PendingAccess> pendingAccesses;
  uint64_t lastPendingAccess = 0;
  std::vector<uint16_t> readers, writers;
  /// Number of threads that have not ended.
  unsigned numRunning = 0;
  /// Set by griddepcontrol.launch_dependents or by the end of the block.
  bool hasTriggered = false;
};

struct Cluster {
  Grid *grid;
  std::array<unsigned, 3> position;
  unsigned index;
  std::vector<Block *> blocks;
  /// State of barrier.cluster: number of arrived threads among those that have
  /// not ended.
  unsigned arrived = 0;
  uint64_t generation = 0;
  VectorClock arrivals;
};

struct LaunchShape {
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1}, cluster{1, 1, 1};
  uint32_t dynamicShared = 0;
  bool isCooperative = false;
  /// Programmatic dependent launch: may begin when all blocks of the previous
  /// launch in the stream have triggered.
  bool isProgrammatic = false;
};

/// One launch of a kernel.
struct Grid {
  uint64_t id;
  std::shared_ptr<const Program> program;
  /// Keeps the variables of the module alive.
  std::shared_ptr<void> module;
  LaunchShape shape;
  std::vector<uint8_t> parameters;
  uint64_t stream;
  unsigned numBlocks, numStarted = 0, numEnded = 0, numTriggered = 0;
  /// The previous launch in the stream until it ends, then null.
  Grid *before = nullptr;
  /// Clocks: `startClock` is the past of its warps, taken from `baseClock` when
  /// the launch starts. `endClock` is known after the launch. `precedingClock`
  /// is the `endClock` of the previous launch, which griddepcontrol.wait
  /// acquires.
  std::shared_ptr<VectorClock> startClock, baseClock, endClock, precedingClock;
  std::list<Block> blocks;
  std::list<Cluster> clusters;
  bool hasEnded() const { return numEnded == numBlocks; }
};

/// The kind of an access that is checked.
enum class Access : uint8_t { Read, Write };

/// First seed with random order. Under seed 0 asynchronous operations complete
/// at once, under seed 1 as late as possible, and under other seeds at random
/// times.
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

  /// Device memory is host memory at the same address, filled with 0xff.
  /// Returns zero if the host has none.
  uint64_t allocate(uint64_t bytes, unsigned alignment = 512);
  /// Returns whether `address` was allocated.
  bool release(uint64_t address);
  /// Number of bytes from `address` to the end of its allocation, or zero
  /// outside of allocations.
  uint64_t getExtent(uint64_t address) const;

  /// The bytes at a global address. Throws Fault if they are outside of
  /// allocations (IllegalAddress) or not aligned (Misaligned).
  uint8_t *global(uint64_t address, uint64_t bytes, unsigned alignment);

  //===--------------------------------------------------------------------===//
  // Launches
  //===--------------------------------------------------------------------===//

  /// Appends a launch to its stream. `parameters` have the layout of the
  /// program. Throws Fault(LaunchFailed) if the launch can never run.
  void launch(std::shared_ptr<const Program> program,
              std::shared_ptr<void> module, const LaunchShape &shape,
              std::vector<uint8_t> parameters, uint64_t stream);
  /// Runs until all launches (of a stream) have ended. After a Fault all
  /// launches are gone, and every later call throws the same Fault.
  void synchronize();
  void synchronize(uint64_t stream);
  bool isIdle(uint64_t stream) const;

  /// Number of blocks that fit one multiprocessor. The registers of a thread
  /// are those that the launch bounds allow.
  unsigned getOccupancy(const ParsedKernel &kernel, unsigned threads,
                        uint32_t dynamicShared) const;

  //===--------------------------------------------------------------------===//
  // For instructions
  //===--------------------------------------------------------------------===//

  /// Records a change of shared state that threads may wait for.
  void change() { ++epoch; }
  uint64_t getEpoch() const { return epoch; }

  /// Calls `complete` now or later, while other threads run.
  void defer(std::function<void()> complete);

  /// A random number below `bound`, or zero for seeds without random order.
  uint64_t choose(uint64_t bound);

  /// Number of executed instructions.
  uint64_t getTime() const { return numInstructions; }
  Races &getRaces() { return races; }
  const Limits &getLimits() const { return limits; }

private:
  /// Free shared memory, threads, registers and blocks.
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
  /// Free resources of each multiprocessor.
  std::vector<Multiprocessor> multiprocessors;
  std::vector<Block *> running;
  /// The last address that was looked up and the end of its allocation.
  std::pair<uint64_t, uint64_t> recent{};
  Races races;
  /// The clock of the host, which covers all launches that ended.
  std::shared_ptr<VectorClock> hostClock = std::make_shared<VectorClock>();
  std::unique_ptr<Fault> fault;
};

inline Machine &Thread::getMachine() const { return *block->machine; }

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// A shared address is an offset in the own block. If bits 24 to 31 are not
/// zero, they are one plus the rank of a block in the cluster.
constexpr uint32_t kRankShift = 24;
/// The upper 32 bits of generic addresses of shared memory.
constexpr uint64_t kSharedWindow = uint64_t(0x7f00) << 32;
constexpr uint64_t kSharedWindowMask = ~uint64_t(0xffffffff);
/// The same for local memory.
constexpr uint64_t kLocalWindow = uint64_t(0x7f01) << 32;
/// The same for kernel parameters, which are read-only.
constexpr uint64_t kParameterWindow = uint64_t(0x7f02) << 32;

/// The block of a shared address. Throws Fault if the cluster has no such rank.
Block &getBlockOf(Block &own, uint32_t address);
/// The offset in the block, without the rank.
constexpr uint32_t getOffset(uint32_t address) {
  return address & ((uint32_t(1) << kRankShift) - 1);
}

/// Checks that `bytes` from `offset` are in the shared memory of the block and
/// do not conflict with pending accesses. A pending write conflicts with every
/// access, a pending read with Access::Write. Throws Fault.
uint8_t *accessShared(Block &block, uint32_t offset, uint32_t bytes,
                      unsigned alignment, Access access);

/// Begins an asynchronous access, which lasts until `endPendingAccess`.
/// Conflicting accesses in between throw Fault. So does this function, if the
/// access conflicts with one that is already pending.
uint64_t beginPendingAccess(Block &block, PendingAccess use);
void endPendingAccess(Block &block, uint64_t id);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_MACHINE_H
