// RUN: fuse-opt %s --fuse-raise-layers --fuse-form-kernels -verify-diagnostics \
// RUN:   --remarks-filter='fuse|raise' --remark-format=emitRemark | FileCheck %s

// A kernel has exactly the activation of the chain. The two forms of GELU are
// different functions, and a formula that is neither stays.

// CHECK-LABEL: func @erf
// CHECK: fuse.mlp {{.*}} act(gelu) scales(
func.func @erf(%x: tensor<4x8xf32>, %w1: tensor<16x8xi8>,
    %w2: tensor<8x16xi8>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x16xf32>
  %half = arith.constant dense<0.5> : tensor<4x16xf32>
  // expected-remark @below {{[Passed] erf#0}}
  %q = fuse.quantize %x scale 0.5 : (tensor<4x8xf32>) -> tensor<4x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<4x8xi8>, tensor<16x8xi8>) -> tensor<4x16xf32>
  %c = arith.constant dense<0.707106769> : tensor<4x16xf32>
  %m = arith.mulf %u, %c : tensor<4x16xf32>
  %t = math.erf %m : tensor<4x16xf32>
  %s = arith.addf %t, %one : tensor<4x16xf32>
  %h = arith.mulf %u, %half : tensor<4x16xf32>
  // expected-remark @below {{[Passed] activation}}
  %a = arith.mulf %h, %s : tensor<4x16xf32>
  %p = fuse.quantize %a scale 0.5 : (tensor<4x16xf32>) -> tensor<4x16xi8>
  %d = fuse.linear %p, %w2 scales(0.5, 0.25)
    : (tensor<4x16xi8>, tensor<8x16xi8>) -> tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}

// CHECK-LABEL: func @tanh
// CHECK: fuse.mlp {{.*}} act(gelu_tanh) scales(
func.func @tanh(%x: tensor<4x8xf32>, %w1: tensor<16x8xi8>,
    %w2: tensor<8x16xi8>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x16xf32>
  %half = arith.constant dense<0.5> : tensor<4x16xf32>
  // expected-remark @below {{[Passed] tanh#0}}
  %q = fuse.quantize %x scale 0.5 : (tensor<4x8xf32>) -> tensor<4x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<4x8xi8>, tensor<16x8xi8>) -> tensor<4x16xf32>
  %c = arith.constant dense<0.044715> : tensor<4x16xf32>
  %r = arith.constant dense<0.797884583> : tensor<4x16xf32>
  %u2 = arith.mulf %u, %u : tensor<4x16xf32>
  %u3 = arith.mulf %u2, %u : tensor<4x16xf32>
  %cu = arith.mulf %u3, %c : tensor<4x16xf32>
  %sum = arith.addf %u, %cu : tensor<4x16xf32>
  %m = arith.mulf %sum, %r : tensor<4x16xf32>
  %t = math.tanh %m : tensor<4x16xf32>
  %s = arith.addf %t, %one : tensor<4x16xf32>
  %h = arith.mulf %u, %half : tensor<4x16xf32>
  // expected-remark @below {{[Passed] activation}}
  %a = arith.mulf %h, %s : tensor<4x16xf32>
  %p = fuse.quantize %a scale 0.5 : (tensor<4x16xf32>) -> tensor<4x16xi8>
  %d = fuse.linear %p, %w2 scales(0.5, 0.25)
    : (tensor<4x16xi8>, tensor<8x16xi8>) -> tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}

// CHECK-LABEL: func @neither
// CHECK-NOT: fuse.mlp
// CHECK: math.tanh
func.func @neither(%x: tensor<4x8xf32>, %w1: tensor<16x8xi8>,
    %w2: tensor<8x16xi8>) -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x16xf32>
  %half = arith.constant dense<0.5> : tensor<4x16xf32>
  // expected-remark-re @below {{[Passed] neither#1{{.*}}Family=fused_linear}}
  %q = fuse.quantize %x scale 0.5 : (tensor<4x8xf32>) -> tensor<4x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<4x8xi8>, tensor<16x8xi8>) -> tensor<4x16xf32>
  %r = arith.constant dense<0.797884583> : tensor<4x16xf32>
  %m = arith.mulf %u, %r : tensor<4x16xf32>
  // expected-remark-re @below {{[Missed] activation{{.*}}FUSE-N102 constant}}
  %t = math.tanh %m : tensor<4x16xf32>
  %s = arith.addf %t, %one : tensor<4x16xf32>
  %h = arith.mulf %u, %half : tensor<4x16xf32>
  // expected-remark-re @below {{[Missed] neither#0{{.*}}FUSE-N027 unknown-activation}}
  %a = arith.mulf %h, %s : tensor<4x16xf32>
  // expected-remark-re @below {{[Passed] neither#2{{.*}}Family=fused_linear}}
  %p = fuse.quantize %a scale 0.5 : (tensor<4x16xf32>) -> tensor<4x16xi8>
  %d = fuse.linear %p, %w2 scales(0.5, 0.25)
    : (tensor<4x16xi8>, tensor<8x16xi8>) -> tensor<4x8xf32>
  return %d : tensor<4x8xf32>
}
