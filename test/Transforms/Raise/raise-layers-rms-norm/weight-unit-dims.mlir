// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s

// A weight with unit dimensions around it.

// CHECK-LABEL: func @weight_unit_dims(
// CHECK-SAME:    %[[X:.*]]: tensor<4x64xf32>, %[[W:.*]]: tensor<1x64xf32>
// CHECK-NEXT:    %[[V:.*]] = tensor.collapse_shape %[[W]] {{\[}}[0, 1]] : tensor<1x64xf32> into tensor<64xf32>
// CHECK-NEXT:    fuse.rms_norm %[[X]] weight(%[[V]])
func.func @weight_unit_dims(%x: tensor<4x64xf32>, %w: tensor<1x64xf32>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %x, %rb : tensor<4x64xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (0, d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%nf, %w : tensor<4x64xf32>, tensor<1x64xf32>)
      outs(%init : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
