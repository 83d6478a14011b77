//===- ParseModule.cpp - Fuzz the text of modules -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Processes text like fuse-run and the C API: limits, parser, verifier. A valid
// module has to survive printing and parsing.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseDialect.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Support/TextLimits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "nn/IR/NNOps.h"

#include <cstdint>
#include <cstdlib>

using namespace mlir;
using namespace fuse;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // The parser requires a zero byte after the text, as the C API provides it.
  std::string text(reinterpret_cast<const char *>(data), size);
  if (llvm::Error error = checkTextLimits(text)) {
    llvm::consumeError(std::move(error));
    return 0;
  }
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<FuseDialect, NNDialect, arith::ArithDialect,
                      func::FuncDialect>();
  ScopedDiagnosticHandler quiet(&context,
                                [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(&context));
  if (!module)
    return 0;
  std::string printed;
  llvm::raw_string_ostream(printed) << *module;
  if (!parseSourceString<ModuleOp>(printed, ParserConfig(&context)))
    std::abort();
  return 0;
}
