//===- Wgmma.cpp - Products of matrices -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mma and its matrices, and wgmma, PTX ISA 9.0, sections 9.7.14 and 9.7.15. A
// warp computes its own 16 of 64 rows when it begins a product, which is as
// good as any time: what it reads may not change until the wait that retires
// its group. Registers get their sums there.
//
// Sums of wgmma have the digits that an H100 keeps; those of mma, which no
// kernel here has, are rounded once.
//
//===----------------------------------------------------------------------===//

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

/// Of a group that executes wgmma.
constexpr unsigned kGroupWarps = 4;
/// Rows of a warp, of those that it computes.
constexpr unsigned kRows = 16;
/// In registers whose sums are under way: NaN, so that a missing wait shows.
constexpr uint64_t kUnderWay = 0x7fffffff;
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// What the decoder knows, in Instruction::detail.
struct Form {
  uint8_t columns8;
  Element a : 4, b : 4;
  Sum sum : 4;
  bool isAInRegisters : 1, isANegated : 1, isBNegated : 1, isATransposed : 1,
      isBTransposed : 1, isSaturated : 1;

  unsigned getColumns() const { return columns8 * 8U; }
  /// Registers of the sums of a thread.
  unsigned getSumRegisters() const {
    return getColumns() / (sum == Sum::F16 ? 4 : 2);
  }
};
static_assert(sizeof(Form) <= sizeof(Instruction::detail));

/// Sums under way, [row][column]. Instructions on the same registers go on with
/// them.
struct Sums {
  Form form;
  /// Whose first operands they are.
  const Instruction *instruction;
  /// Products that have not been waited for.
  unsigned numPending = 0;
  std::vector<double> values;
};

struct Product {
  std::shared_ptr<Sums> sums;
  /// How many groups were committed before it.
  uint64_t group;
};

/// Its reads that are under way.
struct Reads {
  uint64_t id;
  uint64_t group;
};

/// Warp::products.
struct Products {
  /// By the number of a group, when it was committed.
  std::vector<uint32_t> groups;
  std::deque<Product> pending;
  std::deque<Reads> reads;
  /// The sums under way in registers.
  std::unordered_map<uint32_t, std::shared_ptr<Sums>> owners;
  /// Instructions that have been found to have a fence before.
  std::unordered_set<const Instruction *> fenced;
  bool hasFenced = false;
};

} // namespace

static Form getForm(const Instruction &instruction) {
  Form form;
  std::memcpy(&form, &instruction.detail, sizeof(form));
  return form;
}

static Products &getProducts(Warp &warp) {
  if (!warp.products)
    warp.products = std::make_shared<Products>();
  return *static_cast<Products *>(warp.products.get());
}

static void checkWholeWarp(const Warp &warp, uint32_t lanes) {
  size_t end = (warp.index / kGroupWarps + 1) * kGroupWarps;
  if (lanes != ~uint32_t(0) || end > warp.block->warps.size())
    throw Fault(Fault::IllegalInstruction,
                "wgmma is for four warps with all of their threads");
}

//===----------------------------------------------------------------------===//
// Registers
//===----------------------------------------------------------------------===//

/// Calls `function` with the number of each register of the sums of a lane, and
/// with the row and the column of what is in it; of two halves, of the lower.
template <typename Function>
static void forEachSum(unsigned lane, Form form, Function function) {
  constexpr unsigned perRow = 4, groupRows = 8;
  unsigned row = lane / perRow, column = lane % perRow * 2;
  unsigned perPart = form.sum == Sum::F16 ? 1 : 2;
  for (unsigned number = 0; number < form.getSumRegisters(); ++number)
    function(number, row + number / perPart % 2 * groupRows,
             number / perPart / 2 * 8 + column + number % perPart);
}

/// Sums of a warp in registers, as numbers.
static std::vector<double> readSums(const Warp &warp, Form form,
                                    const Value *places) {
  unsigned columns = form.getColumns();
  std::vector<double> values(kRows * columns);
  for (unsigned lane = 0; lane < kWarpSize; ++lane)
    forEachSum(lane, form, [&](unsigned number, unsigned row, unsigned column) {
      auto bits =
          static_cast<uint32_t>(warp.threads[lane]->get(places[number]));
      double *value = &values[row * columns + column];
      value[0] = decodeSum(bits, form.sum);
      if (form.sum == Sum::F16)
        value[1] = decodeSum(bits >> 16, Sum::F16);
    });
  return values;
}

