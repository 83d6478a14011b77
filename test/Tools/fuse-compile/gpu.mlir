// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never --tokens=8 \
// RUN:   -o %t.fuse
// RUN: fuse-artifact info %t.fuse | FileCheck %s --check-prefixes=CHECK,TILE
// RUN: fuse-artifact info --ptx %t.fuse | FileCheck %s --check-prefix=PTX
// RUN: fuse-artifact info --json %t.fuse | FileCheck %s --check-prefix=JSON

// The portable path takes everything if it must.
// RUN: fuse-compile %s --cpu=none --chip=sm_80 --portable --assemble=never \
// RUN:   -o %t.80.fuse
// RUN: fuse-artifact info %t.80.fuse | FileCheck %s --check-prefixes=CHECK,PORTABLE

// Other chips than sm_90a have kernels of their own PTX version.
// RUN: fuse-compile %s --cpu=none --chip=sm_86 --assemble=never --tokens=8 \
// RUN:   -o %t.86.fuse
// RUN: fuse-artifact info %t.86.fuse | FileCheck %s --check-prefix=MMA

// A table of fuse-tune decides for the widths that it has.
// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never --tokens=64 \
// RUN:   --schedules=%S/../../Transforms/Inputs/schedules.json -o %t.tuned.fuse
// RUN: fuse-artifact info %t.tuned.fuse | FileCheck %s --check-prefix=TUNED
// TUNED: @tuned
// TUNED: tokens 33 to 64
// TUNED: launch mlp_decode_{{[0-9]+}} grid (2, 1, 1) block [384,1,1] shared 81920

// CHECK-NOT: CPU
// CHECK: @mlp

// TILE: tokens at most 8
// TILE: CUDA sm_90a, PTX 8.0
// TILE: tokens 1 to 8
// TILE: workspace {{[0-9]+}} bytes
// TILE: launch mlp_decode_0 grid (1, 1, 1) block [384,1,1]
// TILE-SAME: cooperative dependent
// TILE: packed rows_256 of arguments [1], {{[0-9]+}} bytes
// TILE: packed rows_256 of arguments [2], {{[0-9]+}} bytes

// MMA: CUDA sm_86, PTX 7.1
// MMA: tokens 1 to 8
// MMA: launch mlp_mma_0 grid (132, 1, 1) block [256,1,1] shared {{[0-9]+}}
// MMA-SAME: cooperative

// PORTABLE-NOT: tokens
// PORTABLE: CUDA sm_80, PTX 7.0
// PORTABLE: workspace ["mul","s0",256] bytes

// A function that the scheduled path does not take as a whole goes the other
// way as a whole.
// CHECK: @add
// CHECK: launch map_{{.*}} block [256,1,1]

// PTX: .version 8.0
// PTX: .entry mlp_decode_0
// PTX: .version 8.0
// PTX: .entry map_

// JSON: "format": 4
// JSON: "cooperative": true
// JSON: "recipe": "rows_256"
// JSON: "kind": "PTX"

func.func @mlp(%x: tensor<?x64xbf16>, %up: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %0 = fuse.linear %x, %up
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %1 = fuse.activation silu %0 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %2 = fuse.linear %1, %down
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  return %2 : tensor<?x64xbf16>
}

func.func @add(%x: tensor<?x64xbf16>, %y: tensor<?x64xbf16>)
    -> tensor<?x64xbf16> {
  %0 = fuse.residual_add %x, %y
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %0 : tensor<?x64xbf16>
}

// A schedule with a launch for the input and one for each product: all see one
// workspace, and each product reads its own weights.
// TILE: @three_launches
// TILE-NOT: tokens 1
// TILE: workspace {{[0-9]+}} bytes
// TILE: launch mlp_prefill_0
// TILE: launch mlp_prefill_1 grid (2, 1, 1)
// TILE-SAME: dependent
// TILE: launch mlp_prefill_2 grid (2, 1, 1)
// TILE-SAME: dependent
// TILE: packed rows_256 of arguments [1]
// TILE: packed rows_256 of arguments [2]
func.func @three_launches(%x: tensor<?x64xbf16>, %up: tensor<256x64xbf16>,
    %down: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %0 = fuse.mlp %x up(%up) down(%down) act(relu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 8, blocks = 2,
          split_k = 1, stages = 2, group = 1, dependent = true>}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %0 : tensor<?x64xbf16>
}

func.func @tuned(%x: tensor<?x64xbf16>, %up: tensor<256x64xbf16>,
    %down: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %0 = fuse.mlp %x up(%up) down(%down) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %0 : tensor<?x64xbf16>
}
