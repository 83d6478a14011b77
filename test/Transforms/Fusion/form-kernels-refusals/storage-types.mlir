// RUN: fuse-opt %s --mlir-disable-threading --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// A kernel stores both activations in one type.

// CHECK: [Passed] one_type#0
// CHECK-SAME: Family=mlp
func.func @one_type(%x: tensor<?x8xbf16>, %w1: tensor<16x8xf8E4M3FN>,
                    %w2: tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// CHECK: [Analysis] two_types#0
// CHECK-SAME: FUSE-N020 storage-types-differ
func.func @two_types(%x: tensor<?x8xbf16>, %w1: tensor<16x8xf8E4M3FN>,
                     %w2: tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xf8E5M2>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xf8E5M2>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// Gate and up read one value, which each quantizes to its own type.

// CHECK: [Analysis] gate_and_up#0
// CHECK-SAME: stopped at fuse.linear: FUSE-N020 storage-types-differ: the linears
// CHECK-SAME: read values that are stored in different types
func.func @gate_and_up(%x: tensor<?x8xbf16>, %w: tensor<16x8xf8E4M3FN>,
                       %w3: tensor<16x8xf8E5M2>,
                       %v: tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %g = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %q3 = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xf8E5M2>
  %u = fuse.linear %q3, %w3 scales(0.5, 0.25)
    : (tensor<?x8xf8E5M2>, tensor<16x8xf8E5M2>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 0.5
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %d = fuse.linear %h, %v scales(0.5, 0.25)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
