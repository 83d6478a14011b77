//===- Machine.cpp - The scheduler of blocks and threads ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "machine/Machine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

using namespace fuse;
using namespace fuse::emulator;

/// Maximum number of instructions of a thread before other threads run.
static constexpr uint64_t kTurn = 4096;
/// Rounds without any change after which polling threads count as hanging. In
/// each round they are woken up anyway: two equal polls do not prove that a
/// thread waits, but this many do.
static constexpr unsigned kIdleRounds = 1024;

static std::string print(const std::array<unsigned, 3> &position) {
  return "(" + std::to_string(position[0]) + ", " +
         std::to_string(position[1]) + ", " + std::to_string(position[2]) + ")";
}

static std::array<unsigned, 3> unflatten(unsigned index,
                                         const std::array<unsigned, 3> &sizes) {
  return {index % sizes[0], index / sizes[0] % sizes[1],
          index / sizes[0] / sizes[1]};
}

static uint64_t multiply(const std::array<unsigned, 3> &sizes) {
  return uint64_t(sizes[0]) * sizes[1] * sizes[2];
}

static const Instruction &getInstruction(const Thread &thread) {
  return thread.block->grid->program->instructions[thread.pc];
}

/// For example `line 12 (bar.sync)`.
static std::string printLine(const Thread &thread, uint32_t pc) {
  const Instruction &instruction =
      thread.block->grid->program->instructions[pc];
  return "line " + std::to_string(instruction.line) + " (" +
         instruction.opcode + ")";
}

static std::string printThread(const Thread &thread) {
  return "block " + print(thread.block->position) + ", thread " +
         print(thread.position);
}

Machine::Machine(Limits limits, uint64_t seed)
    : limits(limits), seed(seed), random(seed),
      multiprocessors(
          limits.multiprocessors,
          {limits.sharedPerMultiprocessor, limits.threadsPerMultiprocessor,
           limits.registersPerMultiprocessor, limits.blocksPerMultiprocessor}),
      races(limits.findsRaces) {}

Machine::~Machine() {
  for (auto [address, bytes] : allocations)
    std::free(reinterpret_cast<void *>(address));
}

uint64_t Machine::choose(uint64_t bound) {
  return seed < kFirstRandomSeed || bound < 2 ? 0 : random() % bound;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Memory of the emulated device in bytes: that of a small GPU, but at most
/// half of the host's. Without a limit, the system ends the process.
static uint64_t getMemoryBytes() {
  constexpr uint64_t most = uint64_t(16) << 30;
  long pages = sysconf(_SC_PHYS_PAGES), pageBytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || pageBytes <= 0)
    return most;
  return std::min(most, uint64_t(pages) * uint64_t(pageBytes) / 2);
}

uint64_t Machine::allocate(uint64_t bytes, unsigned alignment) {
  static const uint64_t memoryBytes = getMemoryBytes();
  uint64_t used = 0;
  for (const auto &[address, count] : allocations)
    used += count;
  if (bytes == 0 || bytes > memoryBytes || used > memoryBytes - bytes)
    return 0;
  uint64_t size = (bytes + alignment - 1) / alignment * alignment;
  void *memory = std::aligned_alloc(alignment, size);
  if (!memory)
    return 0;
  std::memset(memory, 0xff, size);
  auto address = reinterpret_cast<uint64_t>(memory);
  allocations[address] = bytes;
  return address;
}

bool Machine::release(uint64_t address) {
  auto found = allocations.find(address);
  if (found == allocations.end())
    return false;
  races.forget(MemoryAddress(address), found->second);
  allocations.erase(found);
  recent = {};
  std::free(reinterpret_cast<void *>(address));
  return true;
}

uint64_t Machine::getExtent(uint64_t address) const {
  auto found = allocations.upper_bound(address);
  if (found == allocations.begin())
    return 0;
  auto [begin, bytes] = *--found;
  return address - begin < bytes ? begin + bytes - address : 0;
}

