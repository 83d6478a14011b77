// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// CHECK-DAG: #[[MK:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[NK:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[MN:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>

// Sums start from 0 and are in f32; the bias is added before the rounding.

// CHECK-LABEL: func @bias
// CHECK-SAME: %[[X:.*]]: tensor<?x8xbf16>, %[[W:.*]]: tensor<16x8xbf16>
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[INIT:.*]] = linalg.fill ins(%[[ZERO]]
// CHECK: %[[SUM:.*]] = linalg.generic
// CHECK-SAME: indexing_maps = [#[[MK]], #[[NK]], #[[MN]]]
// CHECK-SAME: ["parallel", "parallel", "reduction"]
// CHECK-SAME: ins(%[[X]], %[[W]]
// CHECK-SAME: outs(%[[INIT]]
// CHECK: ^bb0(%[[A:[^:]+]]: bf16, %[[B:[^:]+]]: bf16, %[[ACC:[^:]+]]: f32)
// CHECK: %[[A32:.*]] = arith.extf %[[A]]
// CHECK: %[[B32:.*]] = arith.extf %[[B]]
// CHECK: math.fma %[[A32]], %[[B32]], %[[ACC]]
// CHECK: linalg.generic
// CHECK: ^bb0(%[[S:[^:]+]]: f32, %[[BIAS:[^:]+]]: bf16, %{{[^:]+}}: bf16)
// CHECK: %[[BIAS32:.*]] = arith.extf %[[BIAS]]
// CHECK: %[[Y:.*]] = arith.addf %[[S]], %[[BIAS32]]
// CHECK: arith.truncf %[[Y]] : f32 to bf16
func.func @bias(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>,
                %b: tensor<16xbf16>) -> tensor<?x16xbf16> {
  %y = fuse.linear %x, %w bias(%b)
    : (tensor<?x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>)
      -> tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}

// With nothing to do after the sum there is no second op.

// CHECK-LABEL: func @f32
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: return %[[Y]]
func.func @f32(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>) -> tensor<4x16xf32> {
  %y = fuse.linear %x, %w
    : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// The two scales are one factor, multiplied in f32: 2.0e-2 * 0.5.

// CHECK-LABEL: func @scales
// CHECK: math.fma
// CHECK: linalg.generic
// CHECK: %[[ALPHA:.*]] = arith.constant 0.00999999977
// CHECK: %[[Y:.*]] = arith.mulf %{{.*}}, %[[ALPHA]]
// CHECK: arith.truncf %[[Y]] : f32 to bf16
func.func @scales(%x: tensor<?x8xf8E4M3FN>, %w: tensor<16x8xf8E5M2>)
    -> tensor<?x16xbf16> {
  %y = fuse.linear %x, %w scales(2.0e-2, 0.5)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E5M2>) -> tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}

// CHECK-LABEL: func @channel_scale
// CHECK: arith.constant 0 : i32
// CHECK: ^bb0(%{{[^:]+}}: i8, %{{[^:]+}}: i8, %[[ACC:[^:]+]]: i32)
// CHECK: %[[TERM:.*]] = arith.muli
// CHECK: arith.addi %[[ACC]], %[[TERM]]
// CHECK: ^bb0(%[[SUM:[^:]+]]: i32, %[[CHANNEL:[^:]+]]: f32, %{{[^:]+}}: bf16)
// CHECK: %[[REAL:.*]] = arith.sitofp %[[SUM]]
// CHECK: %[[INPUT:.*]] = arith.constant 2.000000e-02
// CHECK: %[[ALPHA:.*]] = arith.mulf %[[CHANNEL]], %[[INPUT]]
// CHECK: arith.mulf %[[REAL]], %[[ALPHA]]
func.func @channel_scale(%x: tensor<?x8xi8>, %w: tensor<16x8xi8>,
                         %s: tensor<16xf32>) -> tensor<?x16xbf16> {
  %y = fuse.linear %x, %w channel_scale(%s) scales(2.0e-2, per_channel)
    : (tensor<?x8xi8>, tensor<16x8xi8>, tensor<16xf32>) -> tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}

// Where the bias is added: to the sum in f32, or to the rounded sum.

// CHECK-LABEL: func @bias_before
// CHECK: ^bb0(%[[SUM:.*]]: f32, %[[B:.*]]: bf16, %{{.*}}: bf16):
// CHECK: %[[BIAS:.*]] = arith.extf %[[B]]
// CHECK: %[[Y:.*]] = arith.addf %[[SUM]], %[[BIAS]]
// CHECK: arith.truncf %[[Y]]
func.func @bias_before(%x: tensor<?x8xbf16>, %w: tensor<4x8xbf16>,
                       %b: tensor<4xbf16>) -> tensor<?x4xbf16> {
  %y = fuse.linear %x, %w bias(%b)
    : (tensor<?x8xbf16>, tensor<4x8xbf16>, tensor<4xbf16>) -> tensor<?x4xbf16>
  return %y : tensor<?x4xbf16>
}

// CHECK-LABEL: func @bias_after
// CHECK: ^bb0(%[[SUM:.*]]: f32, %[[B:.*]]: bf16, %{{.*}}: bf16):
// CHECK: %[[ROUNDED:.*]] = arith.truncf %[[SUM]] : f32 to bf16
// CHECK: %[[WIDE:.*]] = arith.extf %[[ROUNDED]]
// CHECK: %[[Y:.*]] = arith.addf %[[WIDE]], %{{.*}}
// CHECK: arith.truncf %[[Y]]
func.func @bias_after(%x: tensor<?x8xbf16>, %w: tensor<4x8xbf16>,
                      %b: tensor<4xbf16>) -> tensor<?x4xbf16> {
  %y = fuse.linear %x, %w bias(%b) added after_rounding
    : (tensor<?x8xbf16>, tensor<4x8xbf16>, tensor<4xbf16>) -> tensor<?x4xbf16>
  return %y : tensor<?x4xbf16>
}
