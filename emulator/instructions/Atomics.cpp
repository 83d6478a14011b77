//===- Atomics.cpp - Atomic operations ------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, sections 9.7.13.6 (atom) and 9.7.13.7 (red).
//
//===----------------------------------------------------------------------===//

#include "instructions/LoadStore.h"

#include <algorithm>

using namespace fuse;
using namespace fuse::emulator;

namespace {

enum Operation : uint8_t { Add, Min, Max, And, Or, Xor, Exch, Cas, Inc, Dec };

/// Fields of Instruction::detail: from bit 0 on the space, then the memory
/// order, the type and the operation.
constexpr unsigned kOrder = 8, kType = 16, kOperation = 24;

} // namespace

template <typename T>
static uint64_t applyInteger(uint64_t oldBits, uint64_t newBits,
                             uint8_t operation) {
  auto old = fromBits<T>(oldBits), other = fromBits<T>(newBits);
  using Bits = std::make_unsigned_t<T>;
  switch (operation) {
  case Add:
    return toBits(
        static_cast<T>(static_cast<Bits>(old) + static_cast<Bits>(other)));
  case Min:
    return toBits(std::min(old, other));
  case Max:
    return toBits(std::max(old, other));
  case And:
    return toBits(static_cast<T>(old & other));
  case Or:
    return toBits(static_cast<T>(old | other));
  case Xor:
    return toBits(static_cast<T>(old ^ other));
  case Inc:
    return toBits(old >= other ? T(0) : static_cast<T>(old + 1));
  case Dec:
    return toBits(old == 0 || old > other ? other : static_cast<T>(old - 1));
  default:
    return toBits(other);
  }
}

/// Adds both halves of packed values.
template <const Format &format>
static uint64_t addHalves(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  for (unsigned shift : {0, 16}) {
    double sum = decodeFloat(a >> shift & 0xffff, format) +
                 decodeFloat(b >> shift & 0xffff, format);
    result |= uint64_t(encodeFloat(sum, format)) << shift;
  }
  return result;
}

static uint64_t apply(Type type, uint64_t old, uint64_t other,
                      uint8_t operation) {
  switch (type) {
  case Type::F32:
    return toBits(fromBits<float>(old) + fromBits<float>(other));
  case Type::F64:
    return toBits(fromBits<double>(old) + fromBits<double>(other));
  case Type::F16x2:
    return addHalves<kHalf>(old, other);
  case Type::BF16x2:
    return addHalves<kBFloat>(old, other);
  default:
    break;
  }
  uint64_t result = 0;
  (void)withInteger(type, [&](auto zero) {
    result = applyInteger<decltype(zero)>(old, other, operation);
  });
  return result;
}

/// Operands: the old value (`_` for `red`), the address as two values, and one
/// or two inputs.
static Outcome update(Thread &thread, const Instruction &in) {
  auto space = static_cast<StateSpace>(in.detail & 0xff);
  auto order = static_cast<Order>(in.detail >> kOrder & 0xff);
  auto type = static_cast<Type>(in.detail >> kType & 0xff);
  auto operation = static_cast<Operation>(in.detail >> kOperation & 0xff);
  unsigned bytes = getBits(type) / 8;
  uint64_t address = thread.get(in.operands[1]) + thread.get(in.operands[2]);
  ResolvedAddress memory =
      locate(thread, space, address, bytes, bytes, Access::Write);
  if (memory.isTracked) {
    Races &races = thread.getMachine().getRaces();
    races.read(thread, memory.address, bytes, order);
    races.write(thread, memory.address, bytes, order);
  }
  uint64_t old = 0;
  std::memcpy(&old, memory.bytes, bytes);
  uint64_t value = thread.get(in.operands[3]);
  if (operation == Cas)
    value = old == value ? thread.get(in.operands[4]) : old;
  else
    value = apply(type, old, value, operation);
  std::memcpy(memory.bytes, &value, bytes);
  // An atomic without effect may be part of a wait loop, such as that of a
  // lock. It is then executed again, and the result register may be one of its
  // operands.
  Outcome outcome = Outcome::Next;
  if (value == old && in.operands[0].isRegister) {
    outcome = thread.poll(address, old);
  } else {
    ++thread.writes;
    thread.getMachine().change();
  }
  if (outcome != Outcome::Wait)
    thread.set(in.operands[0], old);
  return outcome;
}

static bool canApply(Type type, int operation) {
  switch (operation) {
  case Add:
    return type == Type::U32 || type == Type::S32 || type == Type::U64 ||
           type == Type::F32 || type == Type::F64 || type == Type::F16x2 ||
           type == Type::BF16x2;
  case Min:
  case Max:
    return type == Type::U32 || type == Type::S32 || type == Type::U64 ||
           type == Type::S64;
  case Inc:
  case Dec:
    return type == Type::U32;
  case Cas:
    return type == Type::B16 || type == Type::B32 || type == Type::B64;
  default:
    return type == Type::B32 || type == Type::B64;
  }
}

/// `atom`, and `red`, which has no result.
static void decodeAtomic(const ParsedInstruction &parsed, Instruction &result) {
  bool hasResult = parsed.opcode[0] == "atom";
  Parts parts(parsed);
  StateSpace space = takeSpace(parts);
  Order order = takeOrder(parts, Order::Relaxed);
  bool hasPolicy = takeCaches(parts);
  // Subnormals are always kept.
  (void)parts.take("noftz");
  int operation = parts.takeOne(
      {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  Type type = parts.takeType();
  parts.finish();
  if (operation < 0)
    throw std::runtime_error(parsed.opcode[0] +
                             " has no operation that the emulator knows");
  if (!canApply(type, operation) ||
      (!hasResult && (operation == Exch || operation == Cas)))
    throw std::runtime_error("the emulator does not know " + result.opcode);
  size_t values = operation == Cas ? 2 : 1;
  std::vector<Expected> expected(values, {Expected::In, getBits(type)});
  expected.insert(expected.begin(), {Expected::Address});
  if (hasResult)
    expected.insert(expected.begin(), {Expected::Out, getBits(type)});
  if (hasPolicy)
    expected.push_back({Expected::In, 64});
  checkOperands(parsed, result, expected);
  if (!hasResult)
    result.operands.insert(result.operands.begin(), Value());
  result.detail = uint64_t(space) | uint64_t(order) << kOrder |
                  uint64_t(type) << kType | uint64_t(operation) << kOperation;
  result.execute = update;
}

const Opcode emulator::kAtomics[] = {
    {"atom", decodeAtomic}, {"red", decodeAtomic}, {nullptr, nullptr}};