static void writeSums(Warp &warp, Form form, const Value *places,
                      const std::vector<double> &values) {
  unsigned columns = form.getColumns();
  for (unsigned lane = 0; lane < kWarpSize; ++lane)
    forEachSum(lane, form, [&](unsigned number, unsigned row, unsigned column) {
      const double *value = &values[row * columns + column];
      uint32_t bits = encodeSum(value[0], form.sum);
      if (form.sum == Sum::F16)
        bits |= encodeSum(value[1], Sum::F16) << 16;
      warp.threads[lane]->set(places[number], bits);
    });
}

static void markSums(Warp &warp, const Instruction &instruction,
                     unsigned count) {
  for (Thread *thread : warp.threads)
    for (unsigned number = 0; number < count; ++number)
      thread->set(instruction.operands[number], kUnderWay);
}

/// At the wait; finds what was written to registers before.
static void endSums(Warp &warp, const Sums &sums) {
  const Value *places = sums.instruction->operands.data();
  for (const Thread *thread : warp.threads)
    for (unsigned number = 0; number < sums.form.getSumRegisters(); ++number)
      if (thread->get(places[number]) != kUnderWay)
        throw Fault(Fault::LaunchFailed,
                    "register " + std::to_string(number) +
                        " of the sums of line " +
                        std::to_string(sums.instruction->line) +
                        " was written before the wait for them");
  writeSums(warp, sums.form, places, sums.values);
}

/// An operand in registers, as its rows would be in shared memory: each has
/// four times four bytes of each half of K. There are groups of eight rows.
static std::vector<uint8_t> readRows(const Warp &warp, const Value *operands,
                                     unsigned numGroups) {
  constexpr unsigned perRow = 4, groupRows = 8, bytes = 4;
  std::vector<uint8_t> rows(numGroups * groupRows * kRowBytes);
  for (unsigned lane = 0; lane < kWarpSize; ++lane)
    for (unsigned number = 0; number < 2 * numGroups; ++number) {
      auto value =
          static_cast<uint32_t>(warp.threads[lane]->get(operands[number]));
      unsigned row = lane / perRow + number % numGroups * groupRows;
      std::memcpy(&rows[row * kRowBytes + number / numGroups * (kRowBytes / 2) +
                        lane % perRow * bytes],
                  &value, bytes);
    }
  return rows;
}

//===----------------------------------------------------------------------===//
// Order
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

/// Throws where an instruction between the last fence and a product writes one
/// of its registers. It looks back as far as the program has no branches, where
/// what compilers move is.
static void checkFence(const Warp &warp, Products &products,
                       const Instruction &instruction) {
  if (!products.hasFenced)
    throw Fault(Fault::LaunchFailed, "there is no wgmma.fence before it");
  if (!products.fenced.insert(&instruction).second)
    return;
  Form form = getForm(instruction);
  unsigned count = form.getSumRegisters() + (form.isAInRegisters ? 4 : 0);
  const Program &program = *warp.block->grid->program;
  for (const Instruction *other = &instruction;
       other-- != program.instructions.data();) {
    if (isFence(*other) || other->opcode.compare(0, 3, "bra") == 0 ||
        other->opcode == "ret" || other->opcode == "exit")
      return;
    if (other->together == instruction.together || other->operands.empty() ||
        !isAmong(other->operands[0], instruction, count))
      continue;
    throw Fault(Fault::LaunchFailed,
                "line " + std::to_string(other->line) + " (" + other->opcode +
                    ") writes one of its registers without wgmma.fence in "
                    "between");
  }
}

/// Whether two instructions have all registers of their sums in common.
static bool hasSameSums(const Instruction &a, const Instruction &b) {
  Form form = getForm(a), other = getForm(b);
  return form.sum == other.sum && form.columns8 == other.columns8 &&
         std::equal(
             a.operands.begin(), a.operands.begin() + form.getSumRegisters(),
             b.operands.begin(),
             [](const Value &x, const Value &y) { return x.index == y.index; });
}