uint8_t *Machine::global(uint64_t address, uint64_t bytes, unsigned alignment) {
  if (address < recent.first || address > recent.second ||
      bytes > recent.second - address) {
    uint64_t extent = getExtent(address);
    if (extent < bytes || extent == 0) {
      char text[32];
      std::snprintf(text, sizeof(text), "0x%llx",
                    static_cast<unsigned long long>(address));
      throw Fault(Fault::IllegalAddress,
                  std::to_string(bytes) + " bytes at " + text +
                      (extent ? " of which only " + std::to_string(extent) +
                                    " are allocated"
                              : " are not in an allocation"));
    }
    recent = {address, address + extent};
  }
  if (address % alignment != 0)
    throw Fault(Fault::Misaligned,
                "an address is " + std::to_string(address % alignment) +
                    " bytes after a multiple of " + std::to_string(alignment));
  return reinterpret_cast<uint8_t *>(address);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Registers of a thread. Only ptxas knows the real number. This is the maximum
/// that the launch bounds allow, or 64 without bounds.
static unsigned getNumRegisters(const ParsedKernel &kernel, unsigned threads,
                                const Limits &limits) {
  constexpr unsigned most = 255, unknown = 64;
  if (kernel.maxRegisters)
    return std::min(kernel.maxRegisters, most);
  if (!kernel.minBlocks || threads == 0)
    return unknown;
  unsigned registers =
      limits.registersPerMultiprocessor / (kernel.minBlocks * threads);
  return std::clamp(registers / 8 * 8, 8U, most);
}

unsigned Machine::getOccupancy(const ParsedKernel &kernel, unsigned threads,
                               uint32_t dynamicShared) const {
  if (threads == 0)
    return 0;
  uint32_t shared = kernel.dynamicShared + dynamicShared;
  unsigned warps = (threads + kWarpSize - 1) / kWarpSize;
  unsigned registers =
      getNumRegisters(kernel, warps * kWarpSize, limits) * warps * kWarpSize;
  return std::min({limits.blocksPerMultiprocessor,
                   limits.sharedPerMultiprocessor / shared,
                   limits.threadsPerMultiprocessor / (warps * kWarpSize),
                   limits.registersPerMultiprocessor / registers});
}

void Machine::launch(std::shared_ptr<const Program> program,
                     std::shared_ptr<void> module, const LaunchShape &shape,
                     std::vector<uint8_t> parameters, uint64_t stream) {
  if (fault)
    throw Fault(*fault);
  const ParsedKernel &header = program->header;
  auto refuse = [&](const std::string &what) {
    throw Fault(Fault::LaunchFailed, "kernel " + header.name + ": " + what);
  };
  uint64_t numThreads = multiply(shape.block);
  uint64_t numBlocks = multiply(shape.grid);
  uint64_t numRanks = multiply(shape.cluster);
  if (numThreads == 0 || numThreads > 1024)
    refuse(std::to_string(numThreads) + " threads in a block, expected 1 to "
                                        "1024");
  if (numBlocks == 0 || numBlocks > uint64_t(1) << 31)
    refuse(std::to_string(numBlocks) + " blocks in a grid");
  constexpr unsigned mostRanks = 16;
  if (numRanks == 0 || numRanks > mostRanks)
    refuse(std::to_string(numRanks) + " blocks in a cluster, expected 1 to 16");
  for (unsigned i = 0; i < 3; ++i)
    if (shape.grid[i] % shape.cluster[i] != 0)
      refuse("a grid of " + print(shape.grid) +
             " blocks cannot be divided into clusters of " +
             print(shape.cluster));
  if (header.requiredThreads[0] && header.requiredThreads != shape.block)
    refuse("blocks of " + print(shape.block) + " threads, expected " +
           print(header.requiredThreads));
  if (header.maxThreads && numThreads > header.maxThreads)
    refuse(std::to_string(numThreads) + " threads in a block, expected " +
           std::to_string(header.maxThreads) + " at most");
  if (header.requiredCluster[0] && header.requiredCluster != shape.cluster)
    refuse("clusters of " + print(shape.cluster) + " blocks, expected " +
           print(header.requiredCluster));
  uint64_t shared =
      uint64_t(header.dynamicShared) - kSharedBase + shape.dynamicShared;
  if (shared > limits.sharedPerBlock)
    refuse(std::to_string(shared) + " bytes of shared memory, expected " +
           std::to_string(limits.sharedPerBlock) + " at most");
  if (parameters.size() != header.parameterBytes)
    refuse(std::to_string(parameters.size()) +
           " bytes of parameters, expected " +
           std::to_string(header.parameterBytes));
  uint64_t most = uint64_t(limits.multiprocessors) *
                  getOccupancy(header, numThreads, shape.dynamicShared);
  if (shape.isCooperative && numBlocks > most)
    refuse(std::to_string(numBlocks) + " blocks must run at once, at most " +
           std::to_string(most) + " can");
  Grid &grid = grids.emplace_back();
  grid.id = ++lastGrid;
  grid.program = std::move(program);
  grid.module = std::move(module);
  grid.shape = shape;
  grid.parameters = std::move(parameters);
  grid.stream = stream;
  grid.numBlocks = static_cast<unsigned>(numBlocks);
  for (Grid &other : grids)
    if (other.stream == stream && &other != &grid)
      grid.before = &other;
  grid.startClock = std::make_shared<VectorClock>();
  grid.endClock = std::make_shared<VectorClock>();
  grid.baseClock = hostClock;
  if (grid.before) {
    grid.precedingClock = grid.before->endClock;
    // This holds even if the previous launch has ended when this one begins.
    grid.baseClock =
        shape.isProgrammatic ? grid.before->startClock : grid.precedingClock;
  }
}

bool Machine::isIdle(uint64_t stream) const {
  return std::none_of(grids.begin(), grids.end(),
                      [&](const Grid &grid) { return grid.stream == stream; });
}

void Machine::synchronize() {
  runUntil([&] { return grids.empty(); });
}

void Machine::synchronize(uint64_t stream) {
  runUntil([&] { return isIdle(stream); });
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// Resources of a multiprocessor that one block needs.
Machine::Multiprocessor Machine::getNeeds(const Grid &grid) const {
  const ParsedKernel &header = grid.program->header;
  unsigned threads = static_cast<unsigned>(multiply(grid.shape.block));
  threads = (threads + kWarpSize - 1) / kWarpSize * kWarpSize;
  return {header.dynamicShared + grid.shape.dynamicShared, threads,
          getNumRegisters(header, threads, limits) * threads, 1};
}

static bool operator<=(const std::array<uint32_t, 4> &needs,
                       const std::array<uint32_t, 4> &room) {
  for (unsigned i = 0; i < needs.size(); ++i)
    if (needs[i] > room[i])
      return false;
  return true;
}

/// Chooses multiprocessors for the next `count` blocks of a grid, those with
/// the fewest blocks first, as on hardware. Empty if there is no room.
std::vector<unsigned> Machine::chooseMultiprocessors(const Grid &grid,
                                                     unsigned count) {
  Multiprocessor needs = getNeeds(grid);
  std::vector<Multiprocessor> rooms = multiprocessors;
  std::vector<unsigned> result;
  unsigned first = static_cast<unsigned>(choose(rooms.size()));
  while (result.size() < count) {
    int best = -1;
    for (unsigned i = 0; i < rooms.size(); ++i) {
      unsigned candidate = (first + i) % rooms.size();
      if (needs <= rooms[candidate] &&
          (best < 0 || rooms[candidate].back() > rooms[best].back()))
        best = static_cast<int>(candidate);
    }
    if (best < 0)
      return {};
    for (unsigned i = 0; i < needs.size(); ++i)
      rooms[best][i] -= needs[i];
    result.push_back(static_cast<unsigned>(best));
  }
  return result;
}

void Machine::startCluster(Grid &grid, const std::vector<unsigned> &chosen) {
  const LaunchShape &shape = grid.shape;
  std::array<unsigned, 3> numClusters;
  for (unsigned i = 0; i < 3; ++i)
    numClusters[i] = shape.grid[i] / shape.cluster[i];
  Cluster &cluster = grid.clusters.emplace_back();
  cluster.grid = &grid;
  cluster.index = static_cast<unsigned>(grid.clusters.size()) - 1;
  cluster.position = unflatten(cluster.index, numClusters);
  Multiprocessor needs = getNeeds(grid);
  auto numThreads = static_cast<unsigned>(multiply(shape.block));
  const ParsedKernel &header = grid.program->header;
  if (grid.numStarted == 0)
    grid.startClock->join(*grid.baseClock);
  for (unsigned rank = 0; rank < chosen.size(); ++rank) {
    Block &block = grid.blocks.emplace_back();
    block.machine = this;
    block.grid = &grid;
    block.cluster = &cluster;
    block.rank = rank;
    block.number = ++lastBlock;
    std::array<unsigned, 3> inCluster = unflatten(rank, shape.cluster);
    for (unsigned i = 0; i < 3; ++i)
      block.position[i] = cluster.position[i] * shape.cluster[i] + inCluster[i];
    block.index =
        block.position[0] +
        shape.grid[0] * (block.position[1] + shape.grid[1] * block.position[2]);
    block.multiprocessor = chosen[rank];
    for (unsigned i = 0; i < needs.size(); ++i)
      multiprocessors[chosen[rank]][i] -= needs[i];
    block.shared.assign(header.dynamicShared + shape.dynamicShared, 0xff);
    block.numRunning = numThreads;
    size_t ofWarp = size_t(header.numRegisters) * kWarpSize;
    unsigned numWarps = (numThreads + kWarpSize - 1) / kWarpSize;
    block.registers.reset(static_cast<uint64_t *>(
        std::calloc(std::max<size_t>(ofWarp * numWarps, 1), sizeof(uint64_t))));
    if (!block.registers)
      throw std::bad_alloc();
    for (unsigned i = 0; i < numThreads; ++i) {
      if (i % kWarpSize == 0) {
        Warp &warp = block.warps.emplace_back();
        warp.block = &block;
        warp.index = i / kWarpSize;
        races.begin(warp, *grid.startClock);
      }
      Thread &thread = block.threads.emplace_back();
      thread.block = &block;
      thread.warp = &block.warps.back();
      thread.index = i;
      thread.position = unflatten(i, shape.block);
      thread.registers = block.registers.get() + ofWarp * thread.warp->index +
                         thread.getLane();
      thread.local.resize(header.localBytes, 0xff);
      thread.warp->threads[thread.getLane()] = &thread;
    }
    cluster.blocks.push_back(&block);
    ++grid.numStarted;
  }
  running.insert(running.end(), cluster.blocks.begin(), cluster.blocks.end());
}

bool Machine::startBlocks() {
  bool hasStarted = false;
  for (Grid &grid : grids) {
    const Grid *before = grid.before;
    bool mayStart = !before || (grid.shape.isProgrammatic &&
                                before->numTriggered == before->numBlocks);
    unsigned numRanks = static_cast<unsigned>(multiply(grid.shape.cluster));
    while (mayStart && grid.numStarted < grid.numBlocks) {
      unsigned count = numRanks;
      // Blocks of a cooperative launch wait for each other, so all start at
      // once.
      if (grid.shape.isCooperative && grid.numStarted == 0)
        count = grid.numBlocks;
      std::vector<unsigned> chosen = chooseMultiprocessors(grid, count);
      if (chosen.empty())
        break;
      for (unsigned i = 0; i < count; i += numRanks)
        startCluster(grid, {chosen.begin() + i, chosen.begin() + i + numRanks});
      hasStarted = true;
    }
  }
  return hasStarted;
}

/// Releases the resources of a block whose threads have all ended.
void Machine::endBlock(Block &block) {
  Grid &grid = *block.grid;
  for (const auto &[id, under] : block.pendingAccesses)
    // A product without a wait affects no result, so it may be pending.
    if (!under.instruction->executeByWarp)
      throw Fault(Fault::LaunchFailed,
                  "kernel " + grid.program->header.name + ", block " +
                      print(block.position) + ": ends while line " +
                      std::to_string(under.instruction->line) + " (" +
                      under.instruction->opcode + ") " +
                      (under.isWrite ? "writes" : "reads") +
                      " its shared memory");
  Multiprocessor needs = getNeeds(grid);
  for (unsigned i = 0; i < needs.size(); ++i)
    multiprocessors[block.multiprocessor][i] += needs[i];
  if (!block.hasTriggered) {
    block.hasTriggered = true;
    ++grid.numTriggered;
  }
  ++grid.numEnded;
  for (Warp &warp : block.warps)
    races.end(warp, *grid.endClock);
  races.forget(MemoryAddress(block, 0), block.shared.size());
  block.shared = {};
  block.mbarriers.clear();
  block.pendingAccesses.clear();
  block.warps.clear();
  block.threads.clear();
  block.registers.reset();
  change();
}

/// Removes launches that have ended.
void Machine::endGrids() {
  for (auto grid = grids.begin(); grid != grids.end();) {
    if (!grid->hasEnded()) {
      ++grid;
      continue;
    }
    grid->endClock->join(*grid->startClock);
    hostClock->join(*grid->endClock);
    for (Grid &other : grids)
      if (other.before == &*grid)
        other.before = nullptr;
    grid = grids.erase(grid);
  }
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

/// Adds the kernel, the thread and the line to a fault.
[[noreturn]] static void rethrow(const Fault &fault, const Thread &thread) {
  throw Fault(fault.code, "kernel " + thread.block->grid->program->header.name +
                              ", " + printThread(thread) + ", " +
                              printLine(thread, thread.pc) + ": " +
                              fault.what());
}

static bool hasChanged(const Thread &thread) {
  return thread.getMachine().getEpoch() != thread.blockReason.state;
}

static std::string describePoll(const Thread &) {
  return "a change of what it polls";
}

Outcome Thread::poll(uint64_t address, uint64_t value) {
  Poll &poll = polls[pc];
  bool isSame = poll.count && poll.address == address && poll.value == value &&
                poll.writes == writes;
  poll = {address, value, writes, poll.count + 1};
  if (!isSame)
    return Outcome::Poll;
  blockReason = {hasChanged, 0, getMachine().getEpoch(), describePoll};
  return Outcome::Wait;
}

/// Runs a thread until it blocks or has used its budget of instructions.
void Machine::runThread(Thread &thread, uint64_t budget) {
  const Instruction *code = thread.block->grid->program->instructions.data();
  try {
    for (; budget > 0; --budget) {
      const Instruction &instruction = code[thread.pc];
      ++numInstructions;
      if (instruction.hasGuard && !(thread.get(instruction.guard) & 1)) {
        ++thread.pc;
        continue;
      }
      if (instruction.executeByWarp) {
        thread.isAtWarpInstruction = true;
        return;
      }
      switch (instruction.execute(thread, instruction)) {
      case Outcome::Next:
        ++thread.pc;
        break;
      case Outcome::Branch:
        thread.pc = instruction.target;
        break;
      case Outcome::Poll:
        thread.blockedAt = thread.pc++;
        return;
      case Outcome::Wait:
        thread.blockedAt = thread.pc;
        return;
      case Outcome::End:
        thread.hasEnded = true;
        --thread.block->numRunning;
        change();
        return;
      }
    }
  } catch (const Fault &fault) {
    rethrow(fault, thread);
  }
}

/// The lanes that have to execute an instruction together with `thread`.
static uint32_t getMask(const Thread &thread, const Instruction &instruction) {
  uint32_t alive = 0;
  for (const Thread *other : thread.warp->threads)
    if (other && !other->hasEnded)
      alive |= uint32_t(1) << other->getLane();
  if (instruction.mask == Instruction::kAllLanes)
    return alive;
  auto mask =
      static_cast<uint32_t>(thread.get(instruction.operands[instruction.mask]));
  if (!(mask >> thread.getLane() & 1))
    throw Fault(Fault::IllegalInstruction,
                "lane " + std::to_string(thread.getLane()) +
                    " is not in its own mask");
  // PTX waits only for lanes that have not exited.
  return mask & alive;
}

/// Executes the instructions that all their lanes have reached.
bool Machine::runWarpInstructions(Warp &warp) {
  bool hasRun = false;
  for (Thread *thread : warp.threads) {
    if (!thread || !thread->isAtWarpInstruction)
      continue;
    const Instruction &instruction = getInstruction(*thread);
    try {
      uint32_t mask = getMask(*thread, instruction);
      bool isThere = true;
      for (Thread *other : warp.threads) {
        if (!other || !(mask >> other->getLane() & 1))
          continue;
        bool isSame = other->isAtWarpInstruction && other->pc == thread->pc;
        if (isSame && getMask(*other, instruction) != mask)
          throw Fault(Fault::IllegalInstruction, "lanes have different masks");
        isThere &= isSame;
      }
      if (!isThere)
        continue;
      warp.blockedOn = nullptr;
      instruction.executeByWarp(warp, mask, instruction);
      if (warp.blockedOn)
        continue;
      for (Thread *other : warp.threads) {
        if (!other || !(mask >> other->getLane() & 1))
          continue;
        other->isAtWarpInstruction = false;
        other->blockedAt = other->pc++;
      }
      hasRun = true;
    } catch (const Fault &fault) {
      rethrow(fault, *thread);
    }
  }
  return hasRun;
}

/// Runs each thread of a block that is not blocked. Returns false if there is
/// none.
bool Machine::runBlock(Block &block) {
  bool hasRun = false;
  size_t first = choose(block.warps.size());
  for (size_t i = 0; i < block.warps.size(); ++i) {
    Warp &warp = block.warps[(first + i) % block.warps.size()];
    uint64_t budget = kTurn - choose(kTurn);
    // Lanes usually wait for the same object. Acquiring it once is enough: no
    // other warp runs in between, and this warp knows what it adds itself.
    const VectorClock *known = nullptr;
    for (Thread *thread : warp.threads) {
      if (!thread || thread->hasEnded || thread->isAtWarpInstruction)
        continue;
      if (thread->blockReason.isOver) {
        if (!thread->blockReason.isOver(*thread))
          continue;
        const VectorClock *acquired = thread->blockReason.acquired;
        if (acquired && acquired != known)
          Races::await(warp, *acquired);
        known = acquired;
        thread->blockReason = {};
      }
      runThread(*thread, budget);
      hasRun = true;
    }
    hasRun |= runWarpInstructions(warp);
  }
  return hasRun;
}

//===----------------------------------------------------------------------===//
// Rounds
//===----------------------------------------------------------------------===//

void Machine::defer(std::function<void()> complete) {
  if (seed == 0)
    complete();
  else
    deferred.push_back(std::move(complete));
}

/// Completes one deferred operation. The choice is arbitrary, since
/// asynchronous copies are not ordered.
bool Machine::completeOne() {
  if (deferred.empty())
    return false;
  auto which =
      deferred.begin() + static_cast<ptrdiff_t>(choose(deferred.size()));
  std::function<void()> complete = std::move(*which);
  deferred.erase(which);
  complete();
  change();
  return true;
}

/// Unblocks threads that wait for any change.
bool Machine::wake() {
  bool hasWoken = false;
  for (Block *block : running)
    for (Thread &thread : block->threads)
      if (thread.blockReason.isOver == hasChanged) {
        thread.blockReason = {};
        thread.polls.clear();
        hasWoken = true;
      }
  return hasWoken;
}

/// Throws a fault that lists the blocked threads.
void Machine::reportHang() {
  // Threads are grouped by instruction. The message describes the object that
  // the first thread of each group waits for.
  struct Group {
    unsigned count = 0;
    std::string first, object;
  };
  std::map<std::string, Group> groups;
  for (Block *block : running)
    for (const Thread &thread : block->threads) {
      if (thread.hasEnded)
        continue;
      Group &group =
          groups["kernel " + block->grid->program->header.name + ", " +
                 printLine(thread, thread.isAtWarpInstruction
                                       ? thread.pc
                                       : thread.blockedAt)];
      if (group.count++ > 0)
        continue;
      group.first = printThread(thread);
      if (thread.isAtWarpInstruction)
        group.object = thread.warp->blockedOn ? thread.warp->blockedOn
                                              : "other lanes of the warp";
      else if (thread.blockReason.describe)
        group.object = thread.blockReason.describe(thread);
    }
  std::string text = "all threads wait";
  for (const auto &[where, group] : groups)
    text += "; " + std::to_string(group.count) +
            (group.count == 1 ? " thread, " : " threads, first ") +
            group.first + ": " + where +
            (group.object.empty() ? "" : ", for " + group.object);
  for (const Grid &grid : grids)
    if (grid.numStarted < grid.numBlocks)
      text += "; " + std::to_string(grid.numBlocks - grid.numStarted) + " of " +
              std::to_string(grid.numBlocks) + " blocks of " +
              grid.program->header.name + " have not started";
  throw Fault(Fault::Timeout, text);
}

/// Returns whether anything ran. Random seeds complete some deferred operations
/// in each round, other seeds only if nothing else can run.
bool Machine::runRound() {
  bool hasRun = startBlocks();
  size_t first = choose(running.size());
  for (size_t i = 0; i < running.size(); ++i)
    hasRun |= runBlock(*running[(first + i) % running.size()]);
  for (size_t i = 0; i < running.size();) {
    if (running[i]->numRunning > 0) {
      ++i;
      continue;
    }
    endBlock(*running[i]);
    running.erase(running.begin() + static_cast<ptrdiff_t>(i));
  }
  endGrids();
  for (uint64_t i = choose(deferred.size() + 1); i > 0; --i)
    hasRun |= completeOne();
  return hasRun || completeOne();
}

void Machine::runUntil(const std::function<bool()> &isDone) {
  if (fault)
    throw Fault(*fault);
  uint64_t begin = numInstructions;
  unsigned idle = 0;
  try {
    while (!isDone()) {
      uint64_t before = epoch;
      bool hasRun = runRound();
      if (epoch != before)
        idle = 0;
      else if (!hasRun && (++idle > kIdleRounds || !wake()))
        reportHang();
      if (numInstructions - begin > limits.instructions)
        throw Fault(
            Fault::Timeout,
            "threads do not end: " + std::to_string(numInstructions - begin) +
                " instructions");
    }
  } catch (const Fault &happened) {
    fault = std::make_unique<Fault>(happened);
    deferred.clear();
    running.clear();
    grids.clear();
    throw;
  }
}
