//===- Mma.cpp - Matrix products of one warp ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PTX ISA 9.0, section 9.7.14: mma, ldmatrix and stmatrix. No kernel of fuse
// uses mma, so its sums are not truncated as on an H100: they are rounded once.
//
//===----------------------------------------------------------------------===//

#include "instructions/LoadStore.h"
#include "instructions/MatrixFragments.h"
#include "machine/SharedMemory.h"

#include <algorithm>
#include <cstring>

using namespace fuse;
using namespace fuse::emulator;

static void checkWarp(uint32_t lanes) {
  if (lanes != ~uint32_t(0))
    throw Fault(Fault::IllegalInstruction,
                "it requires a warp with all of its threads");
}

/// `mma.sync`. Operands: accumulators, a, b, previous accumulators.
static void executeMma(Warp &warp, uint32_t lanes,
                       const Instruction &instruction) {
  checkWarp(lanes);
  ProductForm form = getForm(instruction);
  const Value *registers = instruction.operands.data();
  const Value *a = registers + form.getAccumulatorRegisters(), *b = a + 4,
              *before = b + 2;
  std::vector<double> accumulators = readAccumulators(warp, form, before);
  std::vector<double> rows =
      decodeRows(readFragments(warp, a, 2), form.a, kWarpRows, false);
  auto columns = decodeColumns(readFragments(warp, b, 1), form.b,
                               form.getColumns(), false, /*key=*/0);
  multiply(rows.data(), columns->data(), kWarpRows, form.getColumns(),
           getDepth(form.a), form.sum, form.isSaturated, accumulators.data());
  writeAccumulators(warp, form, registers, accumulators);
}

/// Instruction::detail of ldmatrix and stmatrix: flags, the space from
/// kSpaceShift on, and the number of matrices from kCountShift on.
enum : uint64_t { kIsStore = 1, kIsTransposed = 2, kSpaceShift = 2 };
static constexpr unsigned kCountShift = 4;

/// ldmatrix and stmatrix. A matrix has eight rows of eight halves. Lane 8 * i +
/// r holds the address of row r of matrix i. A register holds two adjacent
/// halves of a row, or of a column if the matrix is transposed.
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
      SharedAddress at = getSharedAddress(
          thread, static_cast<StateSpace>(detail >> kSpaceShift & 3),
          address[0], address[1]);
      rows[row] = accessShared(*at.block, at.offset, kChunkBytes, kChunkBytes,
                               isStore ? Access::Write : Access::Read);
      if (isStore)
        races.write(thread, MemoryAddress(*at.block, at.offset), kChunkBytes);
      else
        races.read(thread, MemoryAddress(*at.block, at.offset), kChunkBytes);
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

/// `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 d, a, b, c`
static void decodeMma(const ParsedInstruction &parsed, Instruction &result) {
  std::vector<std::string> parts(parsed.opcode.begin() + 1,
                                 parsed.opcode.end());
  ProductForm form = {};
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
  form.sum = parseAccumulatorType(parts[5]);
  form.a = parseElement(parts[6]);
  form.b = parseElement(parts[7]);
  checkTypes(form, "mma");
  if (parts[2] != "m16n8k" + std::to_string(getDepth(form.a)))
    throw std::runtime_error("the emulator does not know mma of " + parts[2] +
                             " for these types");
  Expected accumulators = {Expected::Vector, 32,
                           form.getAccumulatorRegisters()};
  checkOperands(parsed, result,
                {accumulators,
                 {Expected::Vector, 32, 4},
                 {Expected::Vector, 32, 2},
                 accumulators});
  std::memcpy(&result.detail, &form, sizeof(form));
  result.executeByWarp = executeMma;
}

/// `ldmatrix.sync.aligned.m8n8.x4.shared.b16 {registers}, [address]`. The
/// operands of stmatrix are in the other order.
static void decodeMatrix(const ParsedInstruction &parsed, Instruction &result) {
  Parts parts(parsed);
  for (const char *part : {"sync", "aligned", "m8n8", "b16"})
    (void)parts.take(part);
  unsigned count = 1U << std::max(0, parts.takeOne({"x1", "x2", "x4"}));
  bool isTransposed = parts.take("trans");
  StateSpace space = takeCtaSpace(parts);
  parts.finish();
  // Each matrix is in one register of each lane.
  std::vector<Expected> expected = {{Expected::Vector, 32, count},
                                    {Expected::Address}};
  bool isStore = parsed.opcode[0] == "stmatrix";
  if (isStore)
    std::swap(expected[0], expected[1]);
  checkOperands(parsed, result, expected);
  result.detail = uint64_t(count) << kCountShift |
                  static_cast<uint64_t>(space) << kSpaceShift |
                  (isTransposed ? kIsTransposed : 0) | (isStore ? kIsStore : 0);
  result.executeByWarp = executeMatrix;
}

const Opcode emulator::kMma[] = {{"mma", decodeMma},
                                 {"ldmatrix", decodeMatrix},
                                 {"stmatrix", decodeMatrix},
                                 {nullptr, nullptr}};
