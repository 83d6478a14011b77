// RUN: fuse-opt %s --mlir-disable-threading --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// Gate and up quantize one value: with one scale they share it, with two they
// are no pair. fuse-repair-scales=inputs=largest brings both to the larger.

// RUN: fuse-opt %s --fuse-repair-scales=inputs=largest --fuse-form-kernels \
// RUN:   | FileCheck %s --check-prefix=REPAIRED

// CHECK: [Passed] shared#0
// CHECK-SAME: Family=gated_mlp
func.func @shared(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>,
                  %v: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %g = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %v scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// CHECK: [Analysis] apart#0
// CHECK-SAME: FUSE-N019 input-scales-differ
// REPAIRED-LABEL: func @apart
// REPAIRED: fuse.gated_mlp
// REPAIRED-SAME: scales(i8, input = 0.75,
func.func @apart(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>,
                 %v: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %g = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %q2 = fuse.quantize %x scale 0.75 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q2, %w scales(0.75, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %v scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
