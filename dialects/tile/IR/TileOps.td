//===- TileOps.td - Operations of the tile dialect ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILEOPS_TD
#define TILE_IR_TILEOPS_TD

include "tile/IR/TileKernelOps.td"
include "tile/IR/TileLaunchOps.td"
include "tile/IR/TileMemoryOps.td"
include "tile/IR/TileComputeOps.td"

#endif // TILE_IR_TILEOPS_TD
