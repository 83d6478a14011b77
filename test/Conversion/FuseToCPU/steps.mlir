// RUN: fuse-opt %s --split-input-file \
// RUN:     --convert-fuse-to-cpu='lanes=4 registers=16' | FileCheck %s

// What stands behind a fused op becomes phases of the same kernel. The MLP has
// no norm before it, so its products read the input as it is.

// CHECK-LABEL: func @norm_after
// CHECK-SAME: fuse.cpu_plan
// CHECK-SAME: {arguments = [{operand = 0 : i64}, {packed = 0 : i64}, {workspace = 1 : i64}], function = "norm_after_hidden"
// CHECK-SAME: {arguments = [{workspace = 1 : i64}, {packed = 1 : i64}, {operand = 0 : i64}, {workspace = 0 : i64}], function = "norm_after_output0"
// CHECK-SAME: {arguments = [{workspace = 0 : i64}, {operand = 3 : i64}, {operand = 4 : i64}, {result = 0 : i64}], function = "norm_after_2_rows"
// CHECK-SAME: workspace = [32, 64]
// CHECK-LABEL: func.func @norm_after_2_rows(
// CHECK: arith.subf
// CHECK: math.rsqrt
// CHECK: vector.store
// CHECK-NOT: vector.store
// CHECK: return
func.func @norm_after(%x: tensor<?x8xf32>, %u: tensor<16x8xf32>,
                      %d: tensor<8x16xf32>, %w: tensor<8xf32>,
                      %b: tensor<8xf32>) -> tensor<?x8xf32> {
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) then_add(%x) rounding(exact)
    : (tensor<?x8xf32>, tensor<16x8xf32>, tensor<8x16xf32>, tensor<?x8xf32>)
      -> tensor<?x8xf32>
  %z = fuse.layer_norm %y weight(%w) bias(%b) eps 1.0e-12
    : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}

// -----

// Weights of [in, out] are packed as they are stored. Elementwise ops between
// two products are one pass, in which only the last value is stored, and
// reshapes of tokens move nothing.

#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// CHECK-LABEL: func @conv1d
// CHECK-SAME: operands = [2], recipe = "panels_transposed", steps = 8
// CHECK-SAME: operands = [3], recipe = "panels_transposed", steps = 12
// CHECK-SAME: {arguments = [{workspace = [[A:[0-9]+]] : i64}, {workspace = [[B:[0-9]+]] : i64}], function = "conv1d_2_map", panels = 1 : i64, tokens = 4 : i64}
// CHECK-SAME: {arguments = [{workspace = [[B]] : i64}, {packed = 1 : i64}, {result = 0 : i64}], function = "conv1d_3_output0"
// CHECK-LABEL: func.func @conv1d_2_map(
// CHECK: %[[V:.*]] = vector.load
// CHECK: %[[H:.*]] = arith.mulf %[[V]], %{{.*}} : vector<4xf32>
// CHECK: %[[T:.*]] = math.tanh %[[V]] : vector<4xf32>
// CHECK: %[[S:.*]] = arith.addf %[[T]], %[[V]] : vector<4xf32>
// CHECK: %[[P:.*]] = arith.mulf %[[H]], %[[S]] : vector<4xf32>
// CHECK: vector.store %[[P]]
// CHECK-NOT: vector.store
// CHECK: return
func.func @conv1d(%x: tensor<?x?x8xf32>, %n: tensor<8xf32>,
                  %u: tensor<8x12xf32>, %d: tensor<12x8xf32>)
    -> tensor<?x?x8xf32> {
  %half = arith.constant 5.0e-1 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %batch = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %length = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %e0 = tensor.empty() : tensor<12x8xf32>
  %ut = linalg.transpose ins(%u : tensor<8x12xf32>) outs(%e0 : tensor<12x8xf32>)
          permutation = [1, 0]
  %h = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%ut) rounding(exact)
    : (tensor<?x?x8xf32>, tensor<8xf32>, tensor<12x8xf32>)
      -> tensor<?x?x12xf32>
  %e1 = tensor.empty(%batch, %length) : tensor<?x?x12xf32>
  %a = linalg.generic {indexing_maps = [#map, #map],
         iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%h : tensor<?x?x12xf32>) outs(%e1 : tensor<?x?x12xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.mulf %in, %half : f32
    linalg.yield %0 : f32
  } -> tensor<?x?x12xf32>
  %t = linalg.generic {indexing_maps = [#map, #map],
         iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%h : tensor<?x?x12xf32>) outs(%e1 : tensor<?x?x12xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = math.tanh %in : f32
    linalg.yield %0 : f32
  } -> tensor<?x?x12xf32>
  %s = fuse.residual_add %t, %h
    : (tensor<?x?x12xf32>, tensor<?x?x12xf32>) -> tensor<?x?x12xf32>
  %p = linalg.generic {indexing_maps = [#map, #map, #map],
         iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a, %s : tensor<?x?x12xf32>, tensor<?x?x12xf32>)
      outs(%e1 : tensor<?x?x12xf32>) {
  ^bb0(%in: f32, %other: f32, %out: f32):
    %0 = arith.mulf %in, %other : f32
    linalg.yield %0 : f32
  } -> tensor<?x?x12xf32>
  %flat = tensor.collapse_shape %p [[0, 1], [2]]
    : tensor<?x?x12xf32> into tensor<?x12xf32>
  %e2 = tensor.empty() : tensor<8x12xf32>
  %dt = linalg.transpose ins(%d : tensor<12x8xf32>) outs(%e2 : tensor<8x12xf32>)
          permutation = [1, 0]
  %y = fuse.linear %flat, %dt
    : (tensor<?x12xf32>, tensor<8x12xf32>) -> tensor<?x8xf32>
  %z = tensor.expand_shape %y [[0, 1], [2]] output_shape [%batch, %length, 8]
    : tensor<?x8xf32> into tensor<?x?x8xf32>
  return %z : tensor<?x?x8xf32>
}
