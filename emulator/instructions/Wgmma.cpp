//===- Wgmma.cpp - Matrix products of a warpgroup -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, section 9.7.15. Each warp computes its 16 of 64 rows when it
// issues a product. Any time would do: operands may not change until the wait
// that retires the group. The accumulator registers get their values at this
// wait.
//
// Sums are truncated as on an H100 (see MatrixFragments.h).
//
//===----------------------------------------------------------------------===//

#include "instructions/DecoderSupport.h"
#include "instructions/MatrixFragments.h"
#include "machine/SharedMemory.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <unordered_set>

using namespace fuse;
using namespace fuse::emulator;

namespace {

/// Warps in a warpgroup.
constexpr unsigned kGroupWarps = 4;
/// Content of pending accumulator registers. It is NaN, so that a missing wait
/// is visible.
constexpr uint64_t kPendingAccumulator = 0x7fffffff;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Pending accumulators, [row][column]. Later products with the same registers
/// continue with these values.
struct Accumulators {
  ProductForm form;
  /// The instruction whose accumulators these are.
  const Instruction *instruction;
  /// Number of pending products with these accumulators.
  unsigned numPending = 0;
  std::vector<double> values;
};

struct PendingProduct {
  std::shared_ptr<Accumulators> accumulators;
  /// Number of groups that were committed before this product.
  uint64_t group;
};

/// Pending operand reads of a product.
struct PendingReads {
  uint64_t id;
  uint64_t group;
};

/// The state of a warp, Warp::wgmma.
struct WgmmaState {
  /// The time of the commit of each group (Races::commit).
  std::vector<uint32_t> groups;
  std::deque<PendingProduct> pending;
  std::deque<PendingReads> reads;
  /// Pending accumulators by register.
  std::unordered_map<uint32_t, std::shared_ptr<Accumulators>> owners;
  /// Instructions that checkFence has accepted.
  std::unordered_set<const Instruction *> fenced;
  bool hasFenced = false;
};

} // namespace

static WgmmaState &getState(Warp &warp) {
  if (!warp.wgmma)
    warp.wgmma = std::make_shared<WgmmaState>();
  return *static_cast<WgmmaState *>(warp.wgmma.get());
}

static void checkWholeWarp(const Warp &warp, uint32_t lanes) {
  size_t end = (warp.index / kGroupWarps + 1) * kGroupWarps;
  if (lanes != ~uint32_t(0) || end > warp.block->warps.size())
    throw Fault(Fault::IllegalInstruction,
                "wgmma requires four warps with all of their threads");
}

//===----------------------------------------------------------------------===//
// Accumulators
//===----------------------------------------------------------------------===//

static void markPending(Warp &warp, const Instruction &instruction,
                        unsigned count) {
  for (Thread *thread : warp.threads)
    for (unsigned number = 0; number < count; ++number)
      thread->set(instruction.operands[number], kPendingAccumulator);
}

/// Writes accumulators to their registers at the wait. Throws if a register was
/// written before.
static void retireAccumulators(Warp &warp, const Accumulators &accumulators) {
  const Value *registers = accumulators.instruction->operands.data();
  for (const Thread *thread : warp.threads)
    for (unsigned number = 0;
         number < accumulators.form.getAccumulatorRegisters(); ++number)
      if (thread->get(registers[number]) != kPendingAccumulator)
        throw Fault(Fault::LaunchFailed,
                    "register " + std::to_string(number) +
                        " of the accumulators of line " +
                        std::to_string(accumulators.instruction->line) +
                        " was written before the wait for them");
  writeAccumulators(warp, accumulators.form, registers, accumulators.values);
}

//===----------------------------------------------------------------------===//
// Fences
//===----------------------------------------------------------------------===//

/// Whether a register is among the first `count` operands.
static bool isAmong(const Value &value, const Instruction &instruction,
                    unsigned count) {
  auto end = instruction.operands.begin() + count;
  return value.isRegister && std::any_of(instruction.operands.begin(), end,
                                         [&](const Value &other) {
                                           return other.isRegister &&
                                                  other.index == value.index;
                                         });
}

static bool isFence(const Instruction &instruction);

/// Throws if an instruction between the last fence and a product writes one of
/// its registers. The search goes back to the last branch or fence. This finds
/// instructions that a compiler moved.
static void checkFence(const Warp &warp, WgmmaState &state,
                       const Instruction &instruction) {
  if (!state.hasFenced)
    throw Fault(Fault::LaunchFailed, "there is no wgmma.fence before it");
  if (!state.fenced.insert(&instruction).second)
    return;
  ProductForm form = getForm(instruction);
  unsigned count =
      form.getAccumulatorRegisters() + (form.isAInRegisters ? 4 : 0);
  const Program &program = *warp.block->grid->program;
  for (const Instruction *other = &instruction;
       other-- != program.instructions.data();) {
    if (isFence(*other) || other->opcode.compare(0, 3, "bra") == 0 ||
        other->opcode == "ret" || other->opcode == "exit")
      return;
    if (other->executeByWarp == instruction.executeByWarp ||
        other->operands.empty() ||
        !isAmong(other->operands[0], instruction, count))
      continue;
    throw Fault(Fault::LaunchFailed,
                "line " + std::to_string(other->line) + " (" + other->opcode +
                    ") writes one of its registers without wgmma.fence in "
                    "between");
  }
}

