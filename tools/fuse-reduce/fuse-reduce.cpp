//===- fuse-reduce.cpp - Make failing IR smaller --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/InitAllDialects.h"
#include "fuse/InitAllPasses.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  fuse::registerAllDialects(registry);
  mlir::registerAllPasses();
  fuse::registerAllPasses();
  mlir::MLIRContext context(registry);
  // Passes run inside of the reduction pass, too late to load what they need.
  context.loadAllAvailableDialects();
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
