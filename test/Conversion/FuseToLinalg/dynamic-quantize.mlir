// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// CHECK: #[[FIRST:.*]] = affine_map<(d0) -> (0)>

// The largest magnitude of each row, in f32; NaN stays.

// CHECK-LABEL: func @per_token
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: %[[ABS:.*]] = math.absf %{{.*}} : f32
// CHECK: arith.maximumf %{{.*}}, %[[ABS]]
// CHECK: %[[LARGEST:.*]] = arith.constant 4.480000e+02
// CHECK: %[[SCALE:.*]] = arith.divf %{{.*}}, %[[LARGEST]]
// CHECK: %[[LEAST:.*]] = arith.constant 5.42101086E-20
// CHECK: arith.maximumf %[[SCALE]], %[[LEAST]]
// CHECK: %[[FACTOR:.*]] = arith.divf
// CHECK: arith.mulf %{{.*}}, %[[FACTOR]]
// CHECK: arith.minimumf
// CHECK: arith.truncf %{{.*}} : f32 to f8E4M3FN
func.func @per_token(%x: tensor<?x8xbf16>)
    -> (tensor<?x8xf8E4M3FN>, tensor<?xf32>) {
  %q, %s = fuse.dynamic_quantize per_token %x
    : (tensor<?x8xbf16>) -> (tensor<?x8xf8E4M3FN>, tensor<?xf32>)
  return %q, %s : tensor<?x8xf8E4M3FN>, tensor<?xf32>
}

// More leading dimensions are rows; the scales get them back.

// CHECK-LABEL: func @wide
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0, 1], [2]]
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0, 1]] output_shape [2, 3]
func.func @wide(%x: tensor<2x3x8xf32>) -> (tensor<2x3x8xi8>, tensor<2x3xf32>) {
  %q, %s = fuse.dynamic_quantize per_token %x
    : (tensor<2x3x8xf32>) -> (tensor<2x3x8xi8>, tensor<2x3xf32>)
  return %q, %s : tensor<2x3x8xi8>, tensor<2x3xf32>
}

// One scale for all: the rows' magnitudes are reduced once more.

// CHECK-LABEL: func @per_tensor
// CHECK: indexing_maps = [#{{.*}}, #[[FIRST]]], iterator_types = ["reduction"]
// CHECK: arith.constant 1.270000e+02
func.func @per_tensor(%x: tensor<?x8xf32>) -> (tensor<?x8xi8>, tensor<1xf32>) {
  %q, %s = fuse.dynamic_quantize per_tensor %x
    : (tensor<?x8xf32>) -> (tensor<?x8xi8>, tensor<1xf32>)
  return %q, %s : tensor<?x8xi8>, tensor<1xf32>
}

// alpha is the product of the two scales, the measured one first.

// CHECK-LABEL: func @linear
// CHECK: linalg.generic
// CHECK: ^bb0(%[[SUM:.*]]: f32, %[[TOKEN:.*]]: f32, %[[CHANNEL:.*]]: f32, %{{.*}}: bf16):
// CHECK: %[[ALPHA:.*]] = arith.mulf %[[TOKEN]], %[[CHANNEL]]
// CHECK: arith.mulf %[[SUM]], %[[ALPHA]]
func.func @linear(%q: tensor<?x8xf8E4M3FN>, %w: tensor<4x8xf8E4M3FN>,
                  %s: tensor<?xf32>, %c: tensor<4xf32>) -> tensor<?x4xbf16> {
  %y = fuse.linear %q, %w channel_scale(%c) dynamic_scale(%s)
         scales(dynamic, per_channel)
    : (tensor<?x8xf8E4M3FN>, tensor<4x8xf8E4M3FN>, tensor<4xf32>,
       tensor<?xf32>) -> tensor<?x4xbf16>
  return %y : tensor<?x4xbf16>
}
