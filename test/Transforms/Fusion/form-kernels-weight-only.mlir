// RUN: fuse-opt %s --fuse-form-kernels | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// Dequantize ops of weights are members of the kernel if they have no other
// users.

// CHECK-LABEL: func @gated
// CHECK-SAME: %[[X:.*]]: tensor<?x8xbf16>, %[[G:.*]]: tensor<16x8xf8E4M3FN>,
// CHECK-SAME: %[[D:.*]]: tensor<8x16xf8E4M3FN>, %[[S:.*]]: tensor<8xf32>
// CHECK-NEXT: fuse.gated_mlp %[[X]] gate(%[[G]]) up(%[[G]]) down(%[[D]])
// CHECK-SAME: act(gelu_tanh) channel_scales(%[[S]])
// CHECK-SAME: scales(f8E4M3FN, gate = 0.25, up = 0.5, down = per_channel,
// CHECK-SAME: form = weight_only) rounding(exact)
func.func @gated(%x: tensor<?x8xbf16>, %w: tensor<16x8xf8E4M3FN>,
                 %v: tensor<8x16xf8E4M3FN>, %s: tensor<8xf32>)
    -> tensor<?x8xbf16> {
  %wg = fuse.dequantize %w scale 0.25
    : (tensor<16x8xf8E4M3FN>) -> tensor<16x8xbf16>
  %g = fuse.linear %x, %wg
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation gelu_tanh %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %wu = fuse.dequantize %w scale 0.5
    : (tensor<16x8xf8E4M3FN>) -> tensor<16x8xbf16>
  %u = fuse.linear %x, %wu
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %wd = fuse.dequantize %v channel_scale(%s)
    : (tensor<8x16xf8E4M3FN>, tensor<8xf32>) -> tensor<8x16xbf16>
  %d = fuse.linear %p, %wd
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// If one dequantize op has another user, none of them is a member.

// CHECK-LABEL: func @shared
// CHECK: fuse.dequantize
// CHECK: fuse.mlp %{{.*}} up(%{{.*}}) down(%{{.*}}) act(silu) rounding(exact)
func.func @shared(%x: tensor<?x8xbf16>, %w: tensor<8x8xi8>)
    -> (tensor<?x8xbf16>, tensor<8x8xbf16>) {
  %wu = fuse.dequantize %w scale 0.25 : (tensor<8x8xi8>) -> tensor<8x8xbf16>
  %u = fuse.linear %x, %wu
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %a = fuse.activation silu %u : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %wd = fuse.dequantize %w scale 0.25 : (tensor<8x8xi8>) -> tensor<8x8xbf16>
  %d = fuse.linear %a, %wd
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %d, %wu : tensor<?x8xbf16>, tensor<8x8xbf16>
}

// CHECK-LABEL: func @projections
// CHECK: fuse.norm_linear
// CHECK-SAME: scales(i8, weight0 = 0.25, weight1 = 0.5, form = weight_only)
func.func @projections(%x: tensor<?x8xbf16>, %w: tensor<8x8xi8>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %wq = fuse.dequantize %w scale 0.25 : (tensor<8x8xi8>) -> tensor<8x8xbf16>
  %q = fuse.linear %n, %wq
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %wk = fuse.dequantize %w scale 0.5 : (tensor<8x8xi8>) -> tensor<8x8xbf16>
  %k = fuse.linear %n, %wk
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %q, %k : tensor<?x8xbf16>, tensor<?x8xbf16>
}
