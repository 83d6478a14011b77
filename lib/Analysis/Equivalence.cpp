//===- Equivalence.cpp - Compare two pieces of IR -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/Equivalence.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

/// Prints `op` with everything that equivalence compares.
static std::string printWhole(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  flags.useLocalScope();
  op->print(os, flags);
  return text;
}

LogicalResult fuse::verifyIdentical(Operation *expected, Operation *actual) {
  if (OperationEquivalence::isEquivalentTo(expected, actual,
                                           OperationEquivalence::Flags::None))
    return success();
  std::string expectedText = printWhole(expected);
  std::string actualText = printWhole(actual);
  SmallVector<StringRef> expectedLines, actualLines;
  llvm::SplitString(expectedText, expectedLines, "\n");
  llvm::SplitString(actualText, actualLines, "\n");
  InFlightDiagnostic diag = expected->emitError("is not identical");
  size_t count = std::min(expectedLines.size(), actualLines.size());
  for (size_t i = 0; i < count; ++i)
    if (expectedLines[i] != actualLines[i]) {
      diag.attachNote() << "line " << i + 1
                        << ", expected: " << expectedLines[i].trim();
      diag.attachNote() << "line " << i + 1
                        << ", actual: " << actualLines[i].trim();
      return diag;
    }
  diag.attachNote() << "expected " << expectedLines.size() << " lines, got "
                    << actualLines.size();
  return diag;
}
