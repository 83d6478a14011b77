// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers -o /dev/null \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// Eps beside the root instead of under it.

// CHECK-LABEL: func @eps_beside_root(
// CHECK-NOT:     fuse.rms_norm
// REMARK: remark: [Missed] rms_norm
// REMARK-SAME: FUSE-N132 eps-place
func.func @eps_beside_root(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %root = math.sqrt %mean : tensor<4xf32>
  %r = arith.addf %root, %eps : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.divf %x, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
