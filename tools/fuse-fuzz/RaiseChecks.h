//===- RaiseChecks.h - Raising of changed formulas --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A formula that is nearly a layer must not become one. This changes a few ops,
// operands and constants of functions that are raised as they are, and runs the
// raised function beside the changed one.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TOOLS_FUSE_FUZZ_RAISECHECKS_H
#define FUSE_TOOLS_FUSE_FUZZ_RAISECHECKS_H

#include "Checks.h"

#include <string>
#include <vector>

namespace fuse {

/// Creates valid modules from the functions of files and from random layers
/// that are written out.
class FormulaMutator {
public:
  /// Reads the `.mlir` files in a folder, ordered by name. Sections that do not
  /// parse are left out. Returns an error message, or an empty string.
  std::string load(llvm::StringRef folder, mlir::MLIRContext *context);

  /// One function, in which at most four things were changed at random. Null
  /// if the result is not valid.
  mlir::OwningOpRef<mlir::ModuleOp> generate(mlir::MLIRContext *context,
                                             Random &random) const;

private:
  /// Modules of one public function.
  std::vector<std::string> functions;
};

/// Forms the kernels of a copy of `module`, and compares the results with those
/// of the module. Raising a second time must change nothing. With `plants`, the
/// copy gets another fault afterwards. Returns the name of the first check that
/// fails, after an error has been emitted.
llvm::StringRef checkRaising(mlir::ModuleOp module, Random &random,
                             CheckCounts &counts, bool plants);

} // namespace fuse

#endif // FUSE_TOOLS_FUSE_FUZZ_RAISECHECKS_H
