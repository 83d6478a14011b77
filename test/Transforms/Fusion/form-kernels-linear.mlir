// RUN: fuse-opt %s --fuse-form-kernels --remarks-filter=fuse \
// RUN:   --remark-format=emitRemark -verify-diagnostics | FileCheck %s
// RUN: fuse-opt %s --fuse-form-kernels --fuse-unfuse -o %t.unfused
// RUN: fuse-opt %s | diff - %t.unfused
// RUN: fuse-opt %s --fuse-check-unfuse --fuse-check-contracts -o /dev/null
// RUN: fuse-opt %s --fuse-form-kernels='disable=mlp_is_off#0' \
// RUN:   | FileCheck %s --check-prefix=OFF

// A linear that no other kernel has is a site if its input is quantized or a
// residual add follows.

// CHECK-LABEL: @output_projection
func.func @output_projection(%x: tensor<?x16xbf16>, %r: tensor<?x8xbf16>,
                             %w: tensor<8x16xbf16>, %b: tensor<8xbf16>)
    -> tensor<?x8xbf16> {
  // CHECK: fuse.fused_linear %arg0 linear(%arg2 bias %arg3) then_add(%arg1) rounding(exact) site("output_projection#0")
  // expected-remark-re @below {{[Passed] output_projection#0{{.*}}Family=fused_linear, Members="linear, then_add"}}
  %0 = fuse.linear %x, %w bias(%b)
    : (tensor<?x16xbf16>, tensor<8x16xbf16>, tensor<8xbf16>)
      -> tensor<?x8xbf16>
  %1 = fuse.residual_add %0, %r
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %1 : tensor<?x8xbf16>
}

// CHECK-LABEL: @static
func.func @static(%x: tensor<?x16xbf16>, %r: tensor<?x8xbf16>,
                  %w: tensor<8x16xf8E4M3FN>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  // CHECK: fuse.fused_linear %arg0 linear(%arg2) scales(f8E4M3FN, input = 0.25, weight0 = 0.5) rounding(exact) site("static#0")
  // CHECK: fuse.fused_linear %arg0 linear(%arg2) then_add(%arg1) scales(f8E4M3FN, input = 0.125, weight0 = 0.5) rounding(exact) site("static#1")
  // expected-remark-re @below {{[Passed] static#0{{.*}}Members="quantize_input, linear"}}
  %q = fuse.quantize %x scale 0.25
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %0 = fuse.linear %q, %w scales(0.25, 0.5)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  // expected-remark-re @below {{[Passed] static#1{{.*}}Members="quantize_input, linear, then_add"}}
  %p = fuse.quantize %x scale 0.125
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %1 = fuse.linear %p, %w scales(0.125, 0.5)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  %2 = fuse.residual_add %r, %1
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %0, %2 : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// CHECK-LABEL: @two_users
func.func @two_users(%x: tensor<?x16xbf16>, %r: tensor<?x8xbf16>,
                     %w: tensor<8x16xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  // CHECK-NEXT: fuse.linear
  // CHECK-NEXT: fuse.residual_add
  %0 = fuse.linear %x, %w
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  %1 = fuse.residual_add %r, %0
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %0, %1 : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// Two linears that share one quantized value are no kernel of this family.
// CHECK-LABEL: @shared_input
func.func @shared_input(%x: tensor<?x16xbf16>, %w: tensor<8x16xf8E4M3FN>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  // CHECK-NEXT: fuse.quantize
  // CHECK-NEXT: fuse.linear
  // CHECK-NEXT: fuse.linear
  %q = fuse.quantize %x scale 0.25
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %0 = fuse.linear %q, %w scales(0.25, 0.5)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  %1 = fuse.linear %q, %w scales(0.25, 0.75)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %0, %1 : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// The norm after the sum has it, as the larger kernel.
// CHECK-LABEL: @sum_before_a_norm
func.func @sum_before_a_norm(%x: tensor<?x16xbf16>, %r: tensor<?x16xbf16>,
                             %w: tensor<16x16xbf16>)
    -> tensor<?x16xbf16> {
  // CHECK: fuse.linear
  // CHECK: fuse.norm_linear {{.*}} residual(
  %0 = fuse.linear %x, %w
    : (tensor<?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] sum_before_a_norm#0{{.*}}Family=norm_linear}}
  %1 = fuse.residual_add %0, %r
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %2 = fuse.rms_norm %1 eps 1.0e-6
    : (tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %3 = fuse.linear %2, %w
    : (tensor<?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x16xbf16>
  return %3 : tensor<?x16xbf16>
}

// Linears of a site that is switched off are none of their own.
// CHECK-LABEL: @mlp_is_off
// CHECK: fuse.mlp
// OFF-LABEL: @mlp_is_off
// OFF-NOT: fuse.fused_linear
func.func @mlp_is_off(%x: tensor<?x16xbf16>, %w: tensor<16x16xbf16>)
    -> tensor<?x16xbf16> {
  // expected-remark-re @below {{[Passed] mlp_is_off#0{{.*}}Family=mlp}}
  %0 = fuse.linear %x, %w
    : (tensor<?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x16xbf16>
  %1 = fuse.activation silu %0 : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %2 = fuse.linear %1, %w
    : (tensor<?x16xbf16>, tensor<16x16xbf16>) -> tensor<?x16xbf16>
  %3 = fuse.residual_add %x, %2
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  return %3 : tensor<?x16xbf16>
}
