//===- ModuleGenerator.h - Random modules of layer ops ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_MODULEGENERATOR_H
#define FUSE_TOOLS_FUSE_FUZZ_MODULEGENERATOR_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace fuse {

/// A random number generator with the same sequence on every platform, unlike
/// the distributions of the standard library.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}

  /// The next number (splitmix64).
  uint64_t next() {
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// A number below `bound`.
  uint64_t below(uint64_t bound) { return next() % bound; }
  /// True in `percent` of 100 cases.
  bool percent(unsigned chance) { return below(100) < chance; }
  template <typename T>
  T oneOf(llvm::ArrayRef<T> values) {
    return values[below(values.size())];
  }
  template <typename T>
  T oneOf(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

private:
  uint64_t state;
};

/// Kinds of random modules.
enum class Stratum {
  /// Complete and damaged chains of layer ops, between unrelated ops.
  Any,
  /// The same with consistent sizes, and with scales that give more than zeros
  /// and infinities.
  Runnable,
  /// The same with losses, experts, casts and transposes between the chains.
  Functions,
  /// Complete chains whose operands are views of larger tensors, with strides
  /// and offsets.
  Strided,
  /// Models of modules; see ModelChecks.h.
  Models,
  /// Slots, their kernels and their calls; see SlotChecks.h.
  Slots,
  /// One complete chain, with a family, type and sizes that the scheduled path
  /// supports.
  Scheduled,
  /// The same with more sizes, for random schedules.
  Schedules,
  /// Several such chains, surrounded by ops that the scheduled path does not
  /// support.
  Mixed,
  /// One chain with any number of tokens, for each combination of family, type,
  /// quantization, and sizes around those of vectors and tiles. The seed is the
  /// number of the combination.
  Boundary
};

/// The name of a stratum on the command line.
llvm::StringRef getName(Stratum stratum);

/// Sizes around the boundaries of loops, vectors and tiles.
llvm::ArrayRef<int64_t> getBoundarySizes();
/// Number of combinations of `Stratum::Boundary`. Each runs with every size
/// above as the number of tokens, and with none.
uint64_t getNumBoundaryCombinations();

/// Generates a module of functions that should verify. A seed and a stratum
/// always give the same module.
mlir::OwningOpRef<mlir::ModuleOp>
generateModule(mlir::MLIRContext *context, uint64_t seed,
               Stratum stratum = Stratum::Any);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_MODULEGENERATOR_H