/// Whether two instructions have the same accumulator registers.
static bool hasSameAccumulators(const Instruction &a, const Instruction &b) {
  ProductForm form = getForm(a), other = getForm(b);
  return form.sum == other.sum && form.columns8 == other.columns8 &&
         std::equal(a.operands.begin(),
                    a.operands.begin() + form.getAccumulatorRegisters(),
                    b.operands.begin(), [](const Value &x, const Value &y) {
                      return x.index == y.index;
                    });
}

/// The pending accumulators in the registers of an instruction, or new ones.
static std::shared_ptr<Accumulators>
findAccumulators(Warp &warp, WgmmaState &state, const Instruction &instruction,
                 bool isAdded) {
  ProductForm form = getForm(instruction);
  unsigned count = form.getAccumulatorRegisters();
  std::shared_ptr<Accumulators> accumulators;
  for (unsigned number = 0; number < count; ++number) {
    auto found = state.owners.find(instruction.operands[number].index);
    if (found == state.owners.end())
      continue;
    accumulators = found->second;
    // Hardware executes products with the same shape and registers in order.
    if (hasSameAccumulators(*accumulators->instruction, instruction))
      break;
    throw Fault(Fault::LaunchFailed,
                "some of its registers are pending accumulators of line " +
                    std::to_string(accumulators->instruction->line) +
                    ", whose shape differs");
  }
  if (!accumulators) {
    for (unsigned number = 0; number < count; ++number)
      if (state.owners.count(instruction.operands[number].index))
        throw Fault(Fault::LaunchFailed, "some of its registers are pending");
    accumulators = std::make_shared<Accumulators>();
    accumulators->form = form;
    accumulators->instruction = &instruction;
    if (isAdded)
      accumulators->values =
          readAccumulators(warp, form, instruction.operands.data());
    else
      accumulators->values.resize(kWarpRows * form.getColumns());
    markPending(warp, instruction, count);
    for (unsigned number = 0; number < count; ++number)
      state.owners[instruction.operands[number].index] = accumulators;
  } else if (!isAdded) {
    std::fill(accumulators->values.begin(), accumulators->values.end(), 0);
  }
  return accumulators;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

namespace {

/// The A operand of a warp.
struct Rows {
  std::vector<double> values;
  /// First row and number of rows of each poisonable range.
  std::vector<std::pair<unsigned, unsigned>> poisonableRows;
};

} // namespace

/// Loads the A operand from shared memory.
///
/// Kernels with fewer rows than a wgmma let it read arbitrary memory and
/// discard the results. A race on these rows is therefore not a fault, but
/// makes them NaN. The first eight rows of the warpgroup always count as used.
static Rows loadRows(Warp &warp, ProductForm form, const Descriptor &descriptor,
                     PendingAccess &reads) {
  constexpr unsigned groupRows = 8;
  Block &block = *warp.block;
  Thread &thread = *warp.threads[0];
  Races &races = block.machine->getRaces();
  std::vector<uint32_t> needed =
      descriptor.getChunks(0, groupRows, form.isATransposed);
  races.readChunks(thread, needed);
  reads.ranges = getRanges(needed);

  unsigned first = warp.index % kGroupWarps * kWarpRows;
  std::vector<uint32_t> chunks =
      descriptor.getChunks(first, kWarpRows, form.isATransposed);
  for (uint32_t chunk : chunks)
    checkShared(block, chunk, kChunkBytes, 1);
  Rows rows;
  unsigned depth = getDepth(form.a);
  rows.values =
      decodeRows(gather(block, chunks), form.a, kWarpRows, form.isATransposed);
  for (size_t i = 0; i < chunks.size(); ++i) {
    std::pair<unsigned, unsigned> range = {i / (kRowBytes / kChunkBytes), 1};
    if (form.isATransposed)
      range = {i % (kWarpRows / groupRows) * groupRows, groupRows};
    if (first + range.first < groupRows)
      continue;
    if (isBeingWritten(block, chunks[i]) ||
        !races.mayReadChunk(thread, chunks[i])) {
      std::fill_n(rows.values.begin() + range.first * depth,
                  range.second * depth, kNan);
      continue;
    }
    reads.poisonable.push_back({chunks[i], chunks[i] + kChunkBytes});
    rows.poisonableRows.push_back(range);
  }
  return rows;
}

static void executeMmaAsync(Warp &warp, uint32_t lanes,
                            const Instruction &instruction) {
  checkWholeWarp(warp, lanes);
  ProductForm form = getForm(instruction);
  Block &block = *warp.block;
  Thread &thread = *warp.threads[0];
  WgmmaState &state = getState(warp);
  checkFence(warp, state, instruction);
  unsigned columns = form.getColumns(), depth = getDepth(form.a);
  const Value *operand =
      instruction.operands.data() + form.getAccumulatorRegisters();

  PendingAccess reads = {{}, /*isWrite=*/false, &instruction};
  Rows rows;
  if (form.isAInRegisters) {
    rows.values =
        decodeRows(readFragments(warp, operand, 2), form.a, kWarpRows, false);
    operand += 4;
  } else {
    uint64_t bits = getUniform(warp, lanes, *operand++, "the descriptor of A");
    rows = loadRows(warp, form, Descriptor(bits), reads);
  }
  uint64_t bBits = getUniform(warp, lanes, *operand++, "the descriptor of B");
  bool isAdded = getUniform(warp, lanes, *operand, "scale-d") & 1;
  std::vector<uint32_t> chunks =
      Descriptor(bBits).getChunks(0, columns, form.isBTransposed);
  std::vector<SharedRange> bRanges = getRanges(chunks);
  reads.ranges.insert(reads.ranges.end(), bRanges.begin(), bRanges.end());
  block.machine->getRaces().readChunks(thread, chunks);
  PendingProduct product;
  product.accumulators = findAccumulators(warp, state, instruction, isAdded);
  if (!reads.poisonable.empty())
    reads.poison = [accumulators = product.accumulators,
                    ranges = std::move(rows.poisonableRows),
                    columns](size_t number) {
      std::fill_n(accumulators->values.begin() + ranges[number].first * columns,
                  ranges[number].second * columns, kNan);
    };
  uint64_t group = state.groups.size();
  state.reads.push_back({beginPendingAccess(block, std::move(reads)), group});

  if (form.isANegated != form.isBNegated)
    for (double &value : rows.values)
      value = -value;
  auto b = decodeColumns(gather(block, chunks), form.b, columns,
                         form.isBTransposed, bBits);
  double *values = product.accumulators->values.data();
  if (auto alignment = getAlignment(form.a, form.b, form.sum))
    multiplyAligned(rows.values.data(), b->data(), kWarpRows, columns, depth,
                    *alignment, values);
  else
    multiply(rows.values.data(), b->data(), kWarpRows, columns, depth, form.sum,
             form.isSaturated, values);
  ++product.accumulators->numPending;
  product.group = group;
  state.pending.push_back(std::move(product));
}

static void executeFence(Warp &warp, uint32_t lanes, const Instruction &) {
  checkWholeWarp(warp, lanes);
  getState(warp).hasFenced = true;
}

static bool isFence(const Instruction &instruction) {
  return instruction.executeByWarp == executeFence;
}

static void executeCommit(Warp &warp, uint32_t lanes, const Instruction &) {
  checkWholeWarp(warp, lanes);
  getState(warp).groups.push_back(warp.block->machine->getRaces().commit(warp));
  warp.block->machine->change();
}

/// Retires groups of the warpgroup. When a group is complete for one of the
/// four warps, its operands are no longer read. Accumulators are written at the
/// wait of each warp.
static bool retireGroups(Warp &warp, uint64_t numGroups) {
  unsigned first = warp.index / kGroupWarps * kGroupWarps;
  auto get = [&](unsigned i) -> Warp & { return warp.block->warps[first + i]; };
  for (unsigned i = 0; i < kGroupWarps; ++i)
    if (getState(get(i)).groups.size() < numGroups)
      return false;
  for (unsigned i = 0; i < kGroupWarps; ++i) {
    WgmmaState &state = getState(get(i));
    for (; !state.reads.empty() && state.reads.front().group < numGroups;
         state.reads.pop_front())
      endPendingAccess(*warp.block, state.reads.front().id);
    if (numGroups != 0)
      Races::await(warp, get(i), state.groups[numGroups - 1]);
  }
  return true;
}

static void executeWait(Warp &warp, uint32_t lanes,
                        const Instruction &instruction) {
  checkWholeWarp(warp, lanes);
  WgmmaState &state = getState(warp);
  uint64_t count = instruction.operands[0].bits;
  uint64_t numGroups = state.groups.size();
  numGroups -= std::min(numGroups, count);
  if (!retireGroups(warp, numGroups)) {
    warp.blockedOn = "other warps of its group";
    return;
  }
  while (!state.pending.empty() && state.pending.front().group < numGroups) {
    std::shared_ptr<Accumulators> product =
        std::move(state.pending.front().accumulators);
    state.pending.pop_front();
    Accumulators &accumulators = *product;
    if (--accumulators.numPending != 0)
      continue;
    for (unsigned number = 0;
         number < accumulators.form.getAccumulatorRegisters(); ++number)
      state.owners.erase(accumulators.instruction->operands[number].index);
    retireAccumulators(warp, accumulators);
  }
}

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

/// Parses and removes a letter and the number after it, or returns zero.
static unsigned parseSize(std::string_view &name, char before) {
  unsigned size = 0;
  if (name.empty() || name[0] != before)
    return 0;
  for (name.remove_prefix(1); !name.empty() && std::isdigit(name[0]);
       name.remove_prefix(1))
    size = std::min(size * 10 + static_cast<unsigned>(name[0] - '0'), 1000U);
  return size;
}

static bool isNegative(const Operand &operand) {
  auto value = static_cast<int32_t>(operand.value);
  if (operand.kind != Operand::Kind::Immediate || (value != 1 && value != -1))
    throw std::runtime_error("a scale of A or B must be 1 or -1");
  return value < 0;
}

static bool isTransposed(const Operand &operand) {
  if (operand.kind != Operand::Kind::Immediate || operand.value > 1)
    throw std::runtime_error("the transposition of A or B must be 0 or 1");
  return operand.value == 1;
}

/// `wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 d, a, b, scale-d,
/// imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b`
static void decodeMmaAsync(const ParsedInstruction &parsed,
                           Instruction &result) {
  std::vector<std::string> parts(parsed.opcode.begin() + 2,
                                 parsed.opcode.end());
  ProductForm form = {};
  auto saturated = std::find(parts.begin(), parts.end(), "satfinite");
  if (saturated != parts.end()) {
    form.isSaturated = true;
    parts.erase(saturated);
  }
  constexpr size_t numParts = 6;
  if (parts.size() != numParts || parts[0] != "sync" || parts[1] != "aligned")
    throw std::runtime_error(
        "the emulator does not know this form of wgmma.mma_async");
  form.sum = parseAccumulatorType(parts[3]);
  form.a = parseElement(parts[4]);
  form.b = parseElement(parts[5]);
  checkTypes(form, "wgmma");
  std::string_view shape = parts[2];
  unsigned rows = parseSize(shape, 'm'), columns = parseSize(shape, 'n'),
           depth = parseSize(shape, 'k');
  constexpr unsigned mostColumns = 256, integerStep = 16, smallColumns = 24;
  bool isInteger = form.sum == AccumulatorType::S32;
  if (rows != kWarpRows * kGroupWarps || columns == 0 || columns % 8 != 0 ||
      columns > mostColumns || depth != getDepth(form.a) || !shape.empty() ||
      (isInteger && columns > smallColumns && columns % integerStep != 0))
    throw std::runtime_error("there is no wgmma of " + parts[2] +
                             " for these types");
  form.columns8 = static_cast<uint8_t>(columns / 8);

  const std::vector<Operand> &operands = parsed.operands;
  bool isHalf = getBytes(form.a) == 2;
  form.isAInRegisters =
      operands.size() > 1 && operands[1].kind == Operand::Kind::Vector;
  size_t numTransposed = isHalf ? (form.isAInRegisters ? 1 : 2) : 0;
  size_t numConstants = (isInteger ? 0 : 2) + numTransposed;
  std::vector<Expected> expected = {
      {Expected::Vector, 32, form.getAccumulatorRegisters()},
      {Expected::In, 64},
      {Expected::In, 64},
      {Expected::In, 1}};
  if (form.isAInRegisters)
    expected[1] = {Expected::Vector, 32, 4};
  expected.insert(expected.end(), numConstants, {Expected::Constant});
  checkOperands(parsed, result, expected);
  if (!isInteger) {
    form.isANegated = isNegative(operands[4]);
    form.isBNegated = isNegative(operands[5]);
  }
  if (numTransposed == 2)
    form.isATransposed = isTransposed(operands[6]);
  if (numTransposed != 0)
    form.isBTransposed = isTransposed(operands.back());
  std::memcpy(&result.detail, &form, sizeof(form));
  result.executeByWarp = executeMmaAsync;
}

template <ExecuteByWarp execute, unsigned numOperands>
static void decodeOrder(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  (void)parts.take("sync");
  (void)parts.take("aligned");
  parts.finish();
  checkOperands(parsed, result,
                std::vector<Expected>(numOperands, {Expected::Constant, 32}));
  result.executeByWarp = execute;
}

const Opcode emulator::kWgmma[] = {
    {"wgmma.mma_async", decodeMmaAsync},
    {"wgmma.fence", decodeOrder<executeFence, 0>},
    {"wgmma.commit_group", decodeOrder<executeCommit, 0>},
    {"wgmma.wait_group", decodeOrder<executeWait, 1>},
    {nullptr, nullptr}};
