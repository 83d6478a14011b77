// RUN: fuse-opt %s --fuse-hopper-pipeline="dispatch=1 tokens=16 stage=tile" \
// RUN:   --fuse-gpu-pipeline="chip=sm_90a stage=gpu" | FileCheck %s
// RUN: fuse-opt %s --fuse-hopper-pipeline="tokens=16 stage=tile" \
// RUN:   --fuse-gpu-pipeline="chip=sm_90a stage=nvvm" \
// RUN:   | FileCheck %s --check-prefix=NVVM
// RUN: fuse-opt %s --fuse-hopper-pipeline=tokens=16 \
// RUN:   --fuse-gpu-pipeline=chip=sm_90a | FileCheck %s --check-prefix=PTX
// RUN: fuse-opt %s --fuse-hopper-pipeline="tokens=16 stage=nvvm" \
// RUN:   --fuse-gpu-pipeline=chip=sm_90a | FileCheck %s --check-prefix=PTX

// The GPU pipeline takes what the Hopper pipeline leaves. One function has the
// launches of both, in the order of its ops, and one plan with all of them: it
// has a range where a scheduled op has one. Results are written in place.

// CHECK-LABEL: func.func @two(
// CHECK-SAME:    %[[X:[^:]*]]: memref<?x64xbf16>
// CHECK-SAME:    %[[RESULT:[^:]*]]: memref<?x64xbf16> {fuse.result})
// CHECK-SAME:  fuse.launch_plan = {max_tokens = 16 : i64
// CHECK-SAME:  packed = [{bytes = 32768 : i64, operands = array<i64: 1>, recipe = "rows_256"
// CHECK-SAME:  ranges = [
// CHECK-SAME:  args = [{buffer = "ws0", offset = 0 : i64}
// CHECK-SAME:  {packed = 0 : i64}, {packed = 1 : i64}, "arg0", "ws1", {bytes = 4 : i64, size =
// CHECK-SAME:  dependent = false
// CHECK-SAME:  kernel = @fuse_kernels::@mlp_decode_0
// CHECK-SAME:  args = ["arg0", "ws1", "ws1"
// CHECK-SAME:  kernel = @kernels::@map_bf16_bf16_bf16
// CHECK-SAME:  "ws1", "arg3"
// CHECK-SAME:  kernel = @fuse_kernels::@mlp_decode_0
// CHECK-SAME:  upto = 8 : i64
// CHECK-SAME:  kernel = @fuse_kernels::@mlp_decode_1
// CHECK-SAME:  upto = 16 : i64
// CHECK:         %[[BETWEEN:.*]] = memref.alloc
// CHECK:         tile.dispatch %[[X]] outs(%[[BETWEEN]])
// CHECK:           tile.launch @fuse_kernels::@mlp_decode_0 ins(%[[X]], {{.*}} outs(%[[BETWEEN]] :
// CHECK:         gpu.launch_func @kernels::@map_bf16_bf16_bf16
// CHECK:         tile.dispatch %[[BETWEEN]] outs(%[[RESULT]])
// CHECK:       gpu.module @fuse_kernels {
// CHECK:         tile.kernel @mlp_decode_0
// CHECK:       gpu.module @kernels {
// CHECK:         gpu.func @map_bf16_bf16_bf16

// NVVM:        tile.launch @fuse_kernels::@mlp_decode_0
// NVVM:        gpu.module @fuse_kernels [#nvvm.target<O = 3, chip = "sm_90a"
// NVVM:        llvm.func @mlp_decode_0
// NVVM-NOT:    tile.kernel
// NVVM:        gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_90a"

// PTX:         tile.launch @fuse_kernels::@mlp_decode_0
// PTX:         gpu.binary @fuse_kernels [#gpu.object
// PTX-SAME:    .entry mlp_decode_0
// PTX:         gpu.binary @kernels [#gpu.object
// PTX-SAME:    .entry map_bf16_bf16_bf16
func.func @two(%x: tensor<?x64xbf16>, %up: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %0 = func.call @mlp(%x, %up, %down)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<?x64xbf16>
  %1 = fuse.residual_add %x, %0
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %2 = func.call @mlp(%1, %up, %down)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<?x64xbf16>
  return %2 : tensor<?x64xbf16>
}

func.func private @mlp(%x: tensor<?x64xbf16>, %up: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %0 = fuse.mlp %x up(%up) down(%down) act(silu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<?x64xbf16>
  return %0 : tensor<?x64xbf16>
}
