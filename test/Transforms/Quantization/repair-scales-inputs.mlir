// RUN: fuse-opt %s --fuse-repair-scales=inputs=largest -verify-diagnostics \
// RUN:   --remarks-filter=quant --remark-format=emitRemark | FileCheck %s

// Each projection quantizes the input. The op with the larger scale replaces
// both, at the place of the first.

// CHECK-LABEL: func @unequal_inputs
// CHECK-SAME: %[[X:.*]]: tensor<?x8xbf16>
// CHECK-NEXT: %[[Q:.*]] = fuse.quantize %[[X]] scale 0.75
// CHECK-NEXT: fuse.linear %[[Q]], %{{.*}} scales(0.75, 0.5)
// CHECK-NOT: fuse.quantize
// CHECK: fuse.linear %[[Q]], %{{.*}} scales(0.75, 0.5)
func.func @unequal_inputs(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>)
    -> tensor<?x16xbf16> {
  %q1 = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  // expected-remark-re @below {{[Passed] unequal-input-scales{{.*}}AbsoluteErrorBound=3.750000e-01{{.*}}Projection=gate, Ratio=1.500000e+00, RelativeErrorBound=0.0}}
  %g = fuse.linear %q1, %w scales(0.5, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %q2 = fuse.quantize %x scale 0.75 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q2, %w scales(0.75, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  return %p : tensor<?x16xbf16>
}
