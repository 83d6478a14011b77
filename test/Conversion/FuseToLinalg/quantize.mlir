// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// The factor is the reciprocal rounded to f32; 8-bit floats saturate because
// values are limited to the largest finite code before they are converted.

// CHECK-LABEL: func @e4m3
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[FACTOR:.*]] = arith.constant 4.000000e+00
// CHECK: %[[Q:.*]] = arith.mulf %[[X]], %[[FACTOR]]
// CHECK: %[[MAX:.*]] = arith.constant 4.480000e+02
// CHECK: %[[BELOW:.*]] = arith.minimumf %[[Q]], %[[MAX]]
// CHECK: %[[MIN:.*]] = arith.constant -4.480000e+02
// CHECK: %[[BOTH:.*]] = arith.maximumf %[[BELOW]], %[[MIN]]
// CHECK: arith.truncf %[[BOTH]] : f32 to f8E4M3FN
func.func @e4m3(%x: tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN> {
  %q = fuse.quantize %x scale 0.25
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  return %q : tensor<?x8xf8E4M3FN>
}

// CHECK-LABEL: func @e5m2_divide
// CHECK: %[[SCALE:.*]] = arith.constant 2.500000e-01
// CHECK: arith.divf %{{.*}}, %[[SCALE]]
// CHECK: arith.constant 5.734400e+04
// CHECK: arith.truncf %{{.*}} : f32 to f8E5M2
func.func @e5m2_divide(%x: tensor<?x8xf32>) -> tensor<?x8xf8E5M2> {
  %q = fuse.quantize %x scale 0.25 order divide
    : (tensor<?x8xf32>) -> tensor<?x8xf8E5M2>
  return %q : tensor<?x8xf8E5M2>
}

// NaN becomes 0, which fptosi alone would leave undefined.

// CHECK-LABEL: func @i8
// CHECK: %[[ROUNDED:.*]] = math.roundeven
// CHECK: arith.minimumf %[[ROUNDED]]
// CHECK: %[[LIMITED:.*]] = arith.maximumf
// CHECK: %[[NAN:.*]] = arith.cmpf uno, %[[LIMITED]], %[[LIMITED]]
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00
// CHECK: %[[SAFE:.*]] = arith.select %[[NAN]], %[[ZERO]], %[[LIMITED]]
// CHECK: arith.fptosi %[[SAFE]] : f32 to i8
func.func @i8(%x: tensor<?x8xf32>) -> tensor<?x8xi8> {
  %q = fuse.quantize %x scale 0.25 : (tensor<?x8xf32>) -> tensor<?x8xi8>
  return %q : tensor<?x8xi8>
}

// A scale per index of dimension 0 makes that dimension the rows.

// CHECK-LABEL: func @channel_scale
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0], [1, 2]]
// CHECK-SAME: into tensor<4x6xbf16>
// CHECK: ^bb0(%{{[^:]+}}: bf16, %[[SCALE:[^:]+]]: f32, %{{[^:]+}}: i8)
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00
// CHECK: %[[FACTOR:.*]] = arith.divf %[[ONE]], %[[SCALE]]
// CHECK: arith.mulf %{{.*}}, %[[FACTOR]]
// CHECK: tensor.expand_shape
func.func @channel_scale(%x: tensor<4x2x3xbf16>, %s: tensor<4xf32>)
    -> tensor<4x2x3xi8> {
  %q = fuse.quantize %x channel_scale(%s)
    : (tensor<4x2x3xbf16>, tensor<4xf32>) -> tensor<4x2x3xi8>
  return %q : tensor<4x2x3xi8>
}

// CHECK-LABEL: func @dequantize
// CHECK: %[[SCALE:.*]] = arith.constant 2.500000e-01
// CHECK: %[[Q:.*]] = arith.sitofp %{{.*}} : i8 to f32
// CHECK: %[[X:.*]] = arith.mulf %[[Q]], %[[SCALE]]
// CHECK: arith.truncf %[[X]] : f32 to f16
func.func @dequantize(%q: tensor<?x8xi8>) -> tensor<?x8xf16> {
  %x = fuse.dequantize %q scale 0.25 : (tensor<?x8xi8>) -> tensor<?x8xf16>
  return %x : tensor<?x8xf16>
}

// CHECK-LABEL: func @dequantize_channel
// CHECK: ^bb0(%[[Q:[^:]+]]: f8E5M2, %[[SCALE:[^:]+]]: f32, %{{[^:]+}}: f32)
// CHECK: %[[Q32:.*]] = arith.extf %[[Q]]
// CHECK: arith.mulf %[[Q32]], %[[SCALE]]
func.func @dequantize_channel(%q: tensor<4x8xf8E5M2>, %s: tensor<4xf32>)
    -> tensor<4x8xf32> {
  %x = fuse.dequantize %q channel_scale(%s)
    : (tensor<4x8xf8E5M2>, tensor<4xf32>) -> tensor<4x8xf32>
  return %x : tensor<4x8xf32>
}
