//===- Ptx.h - PTX text as instructions -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a module of PTX says, with names resolved: registers are numbers,
// labels are places in the list of instructions, variables are addresses in
// their space. What an instruction does is not known here.
//
// The source is the PTX ISA, version 9.0, sections 4 (syntax) and 5 (state
// spaces).
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

/// Where addresses of shared memory begin: what comes before belongs to the
/// system on Hopper, so that an address of zero leads nowhere.
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

/// Read by `mov`; not a register that could be written.
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
    /// `_`, or a guard that is not there.
    None,
    /// Number `index` of `value` bits, of which a predicate has one;
    /// `isNegated` if it is written `!%p`.
    Register,
    /// The bits are `value`. Also a variable whose address is taken.
    Immediate,
    /// Special(index).
    Special,
    /// Instruction `index`.
    Label,
    /// `[base + value]`: parts[0] is the base, a register or, where there is
    /// none, an immediate of zero; then come coordinates, as in `[a, {x, y}]`.
    Address,
    /// `{a, b}`: parts.
    Vector,
  };
  Kind kind = Kind::None;
  bool isNegated = false;
  uint32_t index = 0;
  uint64_t value = 0;
  std::vector<Operand> parts;
};

/// `@guard opcode operands;` as it is written.
struct ParsedInstruction {
  /// From 1, in the text of the module.
  unsigned line;
  Operand guard;
  /// The opcode between its dots: `{"add", "s32"}`. `shared::cluster` is one.
  std::vector<std::string> opcode;
  /// `p|q` is two operands.
  std::vector<Operand> operands;
};

struct Parameter {
  std::string name;
  uint32_t offset, bytes;
};

/// An `.entry`.
struct ParsedKernel {
  std::string name;
  /// The values that a launch gives are laid out as in a struct.
  std::vector<Parameter> parameters;
  uint32_t parameterBytes = 0;
  unsigned numRegisters = 0;
  /// Labels are resolved, and the end is `ret`.
  std::vector<ParsedInstruction> instructions;
  /// Where `.extern .shared` begins: static variables are before, from
  /// kSharedBase on.
  uint32_t dynamicShared = kSharedBase;
  /// Bytes of `.local` variables, whose addresses begin with zero.
  uint32_t localBytes = 0;
  /// `.reqntid`, or zeros; `.maxntid`, `.minnctapersm` and `.maxnreg`, or zero.
  std::array<unsigned, 3> requiredThreads{};
  unsigned maxThreads = 0, minBlocks = 0, maxRegisters = 0;
  std::array<unsigned, 3> requiredCluster{};
};

/// A `.global` or `.const` variable. Its address is taken in instructions, so
/// memory has to be there before the text is read.
struct Variable {
  std::string name;
  uint64_t address;
  uint64_t bytes;
};

/// Gives memory for a variable with its initial bytes, and its address.
using Allocate =
    std::function<uint64_t(const std::vector<uint8_t> &, unsigned alignment)>;

struct ParsedModule {
  /// As 10 * major + minor, and the text behind `.target`.
  unsigned version = 0;
  std::string target;
  std::vector<Variable> variables;
  std::map<std::string, ParsedKernel> kernels;
};

/// Throws std::runtime_error with `line <n>: <what>` where the text is not a
/// PTX or has what the emulator does not know, such as functions that are
/// called.
ParsedModule parsePtx(std::string_view text, const Allocate &allocate);

} // namespace fuse::emulator

#endif // FUSE_EMULATOR_PTX_PTX_H
