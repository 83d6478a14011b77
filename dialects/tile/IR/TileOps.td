//===- TileOps.td - Operations of the tile dialect ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILEOPS_TD
#define TILE_IR_TILEOPS_TD

include "TileKernelOps.td"
include "TileLaunchOps.td"
include "TileMemoryOps.td"
include "TileComputeOps.td"

#endif // TILE_IR_TILEOPS_TD
