// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// Only the hidden value is quantized: the act_quantize is fused, and the
// remark says why it did not become an MLP.

// CHECK: [Passed] mixed#0
// CHECK-SAME: Family=act_quantize
// CHECK: [Analysis] mixed#0
// CHECK-SAME: a larger kernel stopped at fuse.linear: FUSE-N006
// CHECK-SAME: mixed-quantization
func.func @mixed(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                 %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
