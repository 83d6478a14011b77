// RUN: fuse-opt %s --fuse-raise-layers -split-input-file | FileCheck %s

// A residual add before an rms norm.

// Only the norm uses the sum.

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

// -----

// A cast between the add and the norm: the norm reads the rounded sum.

// CHECK-LABEL: func @add_cast_norm(
// CHECK-NEXT:    %[[S:.*]] = fuse.residual_add %{{.*}} -> tensor<4x64xbf16>
// CHECK-NEXT:    %[[Y:.*]] = fuse.rms_norm %[[S]] eps 1.0e-06 : (tensor<4x64xbf16>) -> tensor<4x64xbf16>
// CHECK-NEXT:    return %[[Y]], %[[S]]
func.func @add_cast_norm(%a: tensor<4x64xbf16>, %b: tensor<4x64xbf16>)
    -> (tensor<4x64xbf16>, tensor<4x64xbf16>) {
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
  return %nb, %x : tensor<4x64xbf16>, tensor<4x64xbf16>
}

// -----

// The norm reads the f32 sum; the stream is rounded separately.

// CHECK-LABEL: func @wide_add(
// CHECK:         %[[S:.*]] = fuse.residual_add %{{.*}} -> tensor<4x64xf32>
// CHECK:         %[[Y:.*]] = fuse.rms_norm %[[S]] eps 1.0e-06 : (tensor<4x64xf32>) -> tensor<4x64xbf16>
// CHECK:         return %[[Y]]
func.func @wide_add(%a: tensor<4x64xbf16>, %b: tensor<4x64xbf16>)
    -> (tensor<4x64xbf16>, tensor<4x64xbf16>) {
  %af = arith.extf %a : tensor<4x64xbf16> to tensor<4x64xf32>
  %bf = arith.extf %b : tensor<4x64xbf16> to tensor<4x64xf32>
  %x = arith.addf %af, %bf : tensor<4x64xf32>
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
  %p = arith.mulf %x, %rb : tensor<4x64xf32>
  %y = arith.truncf %p : tensor<4x64xf32> to tensor<4x64xbf16>
  %s = arith.truncf %x : tensor<4x64xf32> to tensor<4x64xbf16>
  return %y, %s : tensor<4x64xbf16>, tensor<4x64xbf16>
}
