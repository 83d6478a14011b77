// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers -o /dev/null \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// One plus the weight is kept in f32 behind a rounded value, and no tensor.

// CHECK-LABEL: func @offset_in_one_op(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N115 offset-rounding
func.func @offset_in_one_op(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                       affine_map<(d0, d1) -> (d0)>,
                       affine_map<(d0, d1) -> (d1)>,
                       affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}
      ins(%x, %r, %w : tensor<4x64xbf16>, tensor<4xf32>, tensor<64xbf16>)
      outs(%init : tensor<4x64xf32>) {
  ^bb0(%a: bf16, %s: f32, %c: bf16, %out: f32):
    %one = arith.constant 1.0 : f32
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.mulf %0, %s : f32
    %2 = arith.truncf %1 : f32 to bf16
    %3 = arith.extf %2 : bf16 to f32
    %4 = arith.extf %c : bf16 to f32
    %5 = arith.addf %one, %4 : f32
    %6 = arith.mulf %3, %5 : f32
    linalg.yield %6 : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
