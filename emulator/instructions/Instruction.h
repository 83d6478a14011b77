//===- Instruction.h - What instructions do ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decoders turn instructions as they are written into functions with operands
// that they find fast. Each group of opcodes has a table of its own.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_INSTRUCTIONS_INSTRUCTION_H
#define FUSE_EMULATOR_INSTRUCTIONS_INSTRUCTION_H

#include "ptx/Ptx.h"

#include <stdexcept>

namespace fuse::emulator {

struct Thread;
struct Warp;
struct Instruction;

/// What ends a launch, as on a device: nothing works after it. The text names
/// the kernel, the block, the thread and the line once the machine has it.
struct Fault : std::runtime_error {
  /// Codes of the driver: those of `CUresult`.
  enum Code : int {
    IllegalAddress = 700,
    Timeout = 702,
    IllegalInstruction = 715,
    Misaligned = 716,
    LaunchFailed = 719,
  };
  Fault(Code code, const std::string &what)
      : std::runtime_error(what), code(code) {}
  Code code;
};

/// What a thread does after an instruction.
enum class Outcome : uint8_t {
  Next,
  /// Goes on with Instruction::target.
  Branch,
  /// Goes on with the next one, after others had their turn, and after
  /// Thread::waiting where that was set.
  Poll,
  /// Executes the same instruction again when Thread::waiting is over.
  Wait,
  End,
};

/// By one thread. It reads operands with Thread::get and writes with set.
using Execute = Outcome (*)(Thread &, const Instruction &);

/// By lanes of a warp that have come to the same instruction: those of `lanes`.
/// All of them go on with the next one, after what it set in Thread::waiting.
using ExecuteByWarp = void (*)(Warp &, uint32_t lanes, const Instruction &);

/// A register, or bits.
struct Value {
  bool isRegister = false;
  bool isNegated = false;
  uint32_t index = 0;
  uint64_t bits = 0;
};

struct Instruction {
  /// One of both.
  Execute execute = nullptr;
  /// Of an instruction that lanes of a warp execute together.
  ExecuteByWarp executeByWarp = nullptr;
  /// Which lanes these are: the operand with this number of each lane, which
  /// has to be equal, or all that have not ended.
  static constexpr int kAllLanes = -1;
  int mask = kAllLanes;
  /// No register: always.
  Value guard;
  bool hasGuard = false;
  /// Those of all operands, flattened by decode: of an address its base and a
  /// value for its offset, then its coordinates; of a vector its parts. A label
  /// or a special register is a value whose bits are its number.
  std::vector<Value> operands;
  uint32_t target = 0;
  /// What the decoder keeps for the function: types, sizes, shapes.
  uint64_t detail = 0;
  unsigned line = 0;
  /// As in the text, for messages.
  std::string opcode;
};

/// Fills in what an instruction does. Gets the parsed form with all parts, and
/// `result` with guard, line, opcode and operands set. Throws
/// std::runtime_error without the line: `cvt has no rounding .rz here`.
using Decode = void (*)(const ParsedInstruction &, Instruction &result);

struct Opcode {
  /// The first part of opcodes that it decodes, or the first ones as
  /// `mbarrier.init`, which go before.
  const char *name;
  Decode decode;
};

/// The opcodes of each source file. A table ends with a null name.
extern const Opcode kArithmetic[];        // integers and bits
extern const Opcode kFloatMath[];         // floats
extern const Opcode kConversions[];       // cvt
extern const Opcode kSelectCompareMove[]; // setp, selp, mov
extern const Opcode kLoadStore[];         // ld, st, fences, cvta
extern const Opcode kAtomics[];           // atom, red
extern const Opcode kControl[];           // bra, ret, shfl, vote, ...
extern const Opcode kBarriers[];          // bar, mbarrier, barrier.cluster
extern const Opcode kAsyncCopies[];       // cp.async, cp.async.bulk
extern const Opcode kMma[];               // mma, ldmatrix, stmatrix
extern const Opcode kWgmma[];             // wgmma

/// A kernel that can be run.
struct Program {
  ParsedKernel header;
  std::vector<Instruction> instructions;
};

/// Throws std::runtime_error with `line <n>: <what>` for what no table has.
std::shared_ptr<const Program> decode(ParsedKernel kernel);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_INSTRUCTIONS_INSTRUCTION_H
