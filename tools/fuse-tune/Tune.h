//===- Tune.h - Steps of tuning schedules -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_TUNE_TUNE_H
#define FUSE_TOOLS_FUSE_TUNE_TUNE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace fuse {

struct CandidateOptions {
  /// Numbers of tokens to tune for, if the number of an op is dynamic.
  std::vector<int64_t> tokens;
  /// Number of candidates per op, in addition to those of `schedules`.
  size_t count = 24;
  /// Additional schedules to try wherever they fit.
  std::vector<std::string> schedules;
  int64_t multiprocessors = 132;
  /// The chip, which must be known.
  std::string chip = "sm_90a";
  /// Whether ptxas assembles candidates, if it is available.
  bool assemble = true;
  unsigned jobs = 1;
};

/// Compiles the candidates of every distinct op of a module that the scheduled
/// path supports. Returns the bytes of a test bundle. Progress is printed to
/// stderr.
llvm::Expected<std::string> makeCandidates(mlir::ModuleOp module,
                                           const mlir::DialectRegistry &all,
                                           const CandidateOptions &options);

/// Reads files of measurements, and returns a table of the fastest schedules as
/// text. The model's choice is kept unless another one is faster by the
/// fraction `margin`. If files have the same op, the last one counts. Ops
/// without a measured candidate get no row and a warning on stderr.
llvm::Expected<std::string> makeTable(const std::vector<std::string> &files,
                                      double margin);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_TUNE_TUNE_H
