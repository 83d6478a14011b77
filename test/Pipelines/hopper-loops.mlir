// RUN: fuse-opt %s --fuse-hopper-pipeline="tokens=16 stage=tile" \
// RUN:   --fuse-gpu-pipeline="chip=sm_90a stage=gpu" | FileCheck %s

// A plan is a list of launches, so a loop over layers is unrolled before
// schedules are selected: two iterations are two launches of one kernel. Their
// weights are slices of stacked ones.

// CHECK-LABEL: func.func @layers(
// CHECK-SAME:    packed = [{{.*}}, recipe = "rows_256", {{.*}}offset = 0,
// CHECK-SAME:    recipe = "rows_256", {{.*}}offset = 4096,
// CHECK:         tile.launch @fuse_kernels::@mlp_decode_0
// CHECK:         tile.launch @fuse_kernels::@mlp_decode_0
// CHECK-NOT:     tile.launch
// CHECK-NOT:     gpu.launch_func
// CHECK:         return
func.func @layers(%x: tensor<16x64xbf16>, %ups: tensor<2x64x64xbf16>,
                  %down: tensor<64x64xbf16>) -> tensor<16x64xbf16> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x)
      -> tensor<16x64xbf16> {
    %up = tensor.extract_slice %ups[%i, 0, 0] [1, 64, 64] [1, 1, 1]
      : tensor<2x64x64xbf16> to tensor<64x64xbf16>
    %0 = func.call @layer(%h, %up, %down)
      : (tensor<16x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
        -> tensor<16x64xbf16>
    scf.yield %0 : tensor<16x64xbf16>
  }
  return %r : tensor<16x64xbf16>
}

func.func private @layer(%x: tensor<16x64xbf16>, %up: tensor<64x64xbf16>,
                         %down: tensor<64x64xbf16>) -> tensor<16x64xbf16> {
  %0 = fuse.mlp %x up(%up) down(%down) act(silu) rounding(exact)
    : (tensor<16x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<16x64xbf16>
  return %0 : tensor<16x64xbf16>
}
