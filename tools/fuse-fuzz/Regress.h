//===- Regress.h - Write failures as small tests ----------------*- C++ -*-===//
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

/// Result of a check: the name of the failure, `crash` or `time`, or empty.
struct Outcome {
  std::string failed;
  std::string errors;
  CheckCounts counts;
};

/// Runs a check in a child process, which may crash. The child is ended after a
/// limit of processor time in seconds.
Outcome runIsolated(const std::function<Outcome()> &check, unsigned seconds);

/// Reduces a module as long as it fails in the same way. Writes it to
/// `<folder>/<check>-<seed>.mlir` as a lit test that runs `fuse-fuzz` with
/// `options` on the file. Returns the path, or an empty string after an error
/// has been printed.
std::string writeRegression(mlir::ModuleOp module, const Outcome &outcome,
                            llvm::StringRef folder, uint64_t seed,
                            llvm::StringRef options,
                            const std::function<Outcome(mlir::ModuleOp)> &check,
                            double seconds);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_REGRESS_H
