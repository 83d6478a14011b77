//===- fuse-translate.cpp - Translate modules to launch plans -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/TextLimits.h"
#include "fuse/Target/TileLaunchPlan.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  if (llvm::Error error = fuse::checkInputFiles(argc, argv)) {
    llvm::errs() << "fuse-translate: error: "
                 << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  fuse::registerLaunchPlanTranslation();
  return mlir::failed(
      mlir::mlirTranslateMain(argc, argv, "fuse translation driver"));
}
