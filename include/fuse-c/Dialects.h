/*===- fuse-c/Dialects.h - The dialects for the C API of MLIR -----*- C -*-===*
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * For hosts that use MLIR themselves, unlike those of the other headers:
 * libfuse hides its MLIR, or contains its own copy. These functions are in
 * libFusePlugin, which shares libMLIR with the host.
 *
 *===----------------------------------------------------------------------===*/

#ifndef FUSE_C_DIALECTS_H
#define FUSE_C_DIALECTS_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mlirGetDialectHandle__fuse__, mlirGetDialectHandle__nn__,
 * mlirGetDialectHandle__stage__, mlirGetDialectHandle__tile__ */
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Fuse, fuse);
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(NN, nn);
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Stage, stage);
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Tile, tile);

/* Adds these dialects, the kernels that slots can be bound to, and the
 * translations that passes use. */
MLIR_CAPI_EXPORTED void fuseRegisterAllDialects(MlirDialectRegistry registry);

/* Registers the passes and pipelines of fuse for the parser of pipelines. May
 * be called again; a plugin that is loaded as well registers them once. */
MLIR_CAPI_EXPORTED void fuseRegisterAllPasses(void);

/* Version of the IR, as in `fuse.version`. */
MLIR_CAPI_EXPORTED unsigned fuseGetIRVersion(void);

#ifdef __cplusplus
}
#endif

#endif /* FUSE_C_DIALECTS_H */
