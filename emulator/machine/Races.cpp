//===- Races.cpp - Detection of data races --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "machine/Races.h"
#include "machine/Machine.h"

#include <algorithm>
#include <cstdio>

using namespace fuse::emulator;

static constexpr uint64_t kSharedBit = uint64_t(1) << 63;
/// Maximum length of a vector clock, in slots. Once it is reached, slots are
/// reused although races between two warps may then be missed: those of one
/// launch, of which one ended before the other began.
static constexpr size_t kMaxSlots = 4096;

MemoryAddress::MemoryAddress(const Block &block, uint32_t offset)
    : bits(kSharedBit | block.number << kRankShift | offset) {}

std::string MemoryAddress::print() const {
  char text[64];
  if (isShared())
    std::snprintf(text, sizeof(text), "shared memory at %u",
                  getOffset(static_cast<uint32_t>(bits)));
  else
    std::snprintf(text, sizeof(text), "global memory at 0x%llx",
                  static_cast<unsigned long long>(bits));
  return text;
}

void VectorClock::set(uint32_t slot, uint32_t time) {
  if (slot >= times.size())
    times.resize(slot + 1);
  times[slot] = time;
}

void VectorClock::join(const VectorClock &other) {
  if (other.times.size() > times.size())
    times.resize(other.times.size());
  for (size_t i = 0; i < other.times.size(); ++i)
    times[i] = std::max(times[i], other.times[i]);
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

uint32_t Races::allocateSlot(const std::string &name,
                             const VectorClock &known) {
  // Prefer the slot of a warp that is known to have ended. Otherwise the
  // accesses of the two warps could be confused.
  auto slot =
      std::find_if(freeSlots.begin(), freeSlots.end(), [&](uint32_t free) {
        return times[free] <= known.get(free);
      });
  if (slot == freeSlots.end() && times.size() >= kMaxSlots)
    slot = freeSlots.begin();
  if (slot == freeSlots.end()) {
    freeSlots.push_back(static_cast<uint32_t>(times.size()));
    slot = freeSlots.end() - 1;
    times.push_back(0);
    names.emplace_back();
    proxyFences.push_back(0);
  }
  uint32_t result = *slot;
  freeSlots.erase(slot);
  names[result] = name;
  return result;
}

void Races::begin(Warp &warp, const VectorClock &known) {
  if (!isOn)
    return;
  WarpClock &clock = warp.clock;
  const Block &block = *warp.block;
  std::string name = block.grid->program->header.name + ", block (" +
                     std::to_string(block.position[0]) + ", " +
                     std::to_string(block.position[1]) + ", " +
                     std::to_string(block.position[2]) + "), warp " +
                     std::to_string(warp.index);
  clock.slot = allocateSlot(name, known);
  clock.asyncSlot = allocateSlot(name, known);
  clock.now = known;
  clock.now.set(clock.slot, ++times[clock.slot]);
  ++times[clock.asyncSlot];
}

void Races::end(Warp &warp, VectorClock &known) {
  if (!isOn)
    return;
  WarpClock &clock = warp.clock;
  // All asynchronous work of the warp is complete.
  clock.now.set(clock.asyncSlot, times[clock.asyncSlot]);
  known.join(clock.now);
  freeSlots.push_back(clock.slot);
  freeSlots.push_back(clock.asyncSlot);
}

void Races::arrive(Warp &warp, VectorClock &barrier) {
  if (!isOn)
    return;
  WarpClock &clock = warp.clock;
  barrier.join(clock.now);
  // Later accesses of the warp are not published.
  clock.now.set(clock.slot, ++times[clock.slot]);
}

void Races::await(Warp &warp, const VectorClock &barrier) {
  warp.clock.now.join(barrier);
}

void Races::arriveAsync(Warp &warp, VectorClock &known) {
  if (!isOn)
    return;
  arrive(warp, known);
  uint32_t slot = warp.clock.asyncSlot;
  known.set(slot, times[slot]++);
}

uint32_t Races::commit(Warp &warp) {
  return isOn ? times[warp.clock.asyncSlot]++ : 0;
}

void Races::await(Warp &warp, const Warp &other, uint32_t group) {
  VectorClock &now = warp.clock.now;
  uint32_t slot = other.clock.asyncSlot;
  if (now.get(slot) < group)
    now.set(slot, group);
}

void Races::fence(Warp &warp) {
  if (!isOn)
    return;
  WarpClock &clock = warp.clock;
  clock.now.join(clock.fromRelaxedLoads);
  clock.atLastFence = clock.now;
  clock.hasFenced = true;
  clock.now.set(clock.slot, ++times[clock.slot]);
}

void Races::fenceProxy(Thread &thread) {
  if (!isOn)
    return;
  proxyFences[thread.warp->clock.slot] = thread.getMachine().getTime();
}

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

Races::Cell &Races::getCell(uint64_t address) {
  uint64_t cell = address / kCellBytes, number = cell / kPageCells;
  Recent &last = recent[number % recent.size()];
  if (last.page && last.number == number)
    return (*last.page)[cell % kPageCells];
  std::unique_ptr<Page> &page = pages[number];
  if (!page && !spare.empty()) {
    page = std::move(spare.back());
    spare.pop_back();
  }
  if (!page)
    page = std::make_unique<Page>();
  last = {number, page.get()};
  return (*page)[cell % kPageCells];
}

void Races::forget(MemoryAddress address, uint64_t bytes) {
  if (!isOn)
    return;
  uint64_t start = address.bits, end = start + bytes;
  auto forgetPage = [&](auto page) {
    uint64_t first = std::max(start, page->first * kPageBytes);
    uint64_t last = std::min(end, (page->first + 1) * kPageBytes) - 1;
    for (uint64_t i = first / kCellBytes; i <= last / kCellBytes; ++i)
      (*page->second)[i % kPageCells] = {};
    // A page of shared memory belongs to one block only.
    if (!address.isShared() && last - first + 1 < kPageBytes)
      return std::next(page);
    recent[page->first % recent.size()] = {};
    spare.push_back(std::move(page->second));
    return pages.erase(page);
  };
  uint64_t begin = start / kPageBytes, last = (end - 1) / kPageBytes;
  if (last - begin > pages.size()) {
    for (auto page = pages.begin(); page != pages.end();)
      page = page->first >= begin && page->first <= last ? forgetPage(page)
                                                         : std::next(page);
  } else {
    for (uint64_t number = begin; number <= last; ++number)
      if (auto page = pages.find(number); page != pages.end())
        forgetPage(page);
  }
  for (auto entry = released.begin(); entry != released.end();)
    if (entry->first - start < bytes)
      entry = released.erase(entry);
    else
      ++entry;
}

/// Whether the async proxy sees the last write. Earlier launches are visible
/// through every proxy.
bool Races::isProxyOrdered(const Thread &thread, const Cell &cell) const {
  const Access &writer = cell.writer;
  return writer.isAsync || cell.grid != thread.block->grid->id ||
         cell.written < proxyFences[writer.slot] ||
         cell.written < proxyFences[thread.warp->clock.slot];
}

void Races::checkProxy(const Thread &thread, MemoryAddress address,
                       const Cell &cell) const {
  const Access &writer = cell.writer;
  if (isProxyOrdered(thread, cell))
    return;
  throw Fault(Fault::LaunchFailed,
              "reads " + address.print() + " through the async proxy, which " +
                  "line " + std::to_string(writer.line) + " of " +
                  names[writer.slot] +
                  " has written, without fence.proxy.async in between");
}

Races::Access Races::getAccess(const Thread &thread, bool isWeak,
                               bool isAsync) const {
  const WarpClock &clock = thread.warp->clock;
  const Program &program = *thread.block->grid->program;
  uint32_t slot = isAsync ? clock.asyncSlot : clock.slot;
  return {slot, times[slot], program.instructions[thread.pc].line, isWeak,
          isAsync};
}

/// Whether the warp knows what `slot` did at `time`.
static bool happensBefore(uint32_t slot, uint32_t time,
                          const WarpClock &clock) {
  return slot == clock.slot || time <= clock.now.get(slot);
}

void Races::readCell(Cell &cell, const WarpClock &clock, const Access &access,
                     uint8_t mask) {
  // One reader is enough as long as all earlier readers happened before it.
  if (cell.reader.time != 0 && !cell.readers &&
      !happensBefore(cell.reader.slot, cell.reader.time, clock)) {
    cell.readers = std::make_unique<Readers>();
    (*cell.readers)[cell.reader.slot] = cell.reader;
  }
  if (cell.readers)
    (*cell.readers)[access.slot] = access;
  cell.readBytes |= mask;
  cell.reader = access;
}

void Races::access(Thread &thread, MemoryAddress address, uint64_t bytes,
                   bool isWrite, bool isWeak, bool isAsync,
                   uint64_t unchanged) {
  if (!isOn)
    return;
  const WarpClock &clock = thread.warp->clock;
  const Grid &grid = *thread.block->grid;
  Access access = getAccess(thread, isWeak, isAsync);
  auto check = [&](const Access &other, uint64_t at, bool wasWrite) {
    bool isRace = !isWrite    ? isWeak
                  : !wasWrite ? other.isWeak
                              : isWeak || other.isWeak;
    if (!isRace || other.time == 0 ||
        happensBefore(other.slot, other.time, clock))
      return;
    throw Fault(Fault::LaunchFailed,
                (isWrite ? "writes " : "reads ") + MemoryAddress(at).print() +
                    ", in no order with line " + std::to_string(other.line) +
                    " of " + names[other.slot] + ", which " +
                    (wasWrite ? "writes it" : "reads it"));
  };
  uint64_t end = address.bits + bytes;
  for (uint64_t at = address.bits, next; at < end; at = next) {
    next = std::min(end, (at / kCellBytes + 1) * kCellBytes);
    auto mask =
        static_cast<uint8_t>(((1U << (next - at)) - 1) << (at % kCellBytes));
    Cell &cell = getCell(at);
    // A range is longer than 64 bytes only if `unchanged` is zero.
    uint64_t others =
        unchanged ? ~unchanged >> (at - address.bits) : ~unchanged;
    bool isSame = (others & ((uint64_t(1) << (next - at)) - 1)) == 0;
    if (isSame && (cell.writtenBytes & mask) &&
        !happensBefore(cell.writer.slot, cell.writer.time, clock))
      continue;
    if (cell.writtenBytes & mask) {
      check(cell.writer, at, true);
      if (isAsync && !isWrite)
        checkProxy(thread, MemoryAddress(at), cell);
    }
    if (isWrite) {
      if (!isSame && (cell.readBytes & mask)) {
        check(cell.reader, at, false);
        if (cell.readers)
          for (const auto &[slot, reader] : *cell.readers)
            check(reader, at, false);
        cell.readers.reset();
        cell.reader = {};
        cell.readBytes = 0;
      }
      bool isMore = cell.writer.slot == access.slot;
      cell.writtenBytes = isMore ? cell.writtenBytes | mask : mask;
      cell.writer = access;
      cell.written = thread.getMachine().getTime();
      cell.grid = grid.id;
      continue;
    }
    readCell(cell, clock, access, mask);
  }
}

void Races::read(Thread &thread, MemoryAddress address, uint64_t bytes,
                 Order order) {
  access(thread, address, bytes, false, order == Order::Weak, false);
  if (order == Order::Weak || !isOn)
    return;
  auto found = released.find(address.bits);
  if (found == released.end())
    return;
  bool isAcquire = order == Order::Acquire || order == Order::AcquireRelease;
  WarpClock &clock = thread.warp->clock;
  (isAcquire ? clock.now : clock.fromRelaxedLoads).join(found->second);
}

void Races::write(Thread &thread, MemoryAddress address, uint64_t bytes,
                  Order order, uint64_t unchanged) {
  access(thread, address, bytes, true, order == Order::Weak, false, unchanged);
  if (order == Order::Release || order == Order::AcquireRelease)
    arrive(*thread.warp, released[address.bits]);
  else if (order != Order::Weak && thread.warp->clock.hasFenced)
    released[address.bits].join(thread.warp->clock.atLastFence);
}

void Races::readAsync(Thread &thread, MemoryAddress address, uint64_t bytes) {
  access(thread, address, bytes, false, true, true);
}

void Races::writeAsync(Thread &thread, MemoryAddress address, uint64_t bytes) {
  access(thread, address, bytes, true, true, true);
}

bool Races::mayReadChunk(const Thread &thread, uint32_t chunk) const {
  if (!isOn)
    return true;
  uint64_t cellNumber = MemoryAddress(*thread.block, chunk).bits / kCellBytes;
  auto page = pages.find(cellNumber / kPageCells);
  if (page == pages.end())
    return true;
  const Cell &cell = (*page->second)[cellNumber % kPageCells];
  return cell.writtenBytes == 0 ||
         (happensBefore(cell.writer.slot, cell.writer.time,
                        thread.warp->clock) &&
          isProxyOrdered(thread, cell));
}

void Races::readChunks(Thread &thread, const std::vector<uint32_t> &chunks) {
  if (!isOn)
    return;
  Access read = getAccess(thread, /*isWeak=*/true, /*isAsync=*/true);
  for (uint32_t chunk : chunks) {
    // This call throws a fault that names the conflicting access.
    if (!mayReadChunk(thread, chunk))
      access(thread, MemoryAddress(*thread.block, chunk), kCellBytes,
             /*isWrite=*/false,
             /*isWeak=*/true, /*isAsync=*/true);
    constexpr uint8_t all = (1 << kCellBytes) - 1;
    readCell(getCell(MemoryAddress(*thread.block, chunk).bits),
             thread.warp->clock, read, all);
  }
}
