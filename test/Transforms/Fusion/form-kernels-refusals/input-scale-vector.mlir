// RUN: fuse-opt %s --mlir-disable-threading --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// Weights may have one scale per output channel, activations have one number.

// CHECK: [Passed] weights#0
// CHECK-SAME: Family=mlp
func.func @weights(%x: tensor<8x8xbf16>, %s: tensor<8xf32>,
                   %w: tensor<8x8xi8>) -> tensor<8x8xbf16> {
  %q = fuse.quantize %x scale 0.5 : (tensor<8x8xbf16>) -> tensor<8x8xi8>
  %u = fuse.linear %q, %w channel_scale(%s) scales(0.5, per_channel)
    : (tensor<8x8xi8>, tensor<8x8xi8>, tensor<8xf32>) -> tensor<8x8xbf16>
  %a = fuse.activation silu %u : tensor<8x8xbf16> -> tensor<8x8xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<8x8xbf16>) -> tensor<8x8xi8>
  %d = fuse.linear %h, %w scales(0.5, 0.25)
    : (tensor<8x8xi8>, tensor<8x8xi8>) -> tensor<8x8xbf16>
  return %d : tensor<8x8xbf16>
}

// CHECK: [Analysis] activations#0
// CHECK-SAME: a larger kernel stopped at fuse.quantize: FUSE-N018
// CHECK-SAME: input-scale-not-one-number
func.func @activations(%x: tensor<8x8xbf16>, %s: tensor<8xf32>,
                       %w: tensor<8x8xi8>) -> tensor<8x8xbf16> {
  %q = fuse.quantize %x channel_scale(%s)
    : (tensor<8x8xbf16>, tensor<8xf32>) -> tensor<8x8xi8>
  %u = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<8x8xi8>, tensor<8x8xi8>) -> tensor<8x8xbf16>
  %a = fuse.activation silu %u : tensor<8x8xbf16> -> tensor<8x8xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<8x8xbf16>) -> tensor<8x8xi8>
  %d = fuse.linear %h, %w scales(0.5, 0.25)
    : (tensor<8x8xi8>, tensor<8x8xi8>) -> tensor<8x8xbf16>
  return %d : tensor<8x8xbf16>
}
