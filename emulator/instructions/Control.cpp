//===- Control.cpp - Branches and operations of a warp --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, sections 9.7.12 (control flow), 9.7.13 (operations of a warp)
// and the scheduling hints of 9.7.20.
//
//===----------------------------------------------------------------------===//

#include "instructions/DecoderSupport.h"

#include <algorithm>

using namespace fuse;
using namespace fuse::emulator;

namespace {

//===----------------------------------------------------------------------===//
// Branches
//===----------------------------------------------------------------------===//

Outcome branch(Thread &, const Instruction &) { return Outcome::Branch; }

void decodeBranch(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  // `.uni` has no effect: lanes run one after another.
  (void)parts.take("uni");
  parts.finish();
  checkOperands(parsed, result, {{Expected::Label}});
  result.execute = branch;
  result.target = static_cast<uint32_t>(result.operands[0].bits);
}

/// The operands after the first are the targets.
Outcome branchIndexed(Thread &thread, const Instruction &in) {
  auto index = get<uint32_t>(thread, in, 0);
  size_t count = in.operands.size() - 1;
  if (index >= count)
    throw Fault(Fault::IllegalInstruction, "target " + std::to_string(index) +
                                               " of " + std::to_string(count));
  // Instruction::target is the same for all threads, so pc is set here.
  // Outcome::Next increments it.
  thread.pc = static_cast<uint32_t>(in.operands[index + 1].bits) - 1;
  return Outcome::Next;
}

void decodeBranchIndexed(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  (void)parts.take("uni");
  parts.finish();
  checkOperands(parsed, result, {{Expected::In, 32}, {Expected::Any}});
  const Operand &table = parsed.operands[1];
  bool isTable = table.kind == Operand::Kind::Vector;
  for (const Operand &part : table.parts)
    isTable &= part.kind == Operand::Kind::Label;
  if (!isTable)
    throw std::runtime_error("brx.idx has no .branchtargets");
  result.execute = branchIndexed;
}

Outcome end(Thread &, const Instruction &) { return Outcome::End; }

void decodeEnd(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  (void)parts.take("uni");
  parts.finish();
  checkOperands(parsed, result, {});
  result.execute = end;
}

Outcome trap(Thread &, const Instruction &) {
  throw Fault(Fault::LaunchFailed, "the kernel executed trap");
}

void decodeTrap(const ParsedInstruction &parsed, Instruction &result) {
  Parts(parsed).finish();
  checkOperands(parsed, result, {});
  result.execute = trap;
}

Outcome sleep(Thread &, const Instruction &) { return Outcome::Poll; }

void decodeSleep(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  (void)parts.take("u32");
  parts.finish();
  checkOperands(parsed, result, {{Expected::In, 32}});
  result.execute = sleep;
}

//===----------------------------------------------------------------------===//
// Lanes of a warp
//===----------------------------------------------------------------------===//

/// Calls `function` with the thread of each lane.
template <typename Function>
void forEach(Warp &warp, uint32_t lanes, Function &&function) {
  for (Thread *thread : warp.threads)
    if (thread && lanes >> thread->getLane() & 1)
      function(*thread);
}

/// The last operand is the mask of participating lanes.
void setMask(Instruction &result) {
  result.mask = static_cast<int>(result.operands.size()) - 1;
}

enum Shuffle : uint64_t { Up, Down, Bfly, Idx };

/// Operands: the result, optionally a predicate for "in range", the value, the
/// lane, the bounds, and the mask.
void shuffle(Warp &warp, uint32_t lanes, const Instruction &in) {
  const Value *inputs = &in.operands[in.operands.size() - 4];
  std::array<uint64_t, kWarpSize> values{};
  forEach(warp, lanes, [&](Thread &thread) {
    values[thread.getLane()] = thread.get(inputs[0]);
  });
  forEach(warp, lanes, [&](Thread &thread) {
    unsigned lane = thread.getLane();
    auto which = static_cast<unsigned>(thread.get(inputs[1])) & 31;
    auto bounds = static_cast<unsigned>(thread.get(inputs[2]));
    unsigned segment = bounds >> 8 & 31;
    unsigned least = lane & segment;
    unsigned most = least | (bounds & 31 & ~segment);
    int source = 0;
    bool isInRange = true;
    switch (in.detail) {
    case Up:
      source = static_cast<int>(lane) - static_cast<int>(which);
      isInRange = source >= static_cast<int>(most);
      break;
    case Down:
      source = static_cast<int>(lane + which);
      break;
    case Bfly:
      source = static_cast<int>(lane ^ which);
      break;
    case Idx:
      source = static_cast<int>(least | (which & ~segment));
      break;
    }
    if (in.detail != Up)
      isInRange = source <= static_cast<int>(most);
    if (!isInRange)
      source = static_cast<int>(lane);
    if (!(lanes >> source & 1))
      throw Fault(Fault::IllegalInstruction,
                  "lane " + std::to_string(lane) + " reads lane " +
                      std::to_string(source) + ", which is not in the mask");
    thread.set(in.operands[0], values[source]);
    if (in.operands.size() == 6)
      thread.set(in.operands[1], isInRange);
  });
}

void decodeShuffle(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  int mode = parts.takeOne({"up", "down", "bfly", "idx"});
  if (mode < 0 || !parts.take("b32"))
    throw std::runtime_error("shfl.sync must be .up, .down, .bfly or .idx, "
                             "and .b32");
  parts.finish();
  std::vector<Expected> expected = {{Expected::Out, 32}};
  if (parsed.operands.size() == 6)
    expected.push_back({Expected::Out, 1});
  expected.insert(expected.end(), 4, {Expected::In, 32});
  checkOperands(parsed, result, expected);
  setMask(result);
  result.detail = mode;
  result.executeByWarp = shuffle;
}

enum Vote : uint64_t { All, AnyLane, Uniform, Ballot };

void vote(Warp &warp, uint32_t lanes, const Instruction &in) {
  uint32_t ballot = 0;
  forEach(warp, lanes, [&](Thread &thread) {
    if (thread.get(in.operands[1]) & 1)
      ballot |= uint32_t(1) << thread.getLane();
  });
  uint64_t result = ballot;
  if (in.detail == All)
    result = ballot == lanes;
  else if (in.detail == AnyLane)
    result = ballot != 0;
  else if (in.detail == Uniform)
    result = ballot == 0 || ballot == lanes;
  forEach(warp, lanes,
          [&](Thread &thread) { thread.set(in.operands[0], result); });
}

void decodeVote(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  int mode = parts.takeOne({"all", "any", "uni", "ballot"});
  if (mode < 0 || !parts.take(mode == Ballot ? "b32" : "pred"))
    throw std::runtime_error("vote.sync must be .all.pred, .any.pred, "
                             ".uni.pred or .ballot.b32");
  parts.finish();
  checkOperands(parsed, result,
                {{Expected::Out, mode == Ballot ? 32U : 1U},
                 {Expected::In, 1},
                 {Expected::In, 32}});
  setMask(result);
  result.detail = mode;
  result.executeByWarp = vote;
}

void matchAny(Warp &warp, uint32_t lanes, const Instruction &in) {
  std::array<uint32_t, kWarpSize> same{};
  forEach(warp, lanes, [&](Thread &thread) {
    forEach(warp, lanes, [&](Thread &other) {
      if (thread.get(in.operands[1]) == other.get(in.operands[1]))
        same[thread.getLane()] |= uint32_t(1) << other.getLane();
    });
  });
  forEach(warp, lanes, [&](Thread &thread) {
    thread.set(in.operands[0], same[thread.getLane()]);
  });
}

/// match.all: the result is the mask or zero. A second result is the predicate.
void matchAll(Warp &warp, uint32_t lanes, const Instruction &in) {
  const Value &input = in.operands[in.operands.size() - 2];
  std::vector<uint64_t> values;
  forEach(warp, lanes,
          [&](Thread &thread) { values.push_back(thread.get(input)); });
  bool isSame = std::equal(values.begin() + 1, values.end(), values.begin());
  forEach(warp, lanes, [&](Thread &thread) {
    thread.set(in.operands[0], isSame ? lanes : 0);
    if (in.operands.size() == 4)
      thread.set(in.operands[1], isSame);
  });
}

void decodeMatch(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  int mode = parts.takeOne({"any", "all"});
  bool isSync = parts.take("sync");
  int type = parts.takeOne({"b32", "b64"});
  if (mode < 0 || !isSync || type < 0)
    throw std::runtime_error("match must be .any.sync or .all.sync, and .b32 "
                             "or .b64");
  parts.finish();
  std::vector<Expected> expected = {{Expected::Out, 32}};
  if (mode == 1 && parsed.operands.size() == 4)
    expected.push_back({Expected::Out, 1});
  expected.push_back({Expected::In, type == 0 ? 32U : 64U});
  expected.push_back({Expected::In, 32});
  checkOperands(parsed, result, expected);
  setMask(result);
  result.executeByWarp = mode == 0 ? matchAny : matchAll;
}

/// elect: the results are the first lane, and whether a lane is the first.
void elect(Warp &warp, uint32_t lanes, const Instruction &in) {
  unsigned first = 0;
  while (!(lanes >> first & 1))
    ++first;
  forEach(warp, lanes, [&](Thread &thread) {
    thread.set(in.operands[0], first);
    thread.set(in.operands[1], thread.getLane() == first);
  });
}

void decodeElect(const ParsedInstruction &parsed, Instruction &result) {
  Parts(parsed, 2).finish();
  checkOperands(parsed, result,
                {{Expected::Out, 32}, {Expected::Out, 1}, {Expected::In, 32}});
  setMask(result);
  result.executeByWarp = elect;
}

enum Reduction : uint64_t { Add, Min, Max, And, Or, Xor };

template <typename T>
void reduce(Warp &warp, uint32_t lanes, const Instruction &in) {
  bool isFirst = true;
  T result = 0;
  forEach(warp, lanes, [&](Thread &thread) {
    T value = get<T>(thread, in, 1);
    switch (isFirst ? Add : static_cast<Reduction>(in.detail)) {
    case Add:
      result += value;
      break;
    case Min:
      result = std::min(result, value);
      break;
    case Max:
      result = std::max(result, value);
      break;
    case And:
      result &= value;
      break;
    case Or:
      result |= value;
      break;
    case Xor:
      result ^= value;
      break;
    }
    isFirst = false;
  });
  forEach(warp, lanes, [&](Thread &thread) { set<T>(thread, in, 0, result); });
}

void decodeReduction(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  int kind = parts.takeOne({"add", "min", "max", "and", "or", "xor"});
  Type type = parts.takeType();
  bool isKnown = kind >= static_cast<int>(And)
                     ? type == Type::B32
                     : type == Type::U32 || type == Type::S32;
  if (kind < 0 || !isKnown)
    throw std::runtime_error("redux.sync must be .add, .min or .max of .u32 "
                             "or .s32, or .and, .or or .xor of .b32");
  parts.finish();
  checkOperands(parsed, result,
                {{Expected::Out, 32}, {Expected::In, 32}, {Expected::In, 32}});
  setMask(result);
  result.detail = kind;
  result.executeByWarp =
      type == Type::S32 && kind != Add ? reduce<int32_t> : reduce<uint32_t>;
}

/// Waits for the other lanes, which executeByWarp does for every instruction.
void synchronizeLanes(Warp &, uint32_t, const Instruction &) {}

void decodeWarpBarrier(const ParsedInstruction &parsed, Instruction &result) {
  Parts(parsed, 3).finish();
  checkOperands(parsed, result, {{Expected::In, 32}});
  setMask(result);
  result.executeByWarp = synchronizeLanes;
}

/// Lanes run one by one, so each sees only itself as active.
Outcome getActiveMask(Thread &thread, const Instruction &in) {
  thread.set(in.operands[0], uint64_t(1) << thread.getLane());
  return Outcome::Next;
}

void decodeActiveMask(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  (void)parts.take("b32");
  parts.finish();
  checkOperands(parsed, result, {{Expected::Out, 32}});
  result.execute = getActiveMask;
}

//===----------------------------------------------------------------------===//
// Launches and registers
//===----------------------------------------------------------------------===//

Outcome launchDependents(Thread &thread, const Instruction &) {
  Block &block = *thread.block;
  if (!block.hasTriggered) {
    block.hasTriggered = true;
    ++block.grid->numTriggered;
    thread.getMachine().change();
  }
  return Outcome::Next;
}

bool hasLaunchBeforeEnded(const Thread &thread) {
  return !thread.block->grid->before;
}

std::string describeLaunchBefore(const Thread &thread) {
  return "the launch of " + thread.block->grid->before->program->header.name +
         " to end";
}

Outcome waitForLaunch(Thread &thread, const Instruction &) {
  const Grid &grid = *thread.block->grid;
  if (grid.before)
    thread.blockReason = {hasLaunchBeforeEnded, 0, 0, describeLaunchBefore,
                          grid.precedingClock.get()};
  else if (grid.precedingClock)
    Races::await(*thread.warp, *grid.precedingClock);
  return Outcome::Poll;
}

void decodeDependents(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  int which = parts.takeOne({"wait", "launch_dependents"});
  if (which < 0)
    throw std::runtime_error(
        "griddepcontrol must be .wait or .launch_dependents");
  parts.finish();
  checkOperands(parsed, result, {});
  result.execute = which == 0 ? waitForLaunch : launchDependents;
}

/// setmaxnreg. The emulator does not limit registers.
void decodeRegisters(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  bool isWhole = parts.takeOne({"inc", "dec"}) >= 0 && parts.take("sync") &&
                 parts.take("aligned") && parts.take("u32");
  if (!isWhole)
    throw std::runtime_error(
        "setmaxnreg must be .inc or .dec, and .sync.aligned.u32");
  parts.finish();
  checkOperands(parsed, result, {{Expected::Constant, 32}});
  uint64_t count = result.operands[0].bits;
  if (count < 24 || count > 256 || count % 8 != 0)
    throw std::runtime_error("setmaxnreg of " + std::to_string(count) +
                             " registers, expected a multiple of 8 from 24 to "
                             "256");
  result.executeByWarp = synchronizeLanes;
}

} // namespace

const Opcode fuse::emulator::kControl[] = {{"bra", decodeBranch},
                                           {"brx.idx", decodeBranchIndexed},
                                           {"ret", decodeEnd},
                                           {"exit", decodeEnd},
                                           {"trap", decodeTrap},
                                           {"nanosleep", decodeSleep},
                                           {"shfl.sync", decodeShuffle},
                                           {"vote.sync", decodeVote},
                                           {"match", decodeMatch},
                                           {"elect.sync", decodeElect},
                                           {"redux.sync", decodeReduction},
                                           {"bar.warp.sync", decodeWarpBarrier},
                                           {"activemask", decodeActiveMask},
                                           {"griddepcontrol", decodeDependents},
                                           {"setmaxnreg", decodeRegisters},
                                           {nullptr, nullptr}};
