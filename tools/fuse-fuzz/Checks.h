//===- Checks.h - Properties that must hold for every module ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_CHECKS_H
#define FUSE_TOOLS_FUSE_FUZZ_CHECKS_H

#include "ModuleGenerator.h"

namespace fuse {

/// Statistics of a run, which show that the checks were not idle.
struct CheckCounts {
  uint64_t parsed = 0;
  uint64_t ops = 0;
  uint64_t fused = 0;
  uint64_t refused = 0;
  /// Number of functions that ran, and of sets of inputs.
  uint64_t executed = 0, cases = 0;
  /// Number of metamorphic relations that were checked.
  uint64_t relations = 0;
  /// Number of values that the interpreter checked, and of those with one
  /// allowed result.
  uint64_t values = 0, exact = 0;
  /// Functions that were not compared: the change is not valid, nothing was
  /// raised, the IR cannot be lowered, or the function cannot be called.
  uint64_t invalid = 0, unraised = 0, unlowered = 0, uncalled = 0;

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
    invalid += other.invalid;
    unraised += other.unraised;
    unlowered += other.unlowered;
    uncalled += other.uncalled;
  }
};

/// The text of `module` with its locations.
std::string print(mlir::ModuleOp module, bool generic = false);

/// Runs every check on `module` and does not change it. Returns the name of the
/// first check that fails, after an error has been emitted, or an empty name.
/// `random` chooses sites, families and orders.
llvm::StringRef checkModule(mlir::ModuleOp module, Random &random,
                            CheckCounts &counts);

/// Parses `text`, which may be invalid. A module that parses must survive
/// printing, forming and unfusing, and be valid afterwards.
llvm::StringRef checkText(mlir::MLIRContext *context, llvm::StringRef text,
                          CheckCounts &counts);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_CHECKS_H
