//===- LoadStore.cpp - Loads, stores and addresses ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, sections 9.7.9 (ld, st and addresses) and 9.7.13 (fences). Cache
// hints are accepted and have no effect.
//
//===----------------------------------------------------------------------===//

#include "instructions/LoadStore.h"

#include <algorithm>

using namespace fuse;
using namespace fuse::emulator;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

static std::string printAddress(uint64_t address) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx",
                static_cast<unsigned long long>(address));
  return text;
}

/// The bytes of parameters or of local memory, which only their owner can
/// access.
static uint8_t *getOwn(uint8_t *begin, uint64_t size, uint64_t address,
                       uint32_t bytes, unsigned alignment, const char *what) {
  if (address > size || bytes > size - address)
    throw Fault(Fault::IllegalAddress,
                std::to_string(bytes) + " bytes at " + printAddress(address) +
                    " of " + what + ", which has " + std::to_string(size));
  if (address % alignment != 0)
    throw Fault(Fault::Misaligned,
                std::string(what) + " at " + printAddress(address) +
                    " is not aligned to " + std::to_string(alignment));
  return begin + address;
}

ResolvedAddress emulator::locate(Thread &thread, StateSpace space,
                                 uint64_t address, uint32_t bytes,
                                 unsigned alignment, Access access) {
  switch (space) {
  case StateSpace::Generic:
    switch (address & kSharedWindowMask) {
    case kSharedWindow:
      return locate(thread, StateSpace::SharedCluster, address ^ kSharedWindow,
                    bytes, alignment, access);
    case kLocalWindow:
      return locate(thread, StateSpace::Local, address ^ kLocalWindow, bytes,
                    alignment, access);
    case kParameterWindow:
      return locate(thread, StateSpace::Parameter, address ^ kParameterWindow,
                    bytes, alignment, access);
    default:
      break;
    }
    [[fallthrough]];
  case StateSpace::Global:
    return {thread.getMachine().global(address, bytes, alignment),
            MemoryAddress(address), true};
  case StateSpace::SharedCta:
  case StateSpace::SharedCluster: {
    auto shared = static_cast<uint32_t>(address);
    if (shared != address)
      throw Fault(Fault::IllegalAddress,
                  printAddress(address) +
                      " is not an address of shared memory");
    Block &block = getBlockOf(*thread.block, shared);
    if (space == StateSpace::SharedCta && &block != thread.block)
      throw Fault(Fault::IllegalAddress,
                  "shared memory of another block of the cluster without "
                  ".shared::cluster");
    uint32_t offset = getOffset(shared);
    return {accessShared(block, offset, bytes, alignment, access),
            MemoryAddress(block, offset), true};
  }
  case StateSpace::Local:
    return {getOwn(thread.local.data(), thread.local.size(), address, bytes,
                   alignment, "local memory"),
            MemoryAddress(0), false};
  case StateSpace::Parameter: {
    if (access == Access::Write)
      throw Fault(Fault::IllegalAddress, "parameters are read-only");
    std::vector<uint8_t> &parameters = thread.block->grid->parameters;
    return {getOwn(parameters.data(), parameters.size(), address, bytes,
                   alignment, "the parameters"),
            MemoryAddress(0), false};
  }
  }
  throw Fault(Fault::IllegalAddress, "an address outside of all spaces");
}

uint8_t *emulator::accessGeneric(Thread &thread, uint64_t address,
                                 uint32_t bytes, unsigned alignment,
                                 Access access) {
  return locate(thread, StateSpace::Generic, address, bytes, alignment, access)
      .bytes;
}

//===----------------------------------------------------------------------===//
// Parts of opcodes
//===----------------------------------------------------------------------===//

StateSpace emulator::takeCtaSpace(Parts &parts) {
  return parts.takeOne({"shared", "shared::cta"}) < 0 ? StateSpace::Generic
                                                      : StateSpace::SharedCta;
}

StateSpace emulator::takeSharedSpace(Parts &parts) {
  return parts.take("shared::cluster") ? StateSpace::SharedCluster
                                       : takeCtaSpace(parts);
}

StateSpace emulator::takeSpace(Parts &parts) {
  constexpr StateSpace spaces[] = {StateSpace::Global, StateSpace::Global,
                                   StateSpace::Local, StateSpace::Parameter,
                                   StateSpace::Parameter};
  int found =
      parts.takeOne({"global", "const", "local", "param", "param::entry"});
  return found < 0 ? takeSharedSpace(parts) : spaces[found];
}

