// RUN: fuse-opt %s --fuse-check-calls --split-input-file --verify-diagnostics \
// RUN:   | FileCheck %s

// Calls that end.

// CHECK-LABEL: func @twice(
// CHECK-COUNT-2: call @double
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @double(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = func.call @double(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @self(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'func.call' op of 'self' is recursive, expected calls that end}}
  %y = func.call @self(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @even(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{is recursive}}
  %y = func.call @odd(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @odd(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @even(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
