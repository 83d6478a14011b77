//===- Emit.h - Random modules for a GPU elsewhere --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_EMIT_H
#define FUSE_TOOLS_FUSE_FUZZ_EMIT_H

#include "ModuleGenerator.h"

#include <string>

namespace fuse {

struct EmitOptions {
  std::string folder;
  uint64_t firstSeed, count;
  Stratum stratum;
  unsigned perFile;
};

/// The module of a seed as it is compiled: functions on tensors alone, fused,
/// of `Stratum::Schedules` with schedules. The numbers of tokens at which these
/// change are appended to `turns`.
mlir::OwningOpRef<mlir::ModuleOp>
makeCase(mlir::MLIRContext &context, uint64_t seed, Stratum stratum,
         llvm::SmallVectorImpl<int64_t> *turns = nullptr);

/// Writes `count` modules with at least one fused op, from `firstSeed` on: what
/// the portable path and, where it takes a function as a whole or, of
/// `Stratum::Mixed`, in part, the scheduled path make of each, random inputs,
/// and the results of the CPU with the bounds that others have to keep. Seeds
/// that make nothing to compare are passed over. Returns false, and prints seed
/// and reason, when something does not compile.
bool emitCases(const EmitOptions &options);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_EMIT_H
