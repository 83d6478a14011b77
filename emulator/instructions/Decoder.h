//===- Decoder.h - From parsed to decoded instructions ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each source file of this directory has a table with the decoders of its
// opcodes.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_INSTRUCTIONS_DECODER_H
#define FUSE_EMULATOR_INSTRUCTIONS_DECODER_H

#include "machine/Instruction.h"

namespace fuse::emulator {

/// Decodes an instruction. `parsed` has all parts of the opcode; in `result`,
/// guard, line, opcode and operands are already set. Throws std::runtime_error
/// without the line, such as `cvt has no rounding .rz here`.
using Decode = void (*)(const ParsedInstruction &, Instruction &result);

struct Opcode {
  /// The first part of the opcode, or several parts, as in `mbarrier.init`. The
  /// longest match wins.
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

/// Decodes a kernel. Throws std::runtime_error with `line <n>: <what>` for
/// unknown instructions.
std::shared_ptr<const Program> decode(ParsedKernel kernel);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_INSTRUCTIONS_DECODER_H
