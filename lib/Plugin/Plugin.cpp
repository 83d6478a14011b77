//===- Plugin.cpp - Fuse as a plugin and for MLIR's C API -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Dialects.h"
#include "fuse/InitAllDialects.h"
#include "fuse/InitAllPasses.h"
#include "fuse/Support/IRVersion.h"
#include "fuse/Target/PTX.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

#include <mutex>

using namespace mlir;

static void addDialects(DialectRegistry *registry) {
  fuse::registerAllDialects(*registry);
  fuse::registerPTXTranslation(*registry);
}

static void addPasses() {
  // MLIR refuses a second pipeline of a name.
  static std::once_flag once;
  std::call_once(once, fuse::registerAllPasses);
}

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Fuse", FUSE_VERSION, addDialects};
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Fuse", FUSE_VERSION, addPasses};
}

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Fuse, fuse, fuse::FuseDialect)
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(NN, nn, fuse::NNDialect)
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Stage, stage, stage::StageDialect)
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Tile, tile, tile::TileDialect)

void fuseRegisterAllDialects(MlirDialectRegistry registry) {
  addDialects(unwrap(registry));
}

void fuseRegisterAllPasses() { addPasses(); }

unsigned fuseGetIRVersion() { return fuse::getIRVersions().current; }
