// RUN: fuse-opt %s --fuse-repair-scales=unequal=requantize \
// RUN:   -verify-diagnostics --remarks-filter=quant --remark-format=emitRemark \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --fuse-repair-scales=unequal=requantize \
// RUN:   --fuse-form-kernels | FileCheck %s --check-prefix=FORMED

// CHECK-LABEL: func @unequal
// CHECK: fuse.linear %{{.*}}, %arg1 scales(1.0, 0.5)
// CHECK: %[[REAL:.*]] = fuse.dequantize %arg2 scale 0.25
// CHECK-SAME: tensor<16x8xf32>
// CHECK: %[[STORED:.*]] = fuse.quantize %[[REAL]] scale 0.5
// CHECK: fuse.linear %{{.*}}, %[[STORED]] scales(1.0, 0.5)
// FORMED-LABEL: func @unequal
// FORMED: fuse.gated_mlp %arg0 gate(%arg1) up(%{{.*}}) down(%arg3)
// FORMED-SAME: gate = 0.5, up = 0.5
func.func @unequal(%x: tensor<?x8xbf16>, %wg: tensor<16x8xf8E4M3FN>,
                   %wu: tensor<16x8xf8E4M3FN>, %wd: tensor<8x16xf8E4M3FN>)
    -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 1.0
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %g = fuse.linear %q, %wg scales(1.0, 0.5)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] unequal-scales{{.*}}AbsoluteErrorBound=4.882812e-04{{.*}}Projection=up, Ratio=2.000000e+00, RelativeErrorBound=6.250000e-02}}
  %u = fuse.linear %q, %wu scales(1.0, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 1.0
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %d = fuse.linear %h, %wd scales(1.0, 0.5)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// Equal scales do not change, in either operand order.

// CHECK-LABEL: func @no_equal
// CHECK-NOT: fuse.dequantize
func.func @no_equal(%q: tensor<?x8xi8>, %w: tensor<16x8xi8>)
    -> tensor<?x16xbf16> {
  %g = fuse.linear %q, %w scales(1.0, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %q, %w scales(1.0, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %u, %a
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  return %p : tensor<?x16xbf16>
}
