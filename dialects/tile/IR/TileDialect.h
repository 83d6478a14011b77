//===- TileDialect.h - The tile dialect ----------------------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILEDIALECT_H
#define TILE_IR_TILEDIALECT_H

#include "mlir/IR/Dialect.h"

#include "tile/IR/TileDialect.h.inc"

#endif // TILE_IR_TILEDIALECT_H
