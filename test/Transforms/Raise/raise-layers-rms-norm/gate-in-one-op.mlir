// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers -o /dev/null \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// A gate in one op with the norm: there is no tensor to be the norm's result.

// CHECK-LABEL: func @gate_in_one_op(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N113 weight-shape
func.func @gate_in_one_op(%x: tensor<4x64xf32>, %w: tensor<4x64xf32>)
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
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0)>,
                       affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %r, %w : tensor<4x64xf32>, tensor<4xf32>, tensor<4x64xf32>)
      outs(%init : tensor<4x64xf32>) {
  ^bb0(%a: f32, %s: f32, %c: f32, %out: f32):
    %0 = arith.mulf %a, %s : f32
    %1 = arith.mulf %0, %c : f32
    linalg.yield %1 : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
