//===- Races.h - What happens before what -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds accesses that are in no order though one of them writes: the machine
// runs them in some order, a GPU in any. The algorithm is FastTrack's (Flanagan
// and Freund, PLDI 2009) on the memory model of the PTX ISA (section 8) with
// these simplifications, each of which may hide a race and reports none that
// there is not: a warp is one thread, scopes count as wide enough, and a
// barrier orders all that arrived there before, in earlier phases too.
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

/// How far a warp has seen others: by the number of the other's slot.
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

/// What a warp knows of others.
struct WarpClock {
  uint32_t slot = 0;
  /// Of what it has begun and does not wait for: copies and products. It knows
  /// of them itself when it has waited.
  uint32_t asyncSlot = 0;
  VectorClock now;
  /// At its last fence, which a relaxed store after it publishes.
  VectorClock atLastFence;
  /// Of relaxed loads, which a fence after them makes known.
  VectorClock fromRelaxedLoads;
  bool hasFenced = false;
};

/// `.weak`, `.relaxed` and `.volatile`, and so on. Accesses that are not weak
/// do not race with each other. Nor does a load that is not weak with a weak
/// store: PTX calls that a race, but aligned vectors are stored at once, so
/// that it is how kernels look for data which carry a mark.
enum class Order : uint8_t { Weak, Relaxed, Acquire, Release, AcquireRelease };

/// Global memory, or shared memory of a block.
struct MemoryAddress {
  explicit MemoryAddress(uint64_t bits) : bits(bits) {}
  MemoryAddress(const Block &block, uint32_t offset);

  bool isShared() const { return bits >> 63; }
  std::string print() const;

  /// Of shared memory the number of the block, from bit 24 on.
  uint64_t bits;
};

/// Kept by the machine if it looks for races.
class Races {
public:
  explicit Races(bool isOn) : isOn(isOn) {}

  /// A warp begins, after what has happened before `known`.
  void begin(Warp &warp, const VectorClock &known);
  /// Its slot is free for others; what it did is in `known`.
  void end(Warp &warp, VectorClock &known);

  /// An access by a thread, or by a copy or a product that it has begun; throws
  /// Fault(LaunchFailed) which names the other one. What reads and writes is
  /// both, with the order that it has in both.
  void read(Thread &thread, MemoryAddress address, uint64_t bytes,
            Order order = Order::Weak);
  /// Of bytes whose bit in `same` is set what is there is written: these may be
  /// in no order with others, as where blocks without work repeat that of the
  /// last one.
  void write(Thread &thread, MemoryAddress address, uint64_t bytes,
             Order order = Order::Weak, uint64_t unchanged = 0);
  /// The same through the async proxy, which sees what was written otherwise
  /// behind fence.proxy.async.
  void readAsync(Thread &thread, MemoryAddress address, uint64_t bytes);
  void writeAsync(Thread &thread, MemoryAddress address, uint64_t bytes);
  /// A read of chunks of 16 bytes in shared memory, which are looked at and
  /// kept by their first bytes: all that write such chunks write them whole, or
  /// have neighbors that write the rest of them likewise.
  void readChunks(Thread &thread, const std::vector<uint32_t> &chunks);
  /// Whether a chunk may be read so; keeps nothing.
  bool mayReadChunk(const Thread &thread, uint32_t chunk) const;

  /// `bar`, mbarrier and the like: who arrives publishes what it knows, who
  /// waits gets to know that.
  void arrive(Warp &warp, VectorClock &barrier);
  static void await(Warp &warp, const VectorClock &barrier);
  /// A copy ends, and who waits for it gets to know what its warp knew when it
  /// began.
  void arriveAsync(Warp &warp, VectorClock &known);
  /// The number of a group of copies or products, and a wait for all that the
  /// other warp has begun until then.
  uint32_t commit(Warp &warp);
  static void await(Warp &warp, const Warp &other, uint32_t group);
  /// `fence`, `membar`, and `fence.proxy.async`.
  void fence(Warp &warp);
  void fenceProxy(Thread &thread);

  /// Memory that is given back.
  void forget(MemoryAddress address, uint64_t bytes);

private:
  /// Who accessed, and when by its own clock. There are as many of these as
  /// words in memory, so that they are small.
  struct Access {
    uint32_t slot = 0, time = 0;
    unsigned line : 30, isWeak : 1, isAsync : 1;
  };
  using Readers = std::unordered_map<uint32_t, Access>;
  /// Four bytes.
  struct Cell {
    Access writer = {}, reader = {};
    uint32_t grid = 0;
    uint64_t written = 0;
    uint8_t writtenBytes = 0, readBytes = 0;
    /// Where readers are in no order: the last time of each.
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
  /// Those that were looked up last, by the lowest bits of their number.
  struct Recent {
    uint64_t number = 0;
    Page *page = nullptr;
  };
  std::array<Recent, 64> recent;
  /// Pages of memory that was given back, all of whose cells are empty: blocks
  /// that begin get them, without asking the system for memory again.
  std::vector<std::unique_ptr<Page>> spare;
  std::unordered_map<uint64_t, VectorClock> released;
  /// By slot: how far it has come, when it executed fence.proxy.async last, in
  /// the time of the machine, and who has it.
  std::vector<uint32_t> times;
  std::vector<uint64_t> proxyFences;
  std::vector<std::string> names;
  std::vector<uint32_t> freeSlots;
};

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_RACES_H
