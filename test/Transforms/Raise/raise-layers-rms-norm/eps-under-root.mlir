// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s

// Two small constants are added; eps is the one under the root.

// CHECK-LABEL: func @eps_under_root(
// CHECK:         %[[X:.*]] = arith.addf
// CHECK-NEXT:    fuse.rms_norm %[[X]] weight(%{{.*}}) eps 1.0e-05 :
func.func @eps_under_root(%a: tensor<4x64xf32>, %w: tensor<64xf32>)
    -> tensor<4x64xf32> {
  %shift = arith.constant dense<1.0e-6> : tensor<4x64xf32>
  %x = arith.addf %a, %shift : tensor<4x64xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<64.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.divf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.rsqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %wb = linalg.broadcast ins(%w : tensor<64xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [0]
  %nf = arith.mulf %x, %rb : tensor<4x64xf32>
  %y = arith.mulf %nf, %wb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
