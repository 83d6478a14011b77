// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// Each function is computed in f32 and rounded once, at the end.

// CHECK-LABEL: func @silu
// CHECK: linalg.generic
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[MINUS:.*]] = arith.negf %[[X]]
// CHECK: %[[EXP:.*]] = math.exp %[[MINUS]]
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00
// CHECK: %[[SUM:.*]] = arith.addf %[[EXP]], %[[ONE]]
// CHECK: %[[Y:.*]] = arith.divf %[[X]], %[[SUM]]
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[Y]] : f32 to bf16
// CHECK: linalg.yield %[[ROUNDED]]
func.func @silu(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %y = fuse.activation silu %x : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func @gelu(
// CHECK: arith.constant 0.707106769
// CHECK: math.erf
// CHECK-NOT: arith.truncf
func.func @gelu(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.activation gelu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func @gelu_tanh
// CHECK: arith.constant 4.471500e-02
// CHECK: arith.constant 0.797884583
// CHECK: math.tanh
func.func @gelu_tanh(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.activation gelu_tanh %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// maximumf and not maxnumf, because NaN stays NaN.

// CHECK-LABEL: func @relu(
// CHECK: %[[Y:.*]] = arith.maximumf
// CHECK-NEXT: linalg.yield %[[Y]]
func.func @relu(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.activation relu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func @relu2
// CHECK: %[[POSITIVE:.*]] = arith.maximumf
// CHECK-NEXT: arith.mulf %[[POSITIVE]], %[[POSITIVE]]
func.func @relu2(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.activation relu2 %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func @quick_gelu
// CHECK: %[[SLOPE:.*]] = arith.constant -1.702000e+00
// CHECK: %[[MINUS:.*]] = arith.mulf %{{.*}}, %[[SLOPE]]
// CHECK: math.exp %[[MINUS]]
func.func @quick_gelu(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.activation quick_gelu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
