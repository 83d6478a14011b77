// RUN: fuse-opt %s --fuse-hopper-pipeline=stage=tile \
// RUN:   | FileCheck %s --check-prefix=TILE
// RUN: fuse-opt %s --fuse-hopper-pipeline=stage=nvvm \
// RUN:   | FileCheck %s --check-prefix=NVVM
// RUN: fuse-opt %s --fuse-hopper-pipeline | FileCheck %s --check-prefix=PTX
// RUN: fuse-opt %s --fuse-hopper-pipeline \
// RUN:   | fuse-translate --mlir-to-launch-plan \
// RUN:   | FileCheck %s --check-prefix=PLAN

// TILE-LABEL: func @mlp
// TILE: tile.launch @fuse_kernels::@mlp_decode_0
// TILE: tile.kernel @mlp_decode_0

// NVVM-LABEL: gpu.module @fuse_kernels
// NVVM: llvm.func @mlp_decode_0
// NVVM-NOT: tile.
// NVVM-NOT: scf.
// NVVM-NOT: arith.

// PTX-LABEL: func @mlp
// PTX: tile.launch @fuse_kernels::@mlp_decode_0
// PTX: gpu.binary @fuse_kernels
// PTX-SAME: .version 8.0
// PTX-SAME: .target sm_90a
// PTX-SAME: .visible .entry mlp_decode_0(

// PLAN: {"launches":[{"function":"mlp"
// PLAN-SAME: "inputs":["tensor<?x64xbf16>"
// PLAN-SAME: "kernel":"mlp_decode_0"
// PLAN-SAME: "module":"fuse_kernels"
// PLAN-SAME: "outputs":["tensor<?x64xbf16>"]
// PLAN-SAME: "recipe":"rows_256"
// PLAN-SAME: "chip":"sm_90a"
// PLAN-SAME: "version":1

func.func @mlp(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
               %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
