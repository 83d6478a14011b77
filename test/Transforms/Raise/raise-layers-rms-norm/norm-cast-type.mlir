// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers -o /dev/null \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// The normalized value of an f32 input is rounded to bf16 before the weight;
// the layer would round it to f32. What is normalized is a layer all the same.

// CHECK-LABEL: func @norm_cast_type(
// CHECK:         fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
// CHECK:         arith.mulf
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: rounded to bf16, input is f32
// REMARK-SAME: FUSE-N114 norm-cast-type
func.func @norm_cast_type(%x: tensor<4x64xf32>, %w: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
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
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  %initb = tensor.empty() : tensor<4x64xbf16>
  %wb = linalg.broadcast ins(%w : tensor<64xbf16>)
      outs(%initb : tensor<4x64xbf16>) dimensions = [0]
  %y = arith.mulf %nb, %wb : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}
