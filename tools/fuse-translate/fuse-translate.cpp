//===- fuse-translate.cpp - Write what a host loads -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Target/TileLaunchPlan.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

int main(int argc, char **argv) {
  fuse::registerLaunchPlanTranslation();
  return mlir::failed(
      mlir::mlirTranslateMain(argc, argv, "fuse translation driver"));
}
