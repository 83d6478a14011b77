// RUN: fuse-opt %s --mlir-disable-threading --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// A static scale is known before the function runs; one that is measured is
// not, and no kernel holds both products.

// CHECK: [Passed] static_scales#0
// CHECK-SAME: Family=mlp
func.func @static_scales(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                         %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// The scale of the hidden value needs all of it.

// CHECK: [Missed] dynamic_hidden#0
// CHECK-SAME: At=fuse.dynamic_quantize
// CHECK-SAME: FUSE-N017 dynamic-scale
func.func @dynamic_hidden(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                          %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h, %s = fuse.dynamic_quantize per_token %a
    : (tensor<?x16xbf16>) -> (tensor<?x16xi8>, tensor<?xf32>)
  %d = fuse.linear %h, %w2 dynamic_scale(%s) scales(dynamic, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>, tensor<?xf32>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// CHECK: [Missed] dynamic_input#0
// CHECK-SAME: At=fuse.linear
// CHECK-SAME: FUSE-N017 dynamic-scale
func.func @dynamic_input(%q: tensor<?x8xi8>, %s: tensor<?xf32>,
                         %w1: tensor<16x8xi8>, %w2: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %u = fuse.linear %q, %w1 dynamic_scale(%s) scales(dynamic, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>, tensor<?xf32>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// CHECK: [Missed] dynamic_norm#0
// CHECK-SAME: FUSE-N017 dynamic-scale
func.func @dynamic_norm(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>)
    -> tensor<?x16xbf16> {
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %q, %s = fuse.dynamic_quantize per_tensor %n
    : (tensor<?x8xbf16>) -> (tensor<?x8xi8>, tensor<1xf32>)
  %u = fuse.linear %q, %w dynamic_scale(%s) scales(dynamic, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>, tensor<1xf32>) -> tensor<?x16xbf16>
  return %u : tensor<?x16xbf16>
}
