//===- Manifest.h - Manifest of an artifact ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_MANIFEST_H
#define FUSE_RUNTIME_CORE_MANIFEST_H

#include "dlpack/dlpack.h"
#include "fuse/Runtime/Core/Container.h"
#include "fuse/Runtime/Core/Expression.h"
#include "nlohmann/json_fwd.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace fuse::runtime {

/// Element type and shape, with -1 for sizes that are known at run time only.
struct TensorSpec {
  /// Name as in MLIR.
  std::string element;
  DLDataType dtype;
  std::vector<int64_t> shape;
  /// Name of the model parameter that binds here; empty for none.
  std::string parameter;
};

/// Text such as `2x?x8xbf16`.
std::string toString(const TensorSpec &spec);
/// The DLPack type of the MLIR type `element`, if tensors of it can be passed.
std::optional<DLDataType> getDataType(std::string_view element);

/// A size that several dimensions share.
struct Symbol {
  struct Place {
    size_t argument;
    size_t dim;
  };
  std::vector<Place> places;
  /// The only size that the code supports.
  std::optional<int64_t> size;
};

/// Instruction set of the CPU that the code uses.
struct CpuTarget {
  std::string arch;
  /// A level of the x86-64 psABI, or "native" with the bits that `cpuid`
  /// returned. "generic" on other architectures.
  std::string level;
  std::vector<uint32_t> cpuid;
};

/// Static scales of a function's code, and the numbers in f32 that code
/// computes with instead of them.
struct ScaleTable {
  /// A product of scales, or the reciprocal of one.
  struct Scalar {
    std::vector<size_t> factors;
    bool isReciprocal = false;
  };
  /// The scales that the artifact was compiled with.
  std::vector<float> scales;
  std::vector<Scalar> scalars;

  /// The numbers for other scales. They are rounded as the compiler rounds.
  std::vector<float> evaluate(const std::vector<float> &scales) const;
};

/// An argument of a kernel.
struct KernelArgument {
  enum class Kind {
    Tensor,
    Workspace,
    Size,
    Value,
    Scalar,
    Packed,
    Constant,
    TensorMap
  };
  Kind kind;
  /// Argument of the function (results follow inputs), workspace buffer,
  /// packed weight, constant or scalar of the scale table.
  size_t index = 0;
  /// Bytes into a workspace buffer.
  uint64_t offset = 0;
  /// Kind Size: the size.
  Expression size;
  /// Kinds Size and Value: bytes of the value, and its bits.
  unsigned bytes = 8;
  uint64_t bits = 0;
  /// Kind TensorMap: its number among the maps of the function, and a matrix in
  /// the workspace or in a tensor.
  size_t map = 0;
  bool inWorkspace = false;
  uint64_t rows = 0, columns = 0;
  unsigned boxRows = 0, boxColumns = 0, swizzle = 0;
  std::string element;
};

struct Launch {
  /// Module of the function's code.
  size_t module = 0;
  std::string kernel;
  std::array<Expression, 3> grid;
  std::array<unsigned, 3> block;
  std::array<unsigned, 3> cluster = {1, 1, 1};
  unsigned sharedBytes = 0;
  /// Preferred shared memory, in percent of the maximum; the rest is L1 cache.
  /// Only a hint: it does not change what is computed.
  std::optional<unsigned> carveout;
  /// All blocks have to be resident at the same time.
  bool cooperative = false;
  /// The kernel itself waits for the launch before it.
  bool dependent = false;
  std::vector<KernelArgument> arguments;
};

/// Weights in the order in which a kernel reads them.
struct PackedWeight {
  std::string recipe;
  /// Arguments of the function.
  std::vector<size_t> operands;
  uint64_t tiles = 0, steps = 0, bytes = 0;
  /// Recipe "panels": outputs in a tile.
  uint64_t columns = 0;
};

/// A constant that kernels read: a part of a section.
struct Constant {
  size_t section;
  uint64_t offset, bytes;
};

/// A phase of a kernel for the CPU: a function of a range of tasks and of flat
/// buffers.
struct CpuPhase {
  struct Argument {
    /// Arguments of the function followed by its results, packed weights,
    /// or workspace buffers.
    enum class Kind { Tensor, Packed, Workspace };
    Kind kind;
    size_t index;
  };
  std::string symbol;
  /// A task is one of `panels` panels and up to `tokens` tokens. All panels of
  /// the same tokens follow each other.
  uint64_t panels, tokens;
  /// If not 0, the function takes any number of tokens per task up to `tokens`
  /// from the bits of the number of tokens from `kTokenBits` on. Multiples of
  /// this number are fastest.
  uint64_t multiple = 0;
  static constexpr unsigned kTokenBits = 48;
  std::vector<Argument> arguments;
};

