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

using PassOrder = std::vector<const OrderPass *>;

/// Parses passes that are separated by commas, such as `cse,inline`. Returns an
/// error message, or an empty string.
std::string parsePassOrder(llvm::StringRef text, PassOrder &order);
std::string printPassOrder(llvm::ArrayRef<const OrderPass *> order);

/// Statistics of `OrderChecker`.
struct OrderCounts {
  /// Orders, the passes that ran in them, and those of them that refused their
  /// input with an error.
  uint64_t orders = 0, passes = 0, refused = 0;
  /// Orders whose results were not compared: the program does not run without
  /// any pass, its function has another signature or is for another device, or
  /// the CPU pipeline does not support the IR.
  uint64_t unrun = 0, changed = 0, unlowered = 0;
  /// Orders whose results were compared, those of them that ran on buffers, and
  /// those of passes that all preserve bits.
  uint64_t compared = 0, buffers = 0, exact = 0;
  /// Orders with other results.
  uint64_t differing = 0;
};

/// Outcome of one order on one program.
struct OrderOutcome : Outcome {
  PassOrder order;
};

/// Runs passes of this project and of MLIR in random orders on programs of
/// files and on random programs. No pass may crash, hang, fail without an error
/// or produce invalid IR. If the program still runs, it must give the same
/// results. A pass that refuses its input is skipped.
class OrderChecker {
public:
  /// Adds a wrong pass to each order with `plants`.
  explicit OrderChecker(bool plants = false) : plants(plants) {}

  /// Reads the valid modules of the `.mlir` files in folders, ordered by name.
  /// Returns an error message, or an empty string.
  std::string load(llvm::ArrayRef<std::string> folders,
                   mlir::MLIRContext *context);

  /// The program of a seed.
  mlir::OwningOpRef<mlir::ModuleOp> generate(mlir::MLIRContext *context,
                                             uint64_t seed);

  /// Checks one order of passes, in child processes. A failing order has only
  /// the passes without which it does not fail.
  OrderOutcome check(mlir::MLIRContext *context, uint64_t seed);

  /// Checks an order on a program, whose function is the only public one with
  /// results.
  OrderOutcome check(mlir::ModuleOp module, const PassOrder &order);

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

  /// A program as it is, or one function of it.
  static Subject makeSubject(mlir::ModuleOp module,
                             mlir::func::FuncOp function);
  /// Draws a program. Programs of files and their results are kept.
  Subject &getSubject(mlir::MLIRContext *context, Random &random);
  OrderOutcome run(mlir::MLIRContext *context, const Subject &subject,
                   const PassOrder &order);
  void count(const Subject &subject, const Outcome &outcome);

  bool plants;
  std::vector<std::string> sections;
  std::map<std::string, Subject> fromFiles;
  Subject generated;
};

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_ORDERS_H
