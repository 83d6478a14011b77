//===- Checks.h - What must hold for every module ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_CHECKS_H
#define FUSE_TOOLS_FUSE_FUZZ_CHECKS_H

#include "ModuleGenerator.h"

namespace fuse {

/// What a run has seen, to show that the checks were not idle.
struct CheckCounts {
  uint64_t parsed = 0;
  uint64_t ops = 0;
  uint64_t fused = 0;
  uint64_t refused = 0;
  /// Functions that ran, and on how many sets of inputs.
  uint64_t executed = 0, cases = 0;
  /// Runs of something else with the same results.
  uint64_t relations = 0;
  /// Values that the interpreter judged, and those with one allowed result.
  uint64_t values = 0, exact = 0;

  void add(const CheckCounts &other) {
    parsed += other.parsed;
    ops += other.ops;
    fused += other.fused;
    refused += other.refused;
    executed += other.executed;
    cases += other.cases;
    relations += other.relations;
    values += other.values;
    exact += other.exact;
  }
};

/// The text of `module` with its locations.
std::string print(mlir::ModuleOp module, bool generic = false);

/// Runs every check on `module`, which is left as it is. Returns the name of
/// the first check that fails, after an error has been emitted, or an empty
/// name. `random` chooses sites, families and orders.
llvm::StringRef checkModule(mlir::ModuleOp module, Random &random,
                            CheckCounts &counts);

/// Parses `text`, which need not be valid. What parses survives printing, can
/// be formed and unfused, and is valid afterwards.
llvm::StringRef checkText(mlir::MLIRContext *context, llvm::StringRef text,
                          CheckCounts &counts);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_CHECKS_H
