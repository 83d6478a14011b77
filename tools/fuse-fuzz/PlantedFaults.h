//===- PlantedFaults.h - Wrong rewrites that checks must find ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A check that never fails may check nothing. With `--plant`, these rewrites
// are part of what is checked. Both are the mistakes of a careless optimization
// and change few bits.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_PLANTEDFAULTS_H
#define FUSE_TOOLS_FUSE_FUZZ_PLANTEDFAULTS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringRef.h"

namespace fuse {

/// A pass that multiplies by reciprocals instead of dividing. It claims to keep
/// bits.
inline constexpr llvm::StringLiteral kReciprocalPass = "fuse-fuzz-reciprocal";

/// Registers the pass.
void registerPlantedFaults();

/// Replaces one approximation of `gelu` by the other one.
void plantGelu(mlir::ModuleOp module);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_PLANTEDFAULTS_H
