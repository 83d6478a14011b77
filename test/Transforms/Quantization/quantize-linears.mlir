// RUN: fuse-opt %s --fuse-quantize-linears=scales=%S/../Inputs/scales.json | FileCheck %s
// RUN: fuse-opt %s --fuse-quantize-linears=scales=%S/../Inputs/scales.json \
// RUN:   --fuse-form-kernels | FileCheck %s --check-prefix=FORMED
// RUN: fuse-opt %s --fuse-quantize-linears="scales=%S/../Inputs/scales.json type=i8" \
// RUN:   --fuse-check-unfuse | FileCheck %s --check-prefix=INT8
// RUN: fuse-opt %s \
// RUN:   --fuse-quantize-linears="scales=%S/../Inputs/scales.json order=divide" \
// RUN:   --fuse-form-kernels | FileCheck %s --check-prefix=DIVIDE

// Static scales. Gate and up read one value with one scale, so they share its
// quantize op. The scales of down are one per channel, a new argument.

// CHECK-LABEL: func @mlp
// CHECK-SAME:    %[[SD:arg4]]: tensor<8xf32>
// CHECK-SAME:    {fuse.parameter = "down_proj.weight_scale"})
// CHECK:       %[[X:.*]] = fuse.quantize %arg0 scale 0.5
// CHECK-SAME:    tensor<?x8xf8E4M3FN>
// CHECK:       %[[WG:.*]] = fuse.quantize %arg1 scale 0.25
// CHECK:       fuse.linear %[[X]], %[[WG]] scales(0.5, 0.25)
// CHECK-NOT:   fuse.quantize %arg0
// CHECK:       %[[WU:.*]] = fuse.quantize %arg2 scale 0.125
// CHECK:       fuse.linear %[[X]], %[[WU]] scales(0.5, 0.125)
// CHECK:       %[[H:.*]] = fuse.quantize %{{.*}} scale 2.0
// CHECK:       %[[WD:.*]] = fuse.quantize %arg3 channel_scale(%[[SD]])
// CHECK:       fuse.linear %[[H]], %[[WD]] channel_scale(%[[SD]])
// CHECK-SAME:    scales(2.0, per_channel)

// FORMED:      fuse.gated_mlp %arg0
// FORMED-SAME:   scales(f8E4M3FN, input = 0.5, gate = 0.25, up = 0.125,
// FORMED-SAME:     hidden = 2.0, down = per_channel)

// INT8:        fuse.quantize %arg0 scale 0.5 : (tensor<?x8xbf16>)
// INT8-SAME:     tensor<?x8xi8>

// The order applies to activations; weights are always multiplied by the
// reciprocal of their scale.

// DIVIDE:      fuse.gated_mlp %arg0
// DIVIDE-SAME:   down = per_channel, order = divide)

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
