//===- Races.h - Detection of data races ------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds pairs of accesses that nothing orders and of which at least one writes.
// The machine runs them in some order, a GPU may run them in any. The algorithm
// is FastTrack (Flanagan and Freund, PLDI 2009), applied to the memory model of
// the PTX ISA (section 8). Three simplifications may hide a race, but never
// report one that does not exist:
//
// * A warp counts as one thread.
// * Every scope counts as wide enough.
// * A barrier orders all arrivals before it, including those of earlier phases.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_MACHINE_RACES_H
#define FUSE_EMULATOR_MACHINE_RACES_H

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace fuse::emulator {

struct Block;
struct Thread;
struct Warp;

/// A vector clock: for each slot, up to which time a warp knows what that slot
/// did. A slot is an index that a running warp owns.
class VectorClock {
public:
  uint32_t get(uint32_t slot) const {
    return slot < times.size() ? times[slot] : 0;
  }
  void set(uint32_t slot, uint32_t time);
  void join(const VectorClock &other);

private:
  std::vector<uint32_t> times;
};

/// The happens-before state of a warp.
struct WarpClock {
  uint32_t slot = 0;
  /// Slot of the asynchronous copies and products that the warp issued. The
  /// warp knows their effects only after it waited for them.
  uint32_t asyncSlot = 0;
  VectorClock now;
  /// State at the last fence. A relaxed store after the fence publishes it.
  VectorClock atLastFence;
  /// Acquired through relaxed loads. The next fence joins it into `now`.
  VectorClock fromRelaxedLoads;
  bool hasFenced = false;
};

/// The memory order of an access. Volatile accesses count as Relaxed. Two
/// accesses that are both not weak never race.
///
/// A load that is not weak does not race with a weak store either. PTX calls
/// this a race. But the hardware stores aligned vectors at once, and kernels
/// rely on that when they poll tagged data.
enum class Order : uint8_t { Weak, Relaxed, Acquire, Release, AcquireRelease };

/// An address in global memory, or in the shared memory of a block.
struct MemoryAddress {
  explicit MemoryAddress(uint64_t bits) : bits(bits) {}
  MemoryAddress(const Block &block, uint32_t offset);

  bool isShared() const { return bits >> 63; }
  std::string print() const;

  /// For shared memory: the top bit, the number of the block from bit 24 on,
  /// and the offset.
  uint64_t bits;
};

/// The race detector of a machine. It does nothing if `isOn` is false.
class Races {
public:
  explicit Races(bool isOn) : isOn(isOn) {}

  /// Starts a warp whose past is `known`.
  void begin(Warp &warp, const VectorClock &known);
  /// Ends a warp: joins its clock into `known` and frees its slots.
  void end(Warp &warp, VectorClock &known);

  /// Records an access by a thread, or by a copy or a product that it issued.
  /// Throws Fault(LaunchFailed), which names the conflicting access, if there
  /// is a race. An atomic calls both functions with the same order.
  void read(Thread &thread, MemoryAddress address, uint64_t bytes,
            Order order = Order::Weak);
  /// `unchanged` has a bit for each byte that already holds the stored value.
  /// Such bytes may race with other accesses: CTAs without work may repeat the
  /// stores of the last one.
  void write(Thread &thread, MemoryAddress address, uint64_t bytes,
             Order order = Order::Weak, uint64_t unchanged = 0);
  /// The same through the async proxy. It sees writes of the generic proxy only
  /// after fence.proxy.async.
  void readAsync(Thread &thread, MemoryAddress address, uint64_t bytes);
  void writeAsync(Thread &thread, MemoryAddress address, uint64_t bytes);
  /// Records reads of 16-byte chunks of shared memory through the async proxy.
  /// A chunk is represented by its first four bytes: whatever writes a chunk
  /// writes all of it, or other threads write the rest in the same way.
  void readChunks(Thread &thread, const std::vector<uint32_t> &chunks);
  /// Whether readChunks accepts a chunk. Records nothing.
  bool mayReadChunk(const Thread &thread, uint32_t chunk) const;

  /// Synchronization through `bar`, an mbarrier and similar objects: `arrive`
  /// publishes the clock of a warp in the object, `await` acquires it.
  void arrive(Warp &warp, VectorClock &barrier);
  static void await(Warp &warp, const VectorClock &barrier);
  /// Publishes in `known` what the warp knew when it issued a copy. Threads
  /// that wait for the copy acquire it.
  void arriveAsync(Warp &warp, VectorClock &known);
  /// `commit` returns the number of a group of copies or products. `await`
  /// acquires everything that `other` issued up to this group.
  uint32_t commit(Warp &warp);
  static void await(Warp &warp, const Warp &other, uint32_t group);
  /// `fence` and `membar`; and `fence.proxy.async`.
  void fence(Warp &warp);
  void fenceProxy(Thread &thread);

  /// Forgets accesses to memory that was released.
  void forget(MemoryAddress address, uint64_t bytes);

private:
  /// The slot of an access, its time on the clock of that slot, and its PTX
  /// line. Memory has many of these, so they are small.
  struct Access {
    uint32_t slot = 0, time = 0;
    unsigned line : 30, isWeak : 1, isAsync : 1;
  };
  using Readers = std::unordered_map<uint32_t, Access>;
  /// The last accesses to four bytes of memory.
  struct Cell {
    Access writer = {}, reader = {};
    uint32_t grid = 0;
    uint64_t written = 0;
    uint8_t writtenBytes = 0, readBytes = 0;
    /// The last read of each slot, if the reads are not ordered with each
    /// other. Null otherwise.
    std::unique_ptr<Readers> readers;
  };
  static constexpr unsigned kCellBytes = 4, kPageCells = 1024,
                            kPageBytes = kCellBytes * kPageCells;
  using Page = std::array<Cell, kPageCells>;

  uint32_t allocateSlot(const std::string &name, const VectorClock &known);
  Cell &getCell(uint64_t address);
  Access getAccess(const Thread &thread, bool isWeak, bool isAsync) const;
  void readCell(Cell &cell, const WarpClock &clock, const Access &access,
                uint8_t mask);
  void access(Thread &thread, MemoryAddress address, uint64_t bytes,
              bool isWrite, bool isWeak, bool isAsync, uint64_t unchanged = 0);
  bool isProxyOrdered(const Thread &thread, const Cell &cell) const;
  void checkProxy(const Thread &thread, MemoryAddress address,
                  const Cell &cell) const;

  bool isOn;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages;
  /// Cache of the most recently used pages, indexed by the low bits of the page
  /// number.
  struct Recent {
    uint64_t number = 0;
    Page *page = nullptr;
  };
  std::array<Recent, 64> recent;
  /// Empty pages of released memory. New blocks reuse them instead of
  /// allocating.
  std::vector<std::unique_ptr<Page>> spare;
  std::unordered_map<uint64_t, VectorClock> released;
  /// Indexed by slot: its current time; the machine time of its last
  /// fence.proxy.async; the name of its warp, for messages.
  std::vector<uint32_t> times;
  std::vector<uint64_t> proxyFences;
  std::vector<std::string> names;
  std::vector<uint32_t> freeSlots;
};

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_RACES_H
