// RUN: split-file %s %t
// RUN: fuse-opt %t/disable.mlir --fuse-form-kernels=disable=f#0 \
// RUN:   -verify-diagnostics --remarks-filter=fuse --remark-format=emitRemark \
// RUN:   | FileCheck %t/disable.mlir
// RUN: fuse-opt %t/families.mlir --fuse-form-kernels=families=norm_linear \
// RUN:   -verify-diagnostics --remarks-filter=fuse --remark-format=emitRemark

//--- disable.mlir

// The id of the second site does not depend on whether the first is disabled.

// CHECK: fuse.linear
// CHECK: fuse.activation gelu
// CHECK: fuse.mlp
// CHECK-SAME: site("f#1")
func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  // expected-remark-re @below {{[Missed] f#0{{.*}}FUSE-N013 disabled}}
  %1 = fuse.activation gelu %0 : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %2 = fuse.linear %1, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  // expected-remark-re @below {{[Passed] f#1{{.*}}Family=mlp}}
  %3 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %4 = fuse.activation silu %3 : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %5 = fuse.linear %4, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %2, %5 : tensor<?x8xbf16>, tensor<?x8xbf16>
}

//--- families.mlir

func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  // expected-remark-re @below {{[Missed] f#0{{.*}}FUSE-N014 family-not-requested}}
  %1 = fuse.activation gelu %0 : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %2 = fuse.linear %1, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  // expected-remark-re @below {{[Passed] f#1{{.*}}Family=norm_linear}}
  %3 = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %4 = fuse.linear %3, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %2, %4 : tensor<?x8xbf16>, tensor<?x8xbf16>
}
