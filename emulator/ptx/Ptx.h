//===- Ptx.h - The parsed form of PTX text ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A parsed module of PTX. Names are resolved: registers are numbers, labels are
// indices of instructions, and variables are addresses in their space. The
// parser does not know the meaning of instructions.
//
// Reference: PTX ISA 9.0, sections 4 (syntax) and 5 (state spaces).
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_EMULATOR_PTX_PTX_H
#define FUSE_EMULATOR_PTX_PTX_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fuse::emulator {

/// First address of shared memory. On Hopper the system reserves the first 1024
/// bytes, so zero is not a valid address.
constexpr uint32_t kSharedBase = 1024;

/// The address space of a variable or of an access. `.const` counts as Global.
enum class StateSpace : uint8_t {
  Generic,
  Global,
  SharedCta,     ///< Shared memory of the own block.
  SharedCluster, ///< Shared memory of any block of the cluster.
  Local,
  Parameter,
};

/// Special registers, which `mov` reads.
enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  ClusterCtaidX,
  ClusterCtaidY,
  ClusterCtaidZ,
  ClusterNctaidX,
  ClusterNctaidY,
  ClusterNctaidZ,
  ClusterIdX,
  ClusterIdY,
  ClusterIdZ,
  NclusterIdX,
  NclusterIdY,
  NclusterIdZ,
  ClusterCtarank,
  ClusterNctarank,
  LaneId,
  WarpId,
  NwarpId,
  SmId,
  NsmId,
  GridId,
  Clock,
  Clock64,
  GlobalTimer,
  GlobalTimerLo,
  GlobalTimerHi,
  LanemaskEq,
  LanemaskLt,
  LanemaskLe,
  LanemaskGt,
  LanemaskGe,
  DynamicSmemSize,
  TotalSmemSize,
};

struct Operand {
  enum class Kind : uint8_t {
    /// `_`, or an instruction without a guard.
    None,
    /// Register number `index` with `value` bits (1 for a predicate).
    /// `isNegated` if it is written `!%p`.
    Register,
    /// A constant with the bits `value`, or the address of a variable.
    Immediate,
    /// The special register Special(index).
    Special,
    /// The instruction with number `index`.
    Label,
    /// `[base + value]`. parts[0] is the base: a register, or an immediate of
    /// zero. Coordinates, as in `[a, {x, y}]`, follow.
    Address,
    /// `{a, b}`, with its elements in parts.
    Vector,
  };
  Kind kind = Kind::None;
  bool isNegated = false;
  uint32_t index = 0;
  uint64_t value = 0;
  std::vector<Operand> parts;
};

/// `@guard opcode operands;`
struct ParsedInstruction {
  /// Line in the text of the module, starting at 1.
  unsigned line;
  Operand guard;
  /// The parts of the opcode between dots: `{"add", "s32"}`. A part such as
  /// `shared::cluster` is not divided.
  std::vector<std::string> opcode;
  /// `p|q` becomes two operands.
  std::vector<Operand> operands;
};

struct Parameter {
  std::string name;
  uint32_t offset, bytes;
};

/// A kernel (`.entry`).
struct ParsedKernel {
  std::string name;
  /// The parameters, laid out as in a struct.
  std::vector<Parameter> parameters;
  uint32_t parameterBytes = 0;
  unsigned numRegisters = 0;
  /// Labels are resolved, and the last instruction is `ret`.
  std::vector<ParsedInstruction> instructions;
  /// Address of `.extern .shared` memory, after static variables, which start
  /// at kSharedBase.
  uint32_t dynamicShared = kSharedBase;
  /// Bytes of `.local` variables. Their addresses start at zero.
  uint32_t localBytes = 0;
  /// Directives: `.reqntid` (or zeros), then `.maxntid`, `.minnctapersm` and
  /// `.maxnreg` (or zero).
  std::array<unsigned, 3> requiredThreads{};
  unsigned maxThreads = 0, minBlocks = 0, maxRegisters = 0;
  std::array<unsigned, 3> requiredCluster{};
};

/// A `.global` or `.const` variable. Instructions contain its address, so it is
/// allocated during parsing.
struct Variable {
  std::string name;
  uint64_t address;
  uint64_t bytes;
};

/// Allocates a variable with its initial bytes and returns its address.
using Allocate =
    std::function<uint64_t(const std::vector<uint8_t> &, unsigned alignment)>;

struct ParsedModule {
  /// 10 * major + minor, and the text after `.target`.
  unsigned version = 0;
  std::string target;
  std::vector<Variable> variables;
  std::map<std::string, ParsedKernel> kernels;
};

/// Parses a module. Throws std::runtime_error with `line <n>: <what>` if the
/// text is not valid PTX or is not supported, such as calls of functions.
ParsedModule parsePtx(std::string_view text, const Allocate &allocate);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_PTX_PTX_H
