//===- Operands.h - What decoders of one opcode have in common --*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of instructions about shared memory: barriers, copies, products.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_OPERANDS_H
#define FUSE_EMULATOR_OPERANDS_H

#include "Machine.h"

#include <initializer_list>

namespace fuse::emulator {

inline bool hasPart(const ParsedInstruction &parsed, std::string_view part) {
  for (const std::string &other : parsed.opcode)
    if (other == part)
      return true;
  return false;
}

/// Throws what a decoder throws for a part of the opcode behind the first
/// `count` that is not among `known`.
void checkParts(const ParsedInstruction &parsed, size_t count,
                std::initializer_list<std::string_view> known);

/// Throws unless operands have one of some forms, so that each is as many
/// values of Instruction::operands as the instruction takes it for. A form has
/// a character for each operand:
///   r       a register, or `_`
///   i       a register or a number
///   a       an address
///   1 to 5  an address with so many coordinates
///   v       a vector of registers
void checkOperands(const ParsedInstruction &parsed,
                   const std::vector<std::string> &forms);

/// How an instruction names shared memory.
enum class Space : uint8_t {
  /// `.shared`: an offset in the own block.
  Own,
  /// `.shared::cluster`
  Cluster,
  /// Without a space.
  Generic,
};

/// That of the last part that names a shared one.
Space getSpace(const ParsedInstruction &parsed);

struct SharedPlace {
  Block *block;
  uint32_t offset;
};

/// The place of `[base + offset]`; throws Fault where it is in no shared
/// memory. Does not check its bounds.
SharedPlace getPlace(const Thread &thread, Space space, const Value &base,
                     const Value &offset);

/// The value of an operand that all `lanes` must have in common; throws Fault
/// where they do not, with `what` in the message.
uint64_t getUniform(const Warp &warp, uint32_t lanes, const Value &value,
                    const char *what);

/// Throws Fault where accessShared does, whatever is under way.
void checkShared(const Block &block, uint32_t offset, uint32_t bytes,
                 unsigned alignment);
/// Whether something under way writes to the 16 bytes from `chunk` on.
bool isBeingWritten(const Block &block, uint32_t chunk);

/// That bytes are an mbarrier, which nothing else may access, or no longer are.
void protectMbarrier(Block &block, uint32_t offset, bool isThere);

/// Barriers.cpp. Throws Fault where there is none.
Mbarrier &getMbarrier(Block &block, uint32_t offset);
/// The same for a thread, which has to come behind the initialization, and for
/// a copy of it, which has to come behind a fence after that.
Mbarrier &useMbarrier(const Thread &thread, Block &block, uint32_t offset,
                      bool isAsync);

/// `(0, 0, 0)`
std::string printBlock(const Block &block);
/// `mbarrier at 1032 of block (0, 0, 0)`, for messages.
std::string printPlace(const char *what, const Block &block, uint32_t offset);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_OPERANDS_H
