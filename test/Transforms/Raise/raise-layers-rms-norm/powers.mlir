// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s

// The root as a power, the square too, the mean inside of the sum.

// CHECK-LABEL: func @powers(
// CHECK-NEXT:    fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<4x64xf32>) -> tensor<4x64xf32>
// CHECK-NEXT:    return
func.func @powers(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %two = arith.constant dense<2.0> : tensor<4x64xf32>
  %n = arith.constant dense<0.015625> : tensor<4x64xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %half = arith.constant dense<-0.5> : tensor<4xf32>
  %init = tensor.empty() : tensor<4x64xf32>
  %sq = math.powf %x, %two : tensor<4x64xf32>
  %part = arith.mulf %sq, %n : tensor<4x64xf32>
  %mean = linalg.reduce { arith.addf } ins(%part : tensor<4x64xf32>)
      outs(%zero : tensor<4xf32>) dimensions = [1]
  %v = arith.addf %eps, %mean : tensor<4xf32>
  %r = math.powf %v, %half : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>)
      outs(%init : tensor<4x64xf32>) dimensions = [1]
  %y = arith.mulf %rb, %x : tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}
