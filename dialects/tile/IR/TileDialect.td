//===- TileDialect.td - The tile dialect -------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TILE_IR_TILEDIALECT_TD
#define TILE_IR_TILEDIALECT_TD

include "mlir/IR/DialectBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let summary = "Schedules of Hopper kernels";
  let description = [{
    Ops of a warp-specialized kernel for sm_90a, one per concept of a schedule:
    rings of stages in shared memory, bulk and tensor copies into a stage,
    matrix products on named accumulators, semaphores between the blocks of a
    grid, roles of warps. Index arithmetic, control flow and epilogue math are
    upstream ops (arith, math, scf) between them.

    The dialect has no ops that are specific to neural networks.
    `convert-tile-to-nvvm` lowers each op separately; the PTX of an op is part
    of its description.

    **Memory.** A `!tile.buffer` is global or shared memory, represented as a
    flat array of elements. A `!tile.ring<6 x 32768>` is six stages of 32768
    bytes in dynamic shared memory with a full and an empty mbarrier each. The
    j-th use of the ring uses stage `j mod 6`; the parity of its mbarriers is
    `(j / 6) mod 2`. Producer and consumer therefore need only one counter.

    **Registers.** A `!tile.acc<64x56xf32>` is the part of a 64x56 product in
    the registers of one warpgroup. It is lowered to one SSA value per register,
    so that fences and waits can tie them. LLVM treats register arithmetic as
    pure and would move it across a fence without such ties.

    **Between blocks.** Semaphores count arrivals and are never reset. Every
    launch has an epoch, which is computed from a ticket that each block draws
    once. A semaphore with `n` arrivals per launch is complete in epoch `e` when
    it has reached `(e + 1) * n`. The waiter need not be one of the arrivers,
    nothing depends on the host, and a captured launch can be replayed.

    **Attributes of other ops.** `tile.schedule` on a fused op is its schedule.
    `tile.rolled` on an `scf.for` prevents unrolling in PTX. Other names that
    begin with `tile.` are errors, because a schedule under a misspelled name
    would be ignored.
  }];
  let cppNamespace = "::tile";
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::memref::MemRefDialect"
  ];
}

#endif // TILE_IR_TILEDIALECT_TD
