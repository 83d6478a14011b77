// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s

// Llama, Qwen, Mistral: normalized, cast, then multiplied by the weight.

// CHECK-LABEL: func @before_weight(
// CHECK-SAME:    %[[X:.*]]: tensor<4x64xbf16>, %[[W:.*]]: tensor<64xbf16>
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %[[X]] weight(%[[W]]) eps 1.0e-06 :
// CHECK-NEXT:    return %[[Y]]
func.func @before_weight(%x: tensor<4x64xbf16>, %w: tensor<64xbf16>)
    -> tensor<4x64xbf16> {
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
  %initb = tensor.empty() : tensor<4x64xbf16>
  %wb = linalg.broadcast ins(%w : tensor<64xbf16>)
      outs(%initb : tensor<4x64xbf16>) dimensions = [0]
  %y = arith.mulf %wb, %nb : tensor<4x64xbf16>
  return %y : tensor<4x64xbf16>
}
