// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s

// Nothing but the norm uses the sum.

// CHECK-LABEL: func @dead_residual(
// CHECK-NEXT:    %[[S:.*]] = fuse.residual_add
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %[[S]]
// CHECK-NEXT:    return %[[Y]]
func.func @dead_residual(%a: tensor<4x64xbf16>, %b: tensor<4x64xbf16>)
    -> tensor<4x64xbf16> {
  %x = arith.addf %a, %b : tensor<4x64xbf16>
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
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %nf = arith.mulf %f, %rb : tensor<4x64xf32>
  %nb = arith.truncf %nf : tensor<4x64xf32> to tensor<4x64xbf16>
  return %nb : tensor<4x64xbf16>
}
