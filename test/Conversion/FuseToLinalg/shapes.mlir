// RUN: fuse-opt %s --convert-fuse-to-linalg --canonicalize | FileCheck %s

// Whatever the leading dimensions, every layer works on tokens times features.

// CHECK-LABEL: func @leading_dims
// CHECK-SAME: %[[X:.*]]: tensor<2x?x8xf32>
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1], [2]]
// CHECK: %[[Y:.*]] = linalg.generic
// CHECK-SAME: ins(%[[ROWS]] : tensor<?x8xf32>)
// CHECK: %[[SIZE:.*]] = tensor.dim %[[X]], %c1
// CHECK: tensor.expand_shape %[[Y]] {{\[\[}}0, 1], [2]]
// CHECK-SAME: output_shape [2, %[[SIZE]], 8]
func.func @leading_dims(%x: tensor<2x?x8xf32>) -> tensor<2x?x8xf32> {
  %y = fuse.activation relu %x : tensor<2x?x8xf32> -> tensor<2x?x8xf32>
  return %y : tensor<2x?x8xf32>
}

// Between two layers nothing is reshaped.

// CHECK-LABEL: func @neighbors
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK-NOT: _shape
// CHECK: linalg.generic
// CHECK: tensor.expand_shape
func.func @neighbors(%x: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %y = fuse.activation relu %x : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %z = fuse.activation silu %y : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %z : tensor<?x?x8xf32>
}

// CHECK-LABEL: func @vector
// CHECK: tensor.expand_shape {{.*}} tensor<8xf32> into tensor<1x8xf32>
// CHECK: linalg.generic
// CHECK: tensor.collapse_shape {{.*}} tensor<1x4xf32> into tensor<4xf32>
func.func @vector(%x: tensor<8xf32>, %w: tensor<4x8xf32>) -> tensor<4xf32> {
  %y = fuse.linear %x, %w : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// A size that is known for one of the operands is known for the layer.

// CHECK-LABEL: func @refined
// CHECK: tensor.cast %{{.*}} : tensor<?x8xf32> to tensor<4x8xf32>
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<4x8xf32>)
func.func @refined(%x: tensor<?x8xf32>, %y: tensor<4x8xf32>)
    -> tensor<?x8xf32> {
  %z = fuse.residual_add %x, %y
    : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}
