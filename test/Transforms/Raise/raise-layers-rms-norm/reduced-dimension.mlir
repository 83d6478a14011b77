// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers -o /dev/null \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// Normalized over dimension 0.

// CHECK-LABEL: func @reduced_dimension(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N104 reduced-dimension
func.func @reduced_dimension(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %n = arith.constant dense<64.0> : tensor<64xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<64xf32>
  %init = tensor.empty() : tensor<64x64xf32>
  %sq = arith.mulf %x, %x : tensor<64x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<64x64xf32>)
      outs(%zero : tensor<64xf32>) dimensions = [0]
  %mean = arith.divf %sum, %n : tensor<64xf32>
  %v = arith.addf %mean, %eps : tensor<64xf32>
  %r = math.rsqrt %v : tensor<64xf32>
  %rb = linalg.broadcast ins(%r : tensor<64xf32>)
      outs(%init : tensor<64x64xf32>) dimensions = [0]
  %y = arith.mulf %x, %rb : tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
