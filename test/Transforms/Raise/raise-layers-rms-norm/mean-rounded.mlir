// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers -o /dev/null \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// The mean of squares in bf16.

// CHECK-LABEL: func @mean_rounded(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N101 extra-rounding
func.func @mean_rounded(%x: tensor<4x64xbf16>) -> tensor<4x64xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %f = arith.extf %x : tensor<4x64xbf16> to tensor<4x64xf32>
  %sq = arith.mulf %f, %f : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %wide = arith.divf %sum, %n : tensor<4xf32>
  %narrow = arith.truncf %wide : tensor<4xf32> to tensor<4xbf16>
  %mean = arith.extf %narrow : tensor<4xbf16> to tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  return %nb : tensor<4x64xbf16>
}
