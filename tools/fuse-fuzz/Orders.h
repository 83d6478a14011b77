//===- Orders.h - Passes in random orders -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_ORDERS_H
#define FUSE_TOOLS_FUSE_FUZZ_ORDERS_H

#include "OrderPasses.h"
#include "OrderProgram.h"
#include "Regress.h"

#include <map>
#include <string>
#include <vector>

namespace fuse {

/// Statistics of `OrderChecker`.
struct OrderCounts {
  /// Orders, those of functions that run without any pass, the passes that ran
  /// in them, and orders in which a pass refused its input with an error.
  uint64_t orders = 0, runnable = 0, passes = 0, refused = 0;
  /// Orders after which the function ran, and those in which it was on buffers
  /// by then.
  uint64_t executed = 0, buffers = 0;
  /// Orders of passes that all preserve bits, with equal bits.
  uint64_t equal = 0;
};

/// Runs passes of this project and of MLIR in random orders on programs of
/// files and on random programs. No pass may crash, hang, fail without an error
/// or produce invalid IR. If the program still runs, it must give the same
/// results.
class OrderChecker {
public:
  /// Reads the valid modules of the `.mlir` files in folders, ordered by name.
  /// Returns an error message, or an empty string.
  std::string load(llvm::ArrayRef<std::string> folders,
                   mlir::MLIRContext *context);

  /// The program of a seed.
  mlir::OwningOpRef<mlir::ModuleOp> generate(mlir::MLIRContext *context,
                                             uint64_t seed);

  /// Checks one order of passes, in child processes. `errors` of the outcome
  /// contains the passes.
  Outcome check(mlir::MLIRContext *context, uint64_t seed);

  OrderCounts counts;

private:
  /// A program, and the function of it that runs.
  struct Subject {
    std::string text, function;
    OrderStage stage = OrderStage::Tensors;
    /// Results without any pass, or none if the function cannot run.
    std::string results;
    bool hasRun = false;
  };

  /// Draws a program. Programs of files and their results are kept.
  Subject &getSubject(mlir::MLIRContext *context, Random &random);

  std::vector<std::string> sections;
  std::map<std::string, Subject> fromFiles;
  Subject generated;
};

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_ORDERS_H
