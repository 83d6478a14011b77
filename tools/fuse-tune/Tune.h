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
  /// Numbers of tokens to tune ops for that have a dynamic number.
  std::vector<int64_t> tokens;
  /// Candidates for each op, without those of `schedules`.
  size_t count = 24;
  /// Schedules to try that are not the model's idea, wherever they fit.
  std::vector<std::string> schedules;
  int64_t multiprocessors = 132;
  /// Whether ptxas assembles candidates, if there is one.
  bool assemble = true;
  unsigned jobs = 1;
};

/// Compiles the candidates of every op of a module that the scheduled path has
/// a kernel for, each kind of op once. Returns the bytes of a test bundle.
/// Progress goes to stderr.
llvm::Expected<std::string> makeCandidates(mlir::ModuleOp module,
                                           const mlir::DialectRegistry &all,
                                           const CandidateOptions &options);

/// Reads files of measurements, and returns the table of the fastest schedules
/// as text. The model's choice stays unless another is faster by `margin`, a
/// part of its time. Where files have the same op, the last one counts. Ops of
/// which no candidate was measured get no row and a warning on stderr.
llvm::Expected<std::string> makeTable(const std::vector<std::string> &files,
                                      double margin);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_TUNE_TUNE_H
