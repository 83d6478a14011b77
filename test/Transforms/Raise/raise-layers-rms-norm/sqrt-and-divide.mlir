// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s

// The root as sqrt and division, the mean as a product with 1/64, elements
// f32.

// CHECK-LABEL: func @sqrt_and_divide(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>) -> tensor<4x64xf32>
// CHECK-NEXT:    return
func.func @sqrt_and_divide(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %n = arith.constant dense<0.015625> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = arith.mulf %x, %x : tensor<4x64xf32>
  %sum = linalg.reduce { arith.addf } ins(%sq : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %mean = arith.mulf %sum, %n : tensor<4xf32>
  %v = arith.addf %mean, %eps : tensor<4xf32>
  %r = math.sqrt %v : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.divf %x, %rb : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
