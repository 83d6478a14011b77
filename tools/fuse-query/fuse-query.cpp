//===- fuse-query.cpp - Ask which ops match -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/InitAllDialects.h"
#include "fuse/Support/TextLimits.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Query/Matcher/MatchersInternal.h"
#include "mlir/Query/Matcher/Registry.h"
#include "mlir/Query/Matcher/SliceMatchers.h"
#include "mlir/Tools/mlir-query/MlirQueryMain.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  fuse::registerAllDialects(registry);
  mlir::MLIRContext context(registry);

  mlir::query::matcher::Registry matchers;
  matchers.registerMatcher(
      "hasOpName",
      static_cast<mlir::detail::NameOpMatcher (*)(llvm::StringRef)>(
          mlir::m_Op));
  matchers.registerMatcher(
      "hasOpAttrName",
      static_cast<mlir::detail::AttrOpMatcher (*)(llvm::StringRef)>(
          mlir::m_Attr));
  if (llvm::Error error = fuse::checkInputFiles(argc, argv)) {
    llvm::errs() << "fuse-query: error: " << llvm::toString(std::move(error))
                 << "\n";
    return 1;
  }
  return mlir::failed(mlir::mlirQueryMain(argc, argv, context, matchers));
}
