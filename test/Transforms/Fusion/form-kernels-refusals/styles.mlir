// RUN: fuse-opt %s --mlir-disable-threading --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// One linear reads stored values, the other dequantized ones.

// CHECK: [Passed] one_form#0
// CHECK-SAME: Family=mlp
func.func @one_form(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                    %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %xd = fuse.dequantize %q scale 0.5 : (tensor<?x8xi8>) -> tensor<?x8xbf16>
  %w1d = fuse.dequantize %w1 scale 0.25 : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %u = fuse.linear %xd, %w1d
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %hd = fuse.dequantize %h scale 0.5 : (tensor<?x16xi8>) -> tensor<?x16xbf16>
  %w2d = fuse.dequantize %w2 scale 0.25 : (tensor<8x16xi8>) -> tensor<8x16xbf16>
  %d = fuse.linear %hd, %w2d
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// CHECK: [Analysis] two_forms#0
// CHECK-SAME: FUSE-N009 quantization-styles-differ
func.func @two_forms(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                     %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %xd = fuse.dequantize %q scale 0.5 : (tensor<?x8xi8>) -> tensor<?x8xbf16>
  %w1d = fuse.dequantize %w1 scale 0.25 : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %u = fuse.linear %xd, %w1d
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
