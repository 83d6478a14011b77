// RUN: fuse-opt %s \
// RUN:   --fuse-quantize-linears="scales=%S/../Inputs/scales.json weights=stored" \
// RUN:   --fuse-form-kernels | FileCheck %s
// RUN: fuse-opt %s --fuse-quantize-linears="scales=%S/../Inputs/scales.json \
// RUN:   weights=stored activations=none" --fuse-form-kernels \
// RUN:   | FileCheck %s --check-prefix=NONE

// The caller passes stored weights, which the kernel reads.

// CHECK-LABEL: func @mlp
// CHECK-SAME:    %[[GATE:[a-z0-9]+]]: tensor<16x8xf8E4M3FN> {fuse.parameter
// CHECK:       fuse.gated_mlp %arg0 gate(%[[GATE]])
// CHECK-SAME:    scales(f8E4M3FN, input = 0.5, gate = 0.25,

// Without quantized activations, the kernel dequantizes the weights.

// NONE:        fuse.gated_mlp %arg0 gate(%arg1) up(%arg2) down(%arg3)
// NONE-SAME:     scales(f8E4M3FN, gate = 0.25, up = 0.125,
// NONE-SAME:     down = per_channel, form = weight_only)

func.func @mlp(
    %x: tensor<?x8xbf16>,
    %wg: tensor<16x8xbf16> {fuse.parameter = "gate_proj.weight"},
    %wu: tensor<16x8xbf16> {fuse.parameter = "up_proj.weight"},
    %wd: tensor<8x16xbf16> {fuse.parameter = "down_proj.weight"})
    -> tensor<?x8xbf16> {
  %g = fuse.linear %x, %wg
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %x, %wu
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = fuse.linear %p, %wd
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
