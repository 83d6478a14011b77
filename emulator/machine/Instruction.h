//===- Instruction.h - Decoded instructions ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the machine executes: a function and flattened operands. The decoders in
// emulator/instructions create them.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_MACHINE_INSTRUCTION_H
#define FUSE_EMULATOR_MACHINE_INSTRUCTION_H

#include "ptx/Ptx.h"

#include <stdexcept>

namespace fuse::emulator {

struct Thread;
struct Warp;
struct Instruction;

/// An error that ends a launch and is sticky, as on a device. The machine adds
/// the kernel, the block, the thread and the line to the text.
struct Fault : std::runtime_error {
  /// The codes are those of `CUresult`.
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

/// How a thread continues after an instruction.
enum class Outcome : uint8_t {
  Next,
  /// Continues at Instruction::target.
  Branch,
  /// Lets other threads run, waits for Thread::blockReason if it is set, and
  /// then continues with the next instruction.
  Poll,
  /// Waits for Thread::blockReason, then executes the same instruction again.
  Wait,
  End,
};

/// Executes an instruction for one thread. Operands are read by Thread::get and
/// written by Thread::set.
using Execute = Outcome (*)(Thread &, const Instruction &);

/// Executes an instruction for those `lanes` of a warp that have reached it
/// together. Each lane then waits for its Thread::blockReason, if that is set,
/// and continues with the next instruction.
using ExecuteByWarp = void (*)(Warp &, uint32_t lanes, const Instruction &);

/// An operand: a register, or constant bits.
struct Value {
  bool isRegister = false;
  bool isNegated = false;
  uint32_t index = 0;
  uint64_t bits = 0;
};

struct Instruction {
  /// Exactly one of `execute` and `executeByWarp` is set.
  Execute execute = nullptr;
  /// For instructions that lanes of a warp execute together.
  ExecuteByWarp executeByWarp = nullptr;
  /// The index of the operand that has the mask of these lanes, which must be
  /// equal in all of them. kAllLanes: all lanes that have not ended.
  static constexpr int kAllLanes = -1;
  int mask = kAllLanes;
  /// The predicate that guards the instruction, if `hasGuard`.
  Value guard;
  bool hasGuard = false;
  /// All operands, flattened. An address becomes its base, its offset and its
  /// coordinates; a vector becomes its parts. The bits of a label or a special
  /// register are its number.
  std::vector<Value> operands;
  uint32_t target = 0;
  /// Data that the decoder passes to the function: types, sizes, shapes.
  uint64_t detail = 0;
  unsigned line = 0;
  /// The opcode as in the PTX text, for messages.
  std::string opcode;
};

/// A kernel that is ready to run.
struct Program {
  ParsedKernel header;
  std::vector<Instruction> instructions;
};

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_MACHINE_INSTRUCTION_H
