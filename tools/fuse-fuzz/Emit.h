//===- Emit.h - Random modules for a remote GPU -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_EMIT_H
#define FUSE_TOOLS_FUSE_FUZZ_EMIT_H

#include "ModuleGenerator.h"
#include "fuse/Schedule/Chip.h"

#include <string>

namespace fuse {

struct EmitOptions {
  std::string folder;
  uint64_t firstSeed, count;
  Stratum stratum;
  Chip chip;
  unsigned perFile;
  /// Number of seeds in a row without cases after which emission ends.
  uint64_t maxSkipped;
};

/// The module of a seed in the form in which it is compiled: fused, with only
/// functions on tensors. Modules of `Stratum::Schedules` have schedules for
/// `chip`.
/// Appends the numbers of tokens at which kernels change to `boundaries`.
mlir::OwningOpRef<mlir::ModuleOp>
makeCase(mlir::MLIRContext &context, uint64_t seed, Stratum stratum,
         const Chip &chip,
         llvm::SmallVectorImpl<int64_t> *boundaries = nullptr);

/// Writes `count` modules with at least one fused op, from `firstSeed` on. For
/// each it writes the code of the portable path and, if supported, of the
/// scheduled path. It adds random inputs, the results of the CPU, and bounds
/// for other results. Seeds without cases are skipped. If a module does not
/// compile or too many seeds in a row are skipped, prints the reason and
/// returns false.
bool emitCases(const EmitOptions &options);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_EMIT_H
