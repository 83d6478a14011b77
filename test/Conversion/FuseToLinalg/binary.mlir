// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// CHECK-LABEL: func @gated_mul
// CHECK: %[[LHS:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: %[[RHS:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[Y:.*]] = arith.mulf %[[LHS]], %[[RHS]]
// CHECK: arith.truncf %[[Y]] : f32 to f16
func.func @gated_mul(%a: tensor<?x8xf16>, %b: tensor<?x8xbf16>)
    -> tensor<?x8xf16> {
  %y = fuse.gated_mul %a, %b
    : (tensor<?x8xf16>, tensor<?x8xbf16>) -> tensor<?x8xf16>
  return %y : tensor<?x8xf16>
}

// CHECK-LABEL: func @residual_add
// CHECK: %[[Y:.*]] = arith.addf
// CHECK-NEXT: linalg.yield %[[Y]]
func.func @residual_add(%a: tensor<?x8xf32>, %b: tensor<?x8xf32>)
    -> tensor<?x8xf32> {
  %y = fuse.residual_add %a, %b
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
