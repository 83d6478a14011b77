// RUN: fuse-opt %s --fuse-repair-scales -verify-diagnostics \
// RUN:   --remarks-filter=quant --remark-format=emitRemark | FileCheck %s

// By default, different scales are only reported.

// CHECK-LABEL: func @unequal
// CHECK-NOT: fuse.dequantize
func.func @unequal(%x: tensor<?x8xbf16>, %wg: tensor<16x8xf8E4M3FN>,
                   %wu: tensor<16x8xf8E4M3FN>, %wd: tensor<8x16xf8E4M3FN>)
    -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 1.0
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %g = fuse.linear %q, %wg scales(1.0, 0.5)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %q, %wu scales(1.0, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Analysis] unequal-scales{{.*}}gate and up keep their own scales; ratio 2.00}}
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 1.0
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %d = fuse.linear %h, %wd scales(1.0, 0.5)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// CHECK-LABEL: func @unequal_inputs
// CHECK: fuse.quantize %{{.*}} scale 0.5
// CHECK: fuse.quantize %{{.*}} scale 0.75
func.func @unequal_inputs(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>)
    -> tensor<?x16xbf16> {
  %q1 = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %g = fuse.linear %q1, %w scales(0.5, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %q2 = fuse.quantize %x scale 0.75 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q2, %w scales(0.75, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Analysis] unequal-input-scales{{.*}}gate and up quantize their input differently; ratio 1.5}}
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  return %p : tensor<?x16xbf16>
}