Order emulator::takeOrder(Parts &parts, Order otherwise) {
  constexpr Order orders[] = {Order::Weak,    Order::Relaxed,
                              Order::Relaxed, Order::Acquire,
                              Order::Release, Order::AcquireRelease};
  int found = parts.takeOne(
      {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel"});
  parts.take("mmio");
  parts.takeOne({"cta", "cluster", "gpu", "sys"});
  return found < 0 ? otherwise : orders[found];
}

bool emulator::takeCaches(Parts &parts) {
  bool hasPolicy = parts.take("L2::cache_hint");
  parts.takeOne({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  parts.takeOne({"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
                 "L1::evict_last", "L1::no_allocate"});
  parts.takeOne({"L2::evict_normal", "L2::evict_first", "L2::evict_last"});
  parts.takeOne({"L2::64B", "L2::128B", "L2::256B"});
  return hasPolicy;
}

namespace {

/// Instruction::detail of ld and st: from bit 0 on the number of vector
/// elements, from kOrder on the memory order, from kWidth on the bits of a
/// loaded register.
constexpr unsigned kOrder = 8, kWidth = 16;

template <typename T, StateSpace space>
Outcome load(Thread &thread, const Instruction &in) {
  auto count = static_cast<unsigned>(in.detail & 0xff);
  auto order = static_cast<Order>(in.detail >> kOrder & 0xff);
  unsigned width = in.detail >> kWidth;
  uint64_t address =
      thread.get(in.operands[count]) + in.operands[count + 1].bits;
  constexpr uint32_t size = sizeof(T);
  ResolvedAddress memory =
      locate(thread, space, address, count * size, count * size, Access::Read);
  if (memory.isTracked)
    thread.getMachine().getRaces().read(thread, memory.address, count * size,
                                        order);
  // Loads sign-extend to the width of the register.
  uint64_t mask = width < 64 ? (uint64_t(1) << width) - 1 : ~uint64_t(0);
  std::array<uint64_t, 4> values;
  uint64_t seen = 0;
  for (unsigned i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, memory.bytes + i * size, size);
    values[i] = static_cast<uint64_t>(value) & mask;
    seen = seen * 0x9e3779b97f4a7c15 + values[i];
  }
  Outcome outcome = Outcome::Next;
  if (order != Order::Weak)
    outcome = thread.poll(address, seen);
  // Do not write the registers: the load will be executed again, and one of
  // them may hold its address.
  if (outcome == Outcome::Wait)
    return outcome;
  for (unsigned i = 0; i < count; ++i)
    thread.set(in.operands[i], values[i]);
  return outcome;
}

template <typename T, StateSpace space>
Outcome store(Thread &thread, const Instruction &in) {
  auto count = static_cast<unsigned>(in.detail & 0xff);
  auto order = static_cast<Order>(in.detail >> kOrder & 0xff);
  uint64_t address = thread.get(in.operands[0]) + in.operands[1].bits;
  constexpr uint32_t size = sizeof(T);
  ResolvedAddress memory =
      locate(thread, space, address, count * size, count * size, Access::Write);
  std::array<T, 4> values;
  for (unsigned i = 0; i < count; ++i)
    values[i] = get<T>(thread, in, 2 + i);
  if (memory.isTracked) {
    uint64_t unchanged = 0;
    const auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
    for (unsigned i = 0; i < count * size; ++i)
      unchanged |= uint64_t(memory.bytes[i] == bytes[i]) << i;
    thread.getMachine().getRaces().write(thread, memory.address, count * size,
                                         order, unchanged);
  }
  std::memcpy(memory.bytes, values.data(), count * size);
  ++thread.writes;
  thread.getMachine().change();
  return Outcome::Next;
}

template <typename T>
Execute getLoad(StateSpace space) {
  switch (space) {
  case StateSpace::Generic:
    return load<T, StateSpace::Generic>;
  case StateSpace::Global:
    return load<T, StateSpace::Global>;
  case StateSpace::SharedCta:
    return load<T, StateSpace::SharedCta>;
  case StateSpace::SharedCluster:
    return load<T, StateSpace::SharedCluster>;
  case StateSpace::Local:
    return load<T, StateSpace::Local>;
  case StateSpace::Parameter:
    return load<T, StateSpace::Parameter>;
  }
  return nullptr;
}

template <typename T>
Execute getStore(StateSpace space) {
  switch (space) {
  case StateSpace::Generic:
    return store<T, StateSpace::Generic>;
  case StateSpace::Global:
    return store<T, StateSpace::Global>;
  case StateSpace::SharedCta:
    return store<T, StateSpace::SharedCta>;
  case StateSpace::SharedCluster:
    return store<T, StateSpace::SharedCluster>;
  case StateSpace::Local:
    return store<T, StateSpace::Local>;
  case StateSpace::Parameter:
    return nullptr;
  }
  return nullptr;
}

Outcome fence(Thread &thread, const Instruction &) {
  thread.getMachine().getRaces().fence(*thread.warp);
  return Outcome::Next;
}

Outcome fenceAsync(Thread &thread, const Instruction &) {
  thread.getMachine().getRaces().fenceProxy(thread);
  return Outcome::Next;
}

/// Marks mbarriers that the thread initialized as visible to copies.
void fenceOwnMbarriers(Thread &thread) {
  for (auto &[offset, barrier] : thread.block->mbarriers)
    barrier.isFenced |= barrier.thread == thread.index;
}

/// fence.proxy.async for shared memory.
Outcome fenceAsyncShared(Thread &thread, const Instruction &in) {
  fenceOwnMbarriers(thread);
  return fenceAsync(thread, in);
}

Outcome fenceMbarriers(Thread &thread, const Instruction &in) {
  fenceOwnMbarriers(thread);
  return fence(thread, in);
}

Outcome nothing(Thread &, const Instruction &) { return Outcome::Next; }

/// The content of discarded memory is undefined, so NaN is stored.
template <StateSpace space>
Outcome discard(Thread &thread, const Instruction &in) {
  constexpr uint32_t bytes = 128;
  uint64_t address = thread.get(in.operands[0]) + in.operands[1].bits;
  ResolvedAddress memory =
      locate(thread, space, address, bytes, bytes, Access::Write);
  if (memory.isTracked)
    thread.getMachine().getRaces().write(thread, memory.address, bytes);
  std::memset(memory.bytes, 0xff, bytes);
  return Outcome::Next;
}

/// Cache policies have no effect.
Outcome createPolicy(Thread &thread, const Instruction &in) {
  thread.set(in.operands[0], 0);
  return Outcome::Next;
}

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

/// Instruction::detail is the window of the space.
Outcome toGeneric(Thread &thread, const Instruction &in) {
  thread.set(in.operands[0], thread.get(in.operands[1]) | in.detail);
  return Outcome::Next;
}

Outcome fromGeneric(Thread &thread, const Instruction &in) {
  uint64_t address = thread.get(in.operands[1]);
  // An address of another space stays invalid in this one.
  if (in.detail && (address & kSharedWindowMask) == in.detail)
    address ^= in.detail;
  thread.set(in.operands[0], address);
  return Outcome::Next;
}

template <StateSpace space>
Outcome isInSpace(Thread &thread, const Instruction &in) {
  uint64_t address = thread.get(in.operands[1]);
  uint64_t window = address & kSharedWindowMask;
  bool isOwn = window == kSharedWindow &&
               &getBlockOf(*thread.block, static_cast<uint32_t>(address)) ==
                   thread.block;
  set<bool>(thread, in, 0,
            space == StateSpace::SharedCta       ? isOwn
            : space == StateSpace::SharedCluster ? window == kSharedWindow
            : space == StateSpace::Local         ? window == kLocalWindow
            : space == StateSpace::Parameter
                ? window == kParameterWindow
                : window != kSharedWindow && window != kLocalWindow &&
                      window != kParameterWindow);
  return Outcome::Next;
}

uint64_t getShared(uint64_t address, bool isGeneric) {
  uint64_t window = isGeneric ? kSharedWindow : 0;
  if ((address & kSharedWindowMask) != window)
    throw Fault(Fault::IllegalAddress,
                printAddress(address) + " is not an address of shared memory");
  return address ^ window;
}

/// The same offset in another block. Instruction::detail: the address is
/// generic. A rank outside of the cluster is not a fault here, since LLVM
/// speculates mapa. Using the resulting address is one.
Outcome mapa(Thread &thread, const Instruction &in) {
  uint64_t shared = getShared(thread.get(in.operands[1]), in.detail);
  constexpr uint32_t none = UINT32_MAX >> kRankShift;
  uint32_t rank = std::min(get<uint32_t>(thread, in, 2), none - 1);
  uint64_t result = getOffset(static_cast<uint32_t>(shared)) |
                    uint64_t(rank + 1) << kRankShift;
  thread.set(in.operands[0], in.detail ? result | kSharedWindow : result);
  return Outcome::Next;
}

Outcome getRank(Thread &thread, const Instruction &in) {
  uint64_t shared = getShared(thread.get(in.operands[1]), in.detail);
  set<uint32_t>(thread, in, 0,
                getBlockOf(*thread.block, static_cast<uint32_t>(shared)).rank);
  return Outcome::Next;
}

} // namespace

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

/// Checks a register or a vector of `count` registers as an operand of ld or
/// st. They may be wider than the type. Returns the bits of each register.
static unsigned checkData(const Operand &operand, Type type, bool isLoad,
                          unsigned count) {
  const Operand *parts = &operand;
  if (operand.kind == Operand::Kind::Vector)
    parts = operand.parts.data();
  unsigned given = operand.kind == Operand::Kind::Vector
                       ? static_cast<unsigned>(operand.parts.size())
                       : 1;
  if (given != count)
    throw std::runtime_error("a vector of " + std::to_string(given) +
                             ", expected " + std::to_string(count));
  unsigned width = 0;
  for (unsigned i = 0; i < count; ++i) {
    const Operand &part = parts[i];
    bool isFree = isLoad ? part.kind == Operand::Kind::None
                         : part.kind == Operand::Kind::Immediate;
    if (isFree)
      continue;
    if (part.kind != Operand::Kind::Register || part.isNegated ||
        part.value < getBits(type) || (width && part.value != width))
      throw std::runtime_error(std::string("expected registers of at least ") +
                               std::to_string(getBits(type)) + " bits for ." +
                               print(type));
    width = static_cast<unsigned>(part.value);
  }
  return width;
}

static unsigned takeCount(Parts &parts) {
  int vector = parts.takeOne({"v2", "v4"});
  return vector < 0 ? 1 : vector == 0 ? 2 : 4;
}

static bool isStored(Type type) {
  return isBits(type) || isInteger(type) || type == Type::U8 ||
         type == Type::S8 || (type >= Type::F16 && type <= Type::F64);
}

/// The untyped form of a floating-point type.
static Type getMoved(Type type) {
  if (!isFloat(type))
    return type;
  return getBits(type) == 64   ? Type::B64
         : getBits(type) == 32 ? Type::B32
                               : Type::B16;
}

static void decodeLoad(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  StateSpace space = takeSpace(parts);
  Order order = takeOrder(parts, Order::Weak);
  bool hasPolicy = takeCaches(parts);
  parts.take("nc");
  unsigned count = takeCount(parts);
  parts.finish();
  if (!isStored(type) || count * getBits(type) > 128)
    parts.refuse(type);
  std::vector<Expected> expected = {{Expected::Any}, {Expected::Address}};
  if (hasPolicy)
    expected.push_back({Expected::In, 64});
  checkOperands(parsed, result, expected);
  unsigned width = checkData(parsed.operands[0], type, /*isLoad=*/true, count);
  withInteger(getMoved(type), [&](auto value) {
    result.execute = getLoad<decltype(value)>(space);
  });
  result.detail = count | uint64_t(order) << kOrder | uint64_t(width) << kWidth;
}

static void decodeStore(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  Type type = parts.takeType();
  StateSpace space = takeSpace(parts);
  Order order = takeOrder(parts, Order::Weak);
  bool hasPolicy = takeCaches(parts);
  unsigned count = takeCount(parts);
  parts.finish();
  if (!isStored(type) || count * getBits(type) > 128)
    parts.refuse(type);
  std::vector<Expected> expected = {{Expected::Address}, {Expected::Any}};
  if (hasPolicy)
    expected.push_back({Expected::In, 64});
  checkOperands(parsed, result, expected);
  (void)checkData(parsed.operands[1], type, /*isLoad=*/false, count);
  withInteger(getMoved(type), [&](auto value) {
    result.execute = getStore<std::make_unsigned_t<decltype(value)>>(space);
  });
  if (!result.execute)
    throw std::runtime_error("parameters are read-only");
  result.detail = count | uint64_t(order) << kOrder;
}

static void decodeFence(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  if (parts.take("proxy")) {
    // proxy.tensormap: tensor maps are constant. proxy.alias: all aliases have
    // the same address.
    int proxy = parts.takeOne({"async", "alias"});
    if (proxy < 0)
      parts.finish();
    bool isGlobal = takeSpace(parts) == StateSpace::Global;
    result.execute = proxy != 0 ? nothing
                     : isGlobal ? fenceAsync
                                : fenceAsyncShared;
  } else if (parts.take("mbarrier_init")) {
    parts.take("release");
    parts.take("cluster");
    result.execute = fenceMbarriers;
  } else {
    parts.takeOne({"sc", "acq_rel", "acquire", "release"});
    if (parts.takeOne({"cta", "cluster", "gpu", "gl", "sys"}) < 0)
      throw std::runtime_error(parsed.opcode[0] + " has no scope");
    result.execute = fence;
  }
  parts.finish();
  checkOperands(parsed, result, {});
}

/// prefetch, prefetchu, applypriority: only the syntax is checked.
static void decodeHint(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  takeSpace(parts);
  bool hasSize = parsed.opcode[0] == "applypriority";
  if (parts.takeOne(
          {"L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"}) < 0)
    throw std::runtime_error(parsed.opcode[0] + " has no cache");
  parts.finish();
  result.execute = nothing;
  std::vector<Expected> expected = {{Expected::Address}};
  if (hasSize)
    expected.push_back({Expected::Constant});
  checkOperands(parsed, result, expected);
}

static void decodeDiscard(const ParsedInstruction &parsed,
                          Instruction &result) {
  Parts parts(parsed);
  result.execute = parts.take("global") ? discard<StateSpace::Global>
                                        : discard<StateSpace::Generic>;
  parts.take("L2");
  parts.finish();
  checkOperands(parsed, result, {{Expected::Address}, {Expected::Constant}});
  if (parsed.operands[1].value != 128)
    throw std::runtime_error("discard of " +
                             std::to_string(parsed.operands[1].value) +
                             " bytes, expected 128");
}

static void decodePolicy(const ParsedInstruction &parsed, Instruction &result) {
  result.execute = createPolicy;
  std::vector<Expected> expected(parsed.operands.size(), {Expected::Any});
  if (expected.empty())
    throw std::runtime_error("createpolicy has no result");
  expected[0] = {Expected::Out, 64};
  checkOperands(parsed, result, expected);
}

/// Generic addresses have 64 bits, addresses in shared memory 32 or 64.
static unsigned takeAddressBits(Parts &parts) {
  Type type = parts.takeType();
  if (type != Type::U64 && type != Type::U32)
    parts.refuse(type);
  return getBits(type);
}

static void decodeCvta(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  bool isTo = parts.take("to");
  StateSpace space = takeSpace(parts);
  unsigned bits = takeAddressBits(parts);
  parts.finish();
  if (space == StateSpace::Generic)
    throw std::runtime_error("cvta has no space");
  if (bits != 64)
    throw std::runtime_error(
        "the emulator does not know cvta of 32-bit addresses");
  result.execute = isTo ? fromGeneric : toGeneric;
  result.detail = getWindow(space);
  checkOperands(parsed, result, {{Expected::Out, bits}, {Expected::In, bits}});
}

static void decodeIsSpace(const ParsedInstruction &parsed,
                          Instruction &result) {
  Parts parts(parsed);
  // Constant memory is part of global memory here.
  bool isConst = parts.take("const");
  StateSpace space = takeSpace(parts);
  parts.finish();
  result.execute =
      space == StateSpace::SharedCta ? isInSpace<StateSpace::SharedCta>
      : space == StateSpace::SharedCluster
          ? isInSpace<StateSpace::SharedCluster>
      : space == StateSpace::Local     ? isInSpace<StateSpace::Local>
      : space == StateSpace::Parameter ? isInSpace<StateSpace::Parameter>
      : space == StateSpace::Global    ? isInSpace<StateSpace::Global>
                                       : nullptr;
  if (isConst || !result.execute)
    throw std::runtime_error(
        "the emulator does not know isspacep of this space");
  checkOperands(parsed, result, {{Expected::Out, 1}, {Expected::In, 64}});
}

static void decodeMapa(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  bool isShared = parts.take("shared::cluster");
  unsigned bits = takeAddressBits(parts);
  parts.finish();
  bool isMap = parsed.opcode[0] == "mapa";
  if (!isShared && bits != 64)
    throw std::runtime_error("a generic address must have 64 bits");
  result.detail = !isShared;
  result.execute = isMap ? mapa : getRank;
  if (isMap)
    checkOperands(
        parsed, result,
        {{Expected::Out, bits}, {Expected::In, bits}, {Expected::In, 32}});
  else
    checkOperands(parsed, result, {{Expected::Out, 32}, {Expected::In, bits}});
}

const Opcode emulator::kLoadStore[] = {
    {"ld", decodeLoad},         {"ldu", decodeLoad},
    {"st", decodeStore},        {"fence", decodeFence},
    {"membar", decodeFence},    {"prefetch", decodeHint},
    {"prefetchu", decodeHint},  {"applypriority", decodeHint},
    {"discard", decodeDiscard}, {"createpolicy", decodePolicy},
    {"cvta", decodeCvta},       {"isspacep", decodeIsSpace},
    {"mapa", decodeMapa},       {"getctarank", decodeMapa},
    {nullptr, nullptr},
};
