// RUN: fuse-opt %s \
// RUN:   --fuse-quantize-linears="scales=%S/../Inputs/scales.json activations=per_token" \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --fuse-quantize-linears="scales=%S/../Inputs/scales.json \
// RUN:   activations=per_tensor type=i8" | FileCheck %s --check-prefix=TENSOR

// Linears that read the same value share its dynamic scale.

// CHECK:       %[[X:.*]], %[[S:.*]] = fuse.dynamic_quantize per_token %arg0
// CHECK:       fuse.linear %[[X]], %{{.*}} dynamic_scale(%[[S]])
// CHECK-SAME:    scales(dynamic, 0.25)
// CHECK:       fuse.linear %[[X]], %{{.*}} dynamic_scale(%[[S]])
// CHECK-SAME:    scales(dynamic, 0.125)
// CHECK:       fuse.linear %{{.*}} channel_scale(%arg4) dynamic_scale(%{{[0-9a-z_]+}})
// CHECK-SAME:    scales(dynamic, per_channel)

// TENSOR:      fuse.dynamic_quantize per_tensor %arg0
// TENSOR-SAME:   (tensor<?x8xi8>, tensor<1xf32>)

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
