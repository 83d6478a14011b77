//===- Manifest.h - What an artifact says about itself ----------*- C++ -*-===//
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

/// Element type and shape; -1 where a size is known at run time only.
struct TensorSpec {
  /// Name as in MLIR.
  std::string element;
  DLDataType dtype;
  std::vector<int64_t> shape;
  /// Name of the model's parameter that belongs here; empty for none.
  std::string parameter;
};

/// Text such as `2x?x8xbf16`.
std::string toString(const TensorSpec &spec);
/// The type that MLIR calls `element`, if tensors of it can be passed.
std::optional<DLDataType> getDataType(std::string_view element);

/// A size that several places share.
struct Symbol {
  struct Place {
    size_t argument;
    size_t dim;
  };
  std::vector<Place> places;
  /// The only size that the code takes.
  std::optional<int64_t> size;
};

/// Instructions of the host that its code uses.
struct CpuTarget {
  std::string arch;
  /// A level of the x86-64 psABI, or "native" with the bits that `cpuid` gave;
  /// "generic" elsewhere.
  std::string level;
  std::vector<uint32_t> cpuid;
};

/// An argument of a kernel.
struct KernelArgument {
  enum class Kind { Tensor, Workspace, Size, Value, Packed, TensorMap };
  Kind kind;
  /// Argument of the function (results follow inputs), workspace buffer, or
  /// packed weight.
  size_t index = 0;
  /// Bytes into a workspace buffer.
  uint64_t offset = 0;
  /// Of Size.
  Expression size;
  /// Of Size and Value: bytes, and the bits of a value.
  unsigned bytes = 8;
  uint64_t bits = 0;
  /// Of TensorMap: its number among those of the function, and a matrix in the
  /// workspace or in a tensor.
  size_t map = 0;
  bool inWorkspace = false;
  uint64_t rows = 0, columns = 0;
  unsigned boxRows = 0, boxColumns = 0, swizzle = 0;
  std::string element;
};

struct Launch {
  /// Of the code of the function.
  size_t module = 0;
  std::string kernel;
  std::array<Expression, 3> grid;
  std::array<unsigned, 3> block;
  std::array<unsigned, 3> cluster = {1, 1, 1};
  unsigned sharedBytes = 0;
  /// The shared memory that the kernel prefers to a cache, in per cent of the
  /// most there is. A wish: files without it, and hosts that do not know of it,
  /// compute the same.
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
  /// Outputs in a tile of recipe "panels".
  uint64_t columns = 0;
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
  /// A task is one of `panels` and up to `tokens` tokens; all panels of the
  /// same tokens follow each other.
  uint64_t panels, tokens;
  std::vector<Argument> arguments;
};

/// Most arguments of a phase.
constexpr size_t kMaxPhaseArguments = 30;

/// How a kernel for the CPU is run.
struct CpuPlan {
  /// Argument with a row for each token.
  size_t input;
  std::vector<PackedWeight> packed;
  /// Bytes that each workspace buffer has for a token.
  std::vector<uint64_t> workspace;
  std::vector<CpuPhase> phases;
};

struct CpuCode {
  size_t section;
  /// Empty where there is nothing but the plan.
  std::string symbol;
  std::optional<CpuPlan> plan;
};

/// Kernels that a driver loads together.
struct KernelModule {
  /// Sections; there is at least one of them.
  std::optional<size_t> ptx, cubin;
  /// Or the number of the PTX in the source of what is not compiled yet.
  std::optional<size_t> deferred;
  /// Ten times the version of the PTX, and the lowest with all that it uses.
  unsigned ptxVersion = 0, ptxMinimum = 0;
  /// The file that a user registered; empty for generated code.
  std::string source;
};

/// The launches of a function, or those for a range of the number of tokens.
struct LaunchPlan {
  /// Where the range ends; it begins after the previous plan. 0 for any number.
  int64_t upTo = 0;
  /// Bytes of each workspace buffer.
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
  /// Sizes of arguments that expressions are over.
  std::vector<Symbol::Place> symbols;
  /// Bytes at the start of the workspace that are zero before the first launch.
  uint64_t zeroedBytes = 0;
  std::vector<PackedWeight> packed;
  /// One, or one for each range of the function's first number of tokens, in
  /// order. Then the last range ends at the most tokens, and the first buffer
  /// of all has the same size and holds what is zeroed.
  std::vector<LaunchPlan> plans;
  /// Tensor maps of all plans.
  size_t numMaps = 0;

  /// The plan for `tokens` tokens, at most the bound of the last plan.
  const LaunchPlan &getPlan(int64_t tokens) const {
    size_t index = 0;
    while (index + 1 < plans.size() && tokens > plans[index].upTo)
      ++index;
    return plans[index];
  }
};

struct Function {
  std::string name;
  /// Ids of the sites in it, as profilers show them; or its name.
  std::string label;
  std::vector<TensorSpec> arguments, results;
  std::vector<Symbol> symbols;
  /// Sizes of results over `symbols`; none where only the code can tell.
  std::vector<std::vector<std::optional<Expression>>> resultSizes;
  std::optional<CpuCode> cpu;
  std::optional<DeviceCode> device;
  /// Most tokens that the device code takes, 0 for any; numbers of tokens over
  /// the symbols of the device code, none of which may be more.
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

/// The manifest in the first section. Throws `Failure` unless every index,
/// shape and expression in it is valid. Only where the artifact has a source of
/// code may there be modules whose code it lacks.
Manifest readManifest(const std::vector<Section> &sections,
                      bool hasSource = false);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_MANIFEST_H
