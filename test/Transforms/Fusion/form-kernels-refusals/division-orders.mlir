// RUN: fuse-opt %s --mlir-disable-threading --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// The order is part of the scales of a kernel, which has one.

// CHECK: [Passed] one_order#0
// CHECK-SAME: Family=mlp
func.func @one_order(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                     %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 order divide
    : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 order divide
    : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// CHECK: [Analysis] two_orders#0
// CHECK-SAME: FUSE-N021 division-orders-differ
func.func @two_orders(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                      %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 order divide
    : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
