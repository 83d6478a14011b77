// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// The normalized value is rounded before the weight is applied, and so is the
// sum of offset and weight.

// CHECK-LABEL: func @rms_before_weight
// CHECK: linalg.generic
// CHECK-SAME: ["parallel", "reduction"]
// CHECK: ^bb0(%[[IN:[^:]+]]: bf16, %[[ACC:[^:]+]]: f32)
// CHECK: %[[X:.*]] = arith.extf %[[IN]]
// CHECK: math.fma %[[X]], %[[X]], %[[ACC]]
// CHECK: linalg.generic
// CHECK: arith.constant 8.000000e+00
// CHECK: arith.divf
// CHECK: arith.constant 9.99999997E-7
// CHECK: arith.addf
// CHECK: math.rsqrt
// CHECK: linalg.generic
// CHECK: ^bb0(%[[IN:[^:]+]]: bf16, %[[SCALE:[^:]+]]: f32, %[[W:[^:]+]]: bf16
// CHECK: %[[X:.*]] = arith.extf %[[IN]]
// CHECK: %[[N:.*]] = arith.mulf %[[X]], %[[SCALE]]
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[N]] : f32 to bf16
// CHECK: %[[N32:.*]] = arith.extf %[[ROUNDED]]
// CHECK: %[[W32:.*]] = arith.extf %[[W]]
// CHECK: %[[SUM:.*]] = arith.addf %[[W32]]
// CHECK: %[[WROUNDED:.*]] = arith.truncf %[[SUM]] : f32 to bf16
// CHECK: %[[FACTOR:.*]] = arith.extf %[[WROUNDED]]
// CHECK: %[[Y:.*]] = arith.mulf %[[N32]], %[[FACTOR]]
// CHECK: arith.truncf %[[Y]] : f32 to bf16
func.func @rms_before_weight(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>)
    -> tensor<?x8xbf16> {
  %y = fuse.rms_norm %x weight(%w) eps 1.0e-6 offset 1
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func @rms_after_weight
// CHECK: math.rsqrt
// CHECK: linalg.generic
// CHECK: ^bb0
// CHECK: %[[N:.*]] = arith.mulf
// CHECK-NOT: arith.truncf
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[N]], %[[SUM]]
// CHECK-NEXT: arith.truncf %[[Y]] : f32 to bf16
func.func @rms_after_weight(%x: tensor<?x8xbf16>, %w: tensor<8xbf16>)
    -> tensor<?x8xbf16> {
  %y = fuse.rms_norm %x weight(%w) eps 1.0e-6 offset 1 cast after_weight
    : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// CHECK-LABEL: func @rms_without_weight
// CHECK: math.rsqrt
// CHECK: linalg.generic
// CHECK: %[[Y:.*]] = arith.mulf
// CHECK-NEXT: linalg.yield %[[Y]]
func.func @rms_without_weight(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// The variance is the mean of squares of centered values.

// CHECK-LABEL: func @layer
// CHECK: linalg.generic
// CHECK: ^bb0(%[[X:[^:]+]]: f32, %[[ACC:[^:]+]]: f32)
// CHECK: arith.addf %[[ACC]], %[[X]]
// CHECK: linalg.generic
// CHECK: arith.divf
// CHECK: linalg.generic
// CHECK: ^bb0(%[[X:[^:]+]]: f32, %[[MEAN:[^:]+]]: f32, %[[ACC:[^:]+]]: f32)
// CHECK: %[[D:.*]] = arith.subf %[[X]], %[[MEAN]]
// CHECK: math.fma %[[D]], %[[D]], %[[ACC]]
// CHECK: math.rsqrt
// CHECK: linalg.generic
// CHECK: arith.subf
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: %[[Y:.*]] = arith.addf
// CHECK-NEXT: linalg.yield %[[Y]]
func.func @layer(%x: tensor<?x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>)
    -> tensor<?x8xf32> {
  %y = fuse.layer_norm %x weight(%w) bias(%b) eps 1.0e-5
    : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func @layer_without_weight
// CHECK: math.rsqrt
// CHECK: linalg.generic
// CHECK: arith.subf
// CHECK-NEXT: %[[Y:.*]] = arith.mulf
// CHECK-NEXT: linalg.yield %[[Y]]
func.func @layer_without_weight(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.layer_norm %x eps 1.0e-5 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
