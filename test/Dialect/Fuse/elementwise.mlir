// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @activation
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>
func.func @activation(%x: tensor<?x64xbf16>) {
  // CHECK: fuse.activation silu %[[X]] : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %0 = fuse.activation silu %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  // CHECK: fuse.activation gelu %[[X]] :
  %1 = fuse.activation gelu %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  // CHECK: fuse.activation gelu_tanh %[[X]] : tensor<?x64xbf16> -> tensor<?x64xf32>
  %2 = fuse.activation gelu_tanh %x : tensor<?x64xbf16> -> tensor<?x64xf32>
  // CHECK: fuse.activation relu %[[X]] :
  %3 = fuse.activation relu %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  // CHECK: fuse.activation relu2 %[[X]] :
  %4 = fuse.activation relu2 %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  // CHECK: fuse.activation quick_gelu %[[X]] :
  %5 = fuse.activation quick_gelu %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @gated_mul
// CHECK-SAME: %[[A:.*]]: tensor<?x64xbf16>, %[[U:.*]]: tensor<?x64xf32>
func.func @gated_mul(%a: tensor<?x64xbf16>, %u: tensor<?x64xf32>) {
  // CHECK: fuse.gated_mul %[[A]], %[[U]] : (tensor<?x64xbf16>, tensor<?x64xf32>) -> tensor<?x64xbf16>
  %0 = fuse.gated_mul %a, %u
    : (tensor<?x64xbf16>, tensor<?x64xf32>) -> tensor<?x64xbf16>
  // CHECK: fuse.gated_mul %[[U]], %[[A]] :
  %1 = fuse.gated_mul %u, %a
    : (tensor<?x64xf32>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @residual_add
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[R:.*]]: tensor<?x64xf32>
func.func @residual_add(%x: tensor<?x64xbf16>, %r: tensor<?x64xf32>) {
  // CHECK: fuse.residual_add %[[X]], %[[R]] : (tensor<?x64xbf16>, tensor<?x64xf32>) -> tensor<?x64xf32>
  %0 = fuse.residual_add %x, %r
    : (tensor<?x64xbf16>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// A dynamic dimension is compatible with a static one: whether they are equal
// is known only at run time.
// CHECK-LABEL: @dynamic_and_static
func.func @dynamic_and_static(%x: tensor<?x64xf32>, %y: tensor<5x64xf32>) {
  // CHECK: (tensor<?x64xf32>, tensor<5x64xf32>) -> tensor<5x64xf32>
  %0 = fuse.residual_add %x, %y
    : (tensor<?x64xf32>, tensor<5x64xf32>) -> tensor<5x64xf32>
  return
}

// CHECK-LABEL: @same_value_twice
func.func @same_value_twice(%x: tensor<?x1xf16>) {
  // CHECK: fuse.gated_mul %[[X:.*]], %[[X]] :
  %0 = fuse.gated_mul %x, %x
    : (tensor<?x1xf16>, tensor<?x1xf16>) -> tensor<?x1xf16>
  return
}
