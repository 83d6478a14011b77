// RUN: fuse-opt %s --fuse-inline-functions | FileCheck %s
// RUN: fuse-opt %s --fuse-inline-functions=max-ops=3 \
// RUN:   | FileCheck %s --check-prefix=BOUND

// Calls of private functions are inlined, and the functions are erased.

// CHECK-NOT:     func private @double(
// CHECK-LABEL: func @twice(
// CHECK-NEXT:    %[[A:.*]] = arith.addf %arg0, %arg0
// CHECK-NEXT:    %[[B:.*]] = arith.addf %[[A]], %[[A]]
// CHECK-NEXT:    return %[[B]]

// Each call adds two ops, of which three are allowed.

// BOUND-LABEL: func @twice(
// BOUND-NEXT:    arith.addf
// BOUND-NEXT:    call @double
// BOUND-NEXT:    return
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @double(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @double(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Public functions, functions with `no_inline`, declarations and recursive
// functions stay.

// CHECK-LABEL: func @public(
// CHECK-LABEL: func private @kept(
// CHECK-LABEL: func private @declared(
// CHECK-LABEL: func private @recursive(
// CHECK-LABEL: func @calls(
// CHECK:         call @public
// CHECK-NEXT:    call @kept
// CHECK-NEXT:    call @declared
// CHECK-NEXT:    call @recursive
// CHECK-NEXT:    return
func.func @public(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @kept(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {no_inline} {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func private @recursive(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @recursive(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @public(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @kept(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = call @declared(%1) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = call @recursive(%2) : (tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