/// Maximum number of arguments of a phase.
constexpr size_t kMaxPhaseArguments = 30;

/// Execution plan of a kernel for the CPU.
struct CpuPlan {
  /// Argument with one row per token.
  size_t input;
  std::vector<PackedWeight> packed;
  /// Bytes per token of each workspace buffer.
  std::vector<uint64_t> workspace;
  std::vector<CpuPhase> phases;
};

struct CpuCode {
  size_t section;
  /// Entry point of the portable code; empty if there is only the plan. Its
  /// arguments are followed by the scalars of `scales`.
  std::string symbol;
  ScaleTable scales;
  std::optional<CpuPlan> plan;
};

/// Kernels that a driver loads together.
struct KernelModule {
  /// Section numbers; at least one is set unless `deferred` is.
  std::optional<size_t> ptx, cubin;
  /// Number of the PTX in the code source, for code that is not compiled yet.
  std::optional<size_t> deferred;
  /// Ten times the PTX version, and ten times the lowest version that has all
  /// used features.
  unsigned ptxVersion = 0, ptxMinimum = 0;
  /// Path of a file that a user registered; empty for generated code.
  std::string source;
};

/// The launches of a function, or those for a range of the number of tokens.
struct LaunchPlan {
  /// Upper end of the range in tokens; 0 for any number. The range begins after
  /// that of the previous plan.
  int64_t upTo = 0;
  /// Size in bytes of each workspace buffer.
  std::vector<Expression> workspace;
  std::vector<Launch> launches;

  /// Whether blocks of a kernel wait for each other.
  bool hasWaitingBlocks() const {
    for (const Launch &launch : launches)
      if (launch.cooperative)
        return true;
    return false;
  }
};

struct DeviceCode {
  std::string chip;
  std::vector<KernelModule> modules;
  /// Dimensions of arguments that the symbols in expressions stand for.
  std::vector<Symbol::Place> symbols;
  /// Bytes at the start of the workspace that are zero before the first launch.
  uint64_t zeroedBytes = 0;
  std::vector<PackedWeight> packed;
  std::vector<Constant> constants;
  ScaleTable scales;
  /// One plan, or one per range of the function's first number of tokens, in
  /// order. With several plans, the last range ends at `maxTokens`. The first
  /// workspace buffer then has the same size in all plans and holds the zeroed
  /// bytes.
  std::vector<LaunchPlan> plans;
  /// Tensor maps of all plans.
  size_t numMaps = 0;

  /// The plan for `tokens` tokens. `tokens` is at most the bound of the last
  /// plan.
  const LaunchPlan &getPlan(int64_t tokens) const {
    size_t index = 0;
    while (index + 1 < plans.size() && tokens > plans[index].upTo)
      ++index;
    return plans[index];
  }
};

/// A comparison of sizes that has to hold in every call.
struct Check {
  enum class Predicate { Equal, NotEqual, Less, LessOrEqual };
  Predicate predicate;
  Expression lhs, rhs;
  /// The message of the assert in the source.
  std::string message;

  bool holds(const int64_t *symbols) const;
};

struct Function {
  std::string name;
  /// Site ids, as profilers show them, or the function's name.
  std::string label;
  std::vector<TensorSpec> arguments, results;
  std::vector<Symbol> symbols;
  /// Comparisons over `symbols`.
  std::vector<Check> checks;
  /// Sizes of results over `symbols`; none if only the code can determine them.
  std::vector<std::vector<std::optional<Expression>>> resultSizes;
  std::optional<CpuCode> cpu;
  std::optional<DeviceCode> device;
  /// Largest number of tokens that the device code supports, or 0 for any.
  /// `tokens` has the numbers of tokens over the symbols of the device code;
  /// none may exceed it.
  int64_t maxTokens = 0;
  std::vector<Expression> tokens;
};

struct Manifest {
  std::string producer;
  std::optional<CpuTarget> cpuTarget;
  std::vector<Function> functions;
};

/// Parses JSON of at most a certain depth. Throws `Failure`.
nlohmann::json parseJSON(std::string_view text);

/// Parses the manifest in the first section. Throws `Failure` unless every
/// index, shape and expression in it is valid. With `mayDefer`, modules may
/// lack their code.
Manifest readManifest(const std::vector<Section> &sections,
                      bool hasSource = false);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_MANIFEST_H