/// Those under way in the registers of an instruction, or new ones.
static std::shared_ptr<Sums> findSums(Warp &warp, Products &products,
                                      const Instruction &instruction,
                                      bool isAdded) {
  Form form = getForm(instruction);
  unsigned count = form.getSumRegisters();
  std::shared_ptr<Sums> sums;
  for (unsigned number = 0; number < count; ++number) {
    auto found = products.owners.find(instruction.operands[number].index);
    if (found == products.owners.end())
      continue;
    sums = found->second;
    // Hardware has those of the same shape in order.
    if (hasSameSums(*sums->instruction, instruction))
      break;
    throw Fault(Fault::LaunchFailed,
                "some of its registers are under way in other sums, those of "
                "line " +
                    std::to_string(sums->instruction->line));
  }
  if (!sums) {
    for (unsigned number = 0; number < count; ++number)
      if (products.owners.count(instruction.operands[number].index))
        throw Fault(Fault::LaunchFailed, "some of its registers are under way");
    sums = std::make_shared<Sums>();
    sums->form = form;
    sums->instruction = &instruction;
    if (isAdded)
      sums->values = readSums(warp, form, instruction.operands.data());
    else
      sums->values.resize(kRows * form.getColumns());
    markSums(warp, instruction, count);
    for (unsigned number = 0; number < count; ++number)
      products.owners[instruction.operands[number].index] = sums;
  } else if (!isAdded) {
    std::fill(sums->values.begin(), sums->values.end(), 0);
  }
  return sums;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

namespace {

/// The first operand of a warp.
struct Rows {
  std::vector<double> values;
  /// The first row and the number of rows of what may be spoiled.
  std::vector<std::pair<unsigned, unsigned>> places;
};

} // namespace

/// Kernels with fewer rows than a product has let it read others, of whatever
/// is there, and discard the result. So it is not a fault if these are in no
/// order with who writes them, but then what they contain is not a number. The
/// first eight rows of all warps are never such rows.
static Rows loadRows(Warp &warp, Form form, const Descriptor &descriptor,
                     UnderWay &reads) {
  constexpr unsigned groupRows = 8;
  Block &block = *warp.block;
  Thread &thread = *warp.threads[0];
  Races &races = block.machine->getRaces();
  std::vector<uint32_t> needed =
      descriptor.getChunks(0, groupRows, form.isATransposed);
  races.readChunks(thread, needed);
  reads.ranges = getRanges(needed);

  unsigned first = warp.index % kGroupWarps * kRows;
  std::vector<uint32_t> chunks =
      descriptor.getChunks(first, kRows, form.isATransposed);
  for (uint32_t chunk : chunks)
    checkShared(block, chunk, kChunkBytes, 1);
  Rows rows;
  unsigned depth = getDepth(form.a);
  rows.values =
      decodeRows(gather(block, chunks), form.a, kRows, form.isATransposed);
  for (size_t i = 0; i < chunks.size(); ++i) {
    std::pair<unsigned, unsigned> place = {i / (kRowBytes / kChunkBytes), 1};
    if (form.isATransposed)
      place = {i % (kRows / groupRows) * groupRows, groupRows};
    if (first + place.first < groupRows)
      continue;
    if (isBeingWritten(block, chunks[i]) ||
        !races.mayReadChunk(thread, chunks[i])) {
      std::fill_n(rows.values.begin() + place.first * depth,
                  place.second * depth, kNoNumber);
      continue;
    }
    reads.spoilable.push_back({chunks[i], chunks[i] + kChunkBytes});
    rows.places.push_back(place);
  }
  return rows;
}

static void executeProduct(Warp &warp, uint32_t lanes,
                           const Instruction &instruction) {
  checkWholeWarp(warp, lanes);
  Form form = getForm(instruction);
  Block &block = *warp.block;
  Thread &thread = *warp.threads[0];
  Products &products = getProducts(warp);
  checkFence(warp, products, instruction);
  unsigned columns = form.getColumns(), depth = getDepth(form.a);
  const Value *operand = instruction.operands.data() + form.getSumRegisters();

  UnderWay reads = {{}, /*isWrite=*/false, &instruction};
  Rows rows;
  if (form.isAInRegisters) {
    rows.values = decodeRows(readRows(warp, operand, 2), form.a, kRows, false);
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
  Product product;
  product.sums = findSums(warp, products, instruction, isAdded);
  if (!reads.spoilable.empty())
    reads.spoil = [sums = product.sums, places = std::move(rows.places),
                   columns](size_t number) {
      std::fill_n(sums->values.begin() + places[number].first * columns,
                  places[number].second * columns, kNoNumber);
    };
  uint64_t group = products.groups.size();
  products.reads.push_back({beginUnderWay(block, std::move(reads)), group});

  if (form.isANegated != form.isBNegated)
    for (double &value : rows.values)
      value = -value;
  auto b = decodeColumns(gather(block, chunks), form.b, columns,
                         form.isBTransposed, bBits);
  double *sums = product.sums->values.data();
  if (auto alignment = getAlignment(form.a, form.b, form.sum))
    multiplyAligned(rows.values.data(), b->data(), kRows, columns, depth,
                    *alignment, sums);
  else
    multiply(rows.values.data(), b->data(), kRows, columns, depth, form.sum,
             form.isSaturated, sums);
  ++product.sums->numPending;
  product.group = group;
  products.pending.push_back(std::move(product));
}

static void executeFence(Warp &warp, uint32_t lanes, const Instruction &) {
  checkWholeWarp(warp, lanes);
  getProducts(warp).hasFenced = true;
}

static bool isFence(const Instruction &instruction) {
  return instruction.together == executeFence;
}

static void executeCommit(Warp &warp, uint32_t lanes, const Instruction &) {
  checkWholeWarp(warp, lanes);
  getProducts(warp).groups.push_back(
      warp.block->machine->getRaces().commit(warp));
  warp.block->machine->change();
}

/// Four warps compute products together: when these have ended for one of them,
/// their operands are no longer read. Sums are in registers at the own wait.
static bool endTogether(Warp &warp, uint64_t numGroups) {
  unsigned first = warp.index / kGroupWarps * kGroupWarps;
  auto get = [&](unsigned i) -> Warp & { return warp.block->warps[first + i]; };
  for (unsigned i = 0; i < kGroupWarps; ++i)
    if (getProducts(get(i)).groups.size() < numGroups)
      return false;
  for (unsigned i = 0; i < kGroupWarps; ++i) {
    Products &products = getProducts(get(i));
    for (; !products.reads.empty() && products.reads.front().group < numGroups;
         products.reads.pop_front())
      endUnderWay(*warp.block, products.reads.front().id);
    if (numGroups != 0)
      Races::await(warp, get(i), products.groups[numGroups - 1]);
  }
  return true;
}

static void executeWait(Warp &warp, uint32_t lanes,
                        const Instruction &instruction) {
  checkWholeWarp(warp, lanes);
  Products &products = getProducts(warp);
  uint64_t count = instruction.operands[0].bits;
  uint64_t numGroups = products.groups.size();
  numGroups -= std::min(numGroups, count);
  if (!endTogether(warp, numGroups)) {
    warp.blocked = "other warps of its group";
    return;
  }
  while (!products.pending.empty() &&
         products.pending.front().group < numGroups) {
    std::shared_ptr<Sums> product = std::move(products.pending.front().sums);
    products.pending.pop_front();
    Sums &sums = *product;
    if (--sums.numPending != 0)
      continue;
    for (unsigned number = 0; number < sums.form.getSumRegisters(); ++number)
      products.owners.erase(sums.instruction->operands[number].index);
    endSums(warp, sums);
  }
}

//===----------------------------------------------------------------------===//
// Products of one warp
//===----------------------------------------------------------------------===//

static void checkWarp(uint32_t lanes) {
  if (lanes != ~uint32_t(0))
    throw Fault(Fault::IllegalInstruction,
                "it is for warps with all of their threads");
}

/// `mma.sync`: sums, a, b, sums before.
static void executeMma(Warp &warp, uint32_t lanes,
                       const Instruction &instruction) {
  checkWarp(lanes);
  Form form = getForm(instruction);
  const Value *places = instruction.operands.data();
  const Value *a = places + form.getSumRegisters(), *b = a + 4, *before = b + 2;
  std::vector<double> sums = readSums(warp, form, before);
  std::vector<double> rows =
      decodeRows(readRows(warp, a, 2), form.a, kRows, false);
  auto columns = decodeColumns(readRows(warp, b, 1), form.b, form.getColumns(),
                               false, /*key=*/0);
  multiply(rows.data(), columns->data(), kRows, form.getColumns(),
           getDepth(form.a), form.sum, form.isSaturated, sums.data());
  writeSums(warp, form, places, sums);
}

/// Instruction::detail of ldmatrix and stmatrix, below the number of matrices.
enum : uint64_t { kIsStore = 1, kIsTransposed = 2, kSpaceShift = 2 };
static constexpr unsigned kCountShift = 4;

/// Matrices of eight rows of eight halves, whose rows are where lanes say that
/// have the same number. A register has two neighbors of a row, or,
/// transposed, of a column.
static void executeMatrix(Warp &warp, uint32_t lanes,
                          const Instruction &instruction) {
  checkWarp(lanes);
  uint64_t detail = instruction.detail;
  bool isStore = detail & kIsStore;
  auto count = static_cast<unsigned>(detail >> kCountShift);
  const Value *registers = instruction.operands.data() + (isStore ? 2 : 0);
  const Value *address = instruction.operands.data() + (isStore ? 0 : count);
  constexpr unsigned size = 8;
  Races &races = warp.block->machine->getRaces();
  for (unsigned matrix = 0; matrix < count; ++matrix) {
    std::array<uint8_t *, size> rows;
    for (unsigned row = 0; row < size; ++row) {
      Thread &thread = *warp.threads[matrix * size + row];
      SharedPlace at =
          getPlace(thread, static_cast<StateSpace>(detail >> kSpaceShift & 3),
                   address[0], address[1]);
      rows[row] = accessShared(*at.block, at.offset, kChunkBytes, kChunkBytes,
                               isStore ? Access::Write : Access::Read);
      if (isStore)
        races.write(thread, Place(*at.block, at.offset), kChunkBytes);
      else
        races.read(thread, Place(*at.block, at.offset), kChunkBytes);
    }
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      Thread &thread = *warp.threads[lane];
      uint64_t bits = isStore ? thread.get(registers[matrix]) : 0;
      for (unsigned i = 0; i < 2; ++i) {
        unsigned row = lane / 4, column = lane % 4 * 2 + i;
        if (detail & kIsTransposed)
          std::swap(row, column);
        uint8_t *half = rows[row] + column * 2;
        uint16_t value = static_cast<uint16_t>(bits >> 16 * i);
        if (isStore)
          std::memcpy(half, &value, sizeof(value));
        else
          std::memcpy(&value, half, sizeof(value));
        if (!isStore)
          bits |= uint64_t(value) << 16 * i;
      }
      if (!isStore)
        thread.set(registers[matrix], bits);
    }
  }
  if (isStore)
    for (Thread *thread : warp.threads)
      ++thread->writes;
}

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

static Element parseElement(const std::string &name) {
  constexpr std::pair<const char *, Element> elements[] = {
      {"bf16", Element::BF16}, {"f16", Element::F16},   {"tf32", Element::TF32},
      {"e4m3", Element::E4M3}, {"e5m2", Element::E5M2}, {"s8", Element::S8},
      {"u8", Element::U8}};
  for (auto [other, element] : elements)
    if (name == other)
      return element;
  throw std::runtime_error("the emulator does not know products of " + name);
}

static Sum parseSum(const std::string &name) {
  if (name == "f32")
    return Sum::F32;
  if (name == "f16")
    return Sum::F16;
  if (name == "s32")
    return Sum::S32;
  throw std::runtime_error("the emulator does not know sums of " + name);
}

/// 0 for halves that are bfloats, and so on: operands of the same kind go with
/// each other.
static int getKind(Element element) {
  switch (element) {
  case Element::E5M2:
    return static_cast<int>(Element::E4M3);
  case Element::U8:
    return static_cast<int>(Element::S8);
  default:
    return static_cast<int>(element);
  }
}

static void checkTypes(Form form) {
  bool isInteger = getKind(form.a) == static_cast<int>(Element::S8);
  bool mayBeHalf = form.a == Element::F16 || getBytes(form.a) == 1;
  if (getKind(form.a) != getKind(form.b) ||
      isInteger != (form.sum == Sum::S32) ||
      (form.sum == Sum::F16 && !mayBeHalf) || (form.isSaturated && !isInteger))
    throw std::runtime_error("there is no wgmma of these types");
}

/// The number `name` has between `before` and `after`, or zero.
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
    throw std::runtime_error("a scale of A or B is 1 or -1");
  return value < 0;
}

