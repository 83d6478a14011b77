//===- Regress.h - Failures as small tests ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_REGRESS_H
#define FUSE_TOOLS_FUSE_FUZZ_REGRESS_H

#include "Checks.h"

#include <functional>
#include <string>

namespace fuse {

/// How a check ended: the name of what failed, `crash` or `time`, or nothing.
struct Outcome {
  std::string failed;
  std::string errors;
  CheckCounts counts;
};

/// Runs a check in a process of its own, which may crash, and ends after so
/// many seconds of processor time.
Outcome runIsolated(const std::function<Outcome()> &check, unsigned seconds);

/// Makes a module that fails smaller, as long as it fails in the same way, and
/// writes it to `<folder>/<check>-<seed>.mlir` as a test of lit that runs
/// `fuse-fuzz` with `options` on it. Returns the path, or an empty one after an
/// error has been printed.
std::string writeRegression(mlir::ModuleOp module, const Outcome &outcome,
                            llvm::StringRef folder, uint64_t seed,
                            llvm::StringRef options,
                            const std::function<Outcome(mlir::ModuleOp)> &check,
                            double seconds);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_REGRESS_H
