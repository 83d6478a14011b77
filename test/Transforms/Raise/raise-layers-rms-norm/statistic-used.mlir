// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s

// The statistic is used elsewhere; the norm is raised, the op stays.

// CHECK-LABEL: func @statistic_used(
// CHECK:         %[[R:.*]] = math.rsqrt
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm
// CHECK-NEXT:    return %[[Y]], %[[R]]
func.func @statistic_used(%x: tensor<4x64xf32>)
    -> (tensor<4x64xf32>, tensor<4xf32>) {
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
  %y = arith.mulf %x, %rb : tensor<4x64xf32>
  return %y, %r : tensor<4x64xf32>, tensor<4xf32>
}