static bool isTransposed(const Operand &operand) {
  if (operand.kind != Operand::Kind::Immediate || operand.value > 1)
    throw std::runtime_error("whether A or B is transposed is 0 or 1");
  return operand.value == 1;
}

/// `wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 sums, a, b, scale-d,
/// imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b`
static void decodeProduct(const ParsedInstruction &parsed,
                          Instruction &result) {
  std::vector<std::string> parts(parsed.opcode.begin() + 2,
                                 parsed.opcode.end());
  Form form = {};
  auto saturated = std::find(parts.begin(), parts.end(), "satfinite");
  if (saturated != parts.end()) {
    form.isSaturated = true;
    parts.erase(saturated);
  }
  constexpr size_t numParts = 6;
  if (parts.size() != numParts || parts[0] != "sync" || parts[1] != "aligned")
    throw std::runtime_error(
        "the emulator does not know this form of wgmma.mma_async");
  form.sum = parseSum(parts[3]);
  form.a = parseElement(parts[4]);
  form.b = parseElement(parts[5]);
  checkTypes(form);
  std::string_view shape = parts[2];
  unsigned rows = parseSize(shape, 'm'), columns = parseSize(shape, 'n'),
           depth = parseSize(shape, 'k');
  constexpr unsigned mostColumns = 256, integerStep = 16, smallColumns = 24;
  bool isInteger = form.sum == Sum::S32;
  if (rows != kRows * kGroupWarps || columns == 0 || columns % 8 != 0 ||
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
      {Expected::Vector, 32, form.getSumRegisters()},
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
  result.together = executeProduct;
}

/// `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 sums, a, b, before`
static void decodeMma(const ParsedInstruction &parsed, Instruction &result) {
  std::vector<std::string> parts(parsed.opcode.begin() + 1,
                                 parsed.opcode.end());
  Form form = {};
  auto saturated = std::find(parts.begin(), parts.end(), "satfinite");
  if (saturated != parts.end()) {
    form.isSaturated = true;
    parts.erase(saturated);
  }
  constexpr size_t numParts = 9;
  if (parts.size() != numParts || parts[0] != "sync" || parts[1] != "aligned" ||
      parts[3] != "row" || parts[4] != "col" || parts[5] != parts[8])
    throw std::runtime_error("the emulator does not know this form of mma");
  form.columns8 = 1;
  form.sum = parseSum(parts[5]);
  form.a = parseElement(parts[6]);
  form.b = parseElement(parts[7]);
  checkTypes(form);
  if (parts[2] != "m16n8k" + std::to_string(getDepth(form.a)))
    throw std::runtime_error("the emulator does not know mma of " + parts[2] +
                             " for these types");
  Expected sums = {Expected::Vector, 32, form.getSumRegisters()};
  checkOperands(
      parsed, result,
      {sums, {Expected::Vector, 32, 4}, {Expected::Vector, 32, 2}, sums});
  std::memcpy(&result.detail, &form, sizeof(form));
  result.together = executeMma;
}

/// `ldmatrix.sync.aligned.m8n8.x4.shared.b16 {registers}, [address]` and
/// stmatrix, whose operands are the other way round.
static void decodeMatrix(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  for (const char *part : {"sync", "aligned", "m8n8", "b16"})
    (void)parts.take(part);
  unsigned count = 1U << std::max(0, parts.takeOne({"x1", "x2", "x4"}));
  bool isTransposed = parts.take("trans");
  StateSpace space = takeOwnSpace(parts);
  parts.finish();
  // A register for each matrix.
  std::vector<Expected> expected = {{Expected::Vector, 32, count},
                                    {Expected::Address}};
  bool isStore = parsed.opcode[0] == "stmatrix";
  if (isStore)
    std::swap(expected[0], expected[1]);
  checkOperands(parsed, result, expected);
  result.detail = uint64_t(count) << kCountShift |
                  static_cast<uint64_t>(space) << kSpaceShift |
                  (isTransposed ? kIsTransposed : 0) | (isStore ? kIsStore : 0);
  result.together = executeMatrix;
}

template <ExecuteTogether execute, unsigned numOperands>
static void decodeOrder(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed, 2);
  (void)parts.take("sync");
  (void)parts.take("aligned");
  parts.finish();
  checkOperands(parsed, result,
                std::vector<Expected>(numOperands, {Expected::Constant, 32}));
  result.together = execute;
}

const Opcode emulator::kProducts[] = {
    {"mma", decodeMma},
    {"ldmatrix", decodeMatrix},
    {"stmatrix", decodeMatrix},
    {"wgmma.mma_async", decodeProduct},
    {"wgmma.fence", decodeOrder<executeFence, 0>},
    {"wgmma.commit_group", decodeOrder<executeCommit, 0>},
    {"wgmma.wait_group", decodeOrder<executeWait, 1>},
    {nullptr, nullptr}};
