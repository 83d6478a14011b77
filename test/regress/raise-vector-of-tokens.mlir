// RUN: fuse-fuzz %s --seed=40008683 --raise | FileCheck %s
// CHECK: no failure

// The scale of each token holds the same constant as the start of a sum. It has a
// size of its own and is not the bias of the sum.

#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0, d1) -> (d1)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map4 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map5 = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  func.func @f2(%arg0: tensor<2xf32>, %arg1: tensor<2x2xf32>, %arg2: tensor<?x2xf8E4M3FN>, %arg3: index, %arg4: tensor<?x2xf32>, %arg5: tensor<?xf32>, %arg6: tensor<?x2xf32>, %arg7: f32) -> tensor<1x?x2xf8E4M3FN> {
    %0 = linalg.fill ins(%arg7 : f32) outs(%arg5 : tensor<?xf32>) -> tensor<?xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1, #map2, #map], iterator_types = ["parallel", "parallel"]} ins(%arg6, %0, %arg0 : tensor<?x2xf32>, tensor<?xf32>, tensor<2xf32>) outs(%arg4 : tensor<?x2xf32>) {
    ^bb0(%in: f32, %in_0: f32, %in_1: f32, %out: f32):
      %5 = arith.mulf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<?x2xf32>
    %2 = linalg.fill ins(%arg7 : f32) outs(%arg4 : tensor<?x2xf32>) -> tensor<?x2xf32>
    %3 = linalg.generic {indexing_maps = [#map3, #map4, #map5], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1, %arg1 : tensor<?x2xf32>, tensor<2x2xf32>) outs(%2 : tensor<?x2xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = math.fma %in, %in_0, %out : f32
      linalg.yield %5 : f32
    } -> tensor<?x2xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<?x2xf32>) outs(%arg2 : tensor<?x2xf8E4M3FN>) {
    ^bb0(%in: f32, %out: f8E4M3FN):
      %5 = arith.truncf %in : f32 to f8E4M3FN
      linalg.yield %5 : f8E4M3FN
    } -> tensor<?x2xf8E4M3FN>
    %expanded = tensor.expand_shape %4 [[0, 1], [2]] output_shape [1, %arg3, 2] : tensor<?x2xf8E4M3FN> into tensor<1x?x2xf8E4M3FN>
    return %expanded : tensor<1x?x2xf8E4M3FN>
  }
}
