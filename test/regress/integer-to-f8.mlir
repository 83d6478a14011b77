// RUN: fuse-fuzz %s --raise | FileCheck %s

// A cast of a cast of integers becomes one conversion of integers to f8, which
// LLVM does not have.

// CHECK: 1 compared, {{.+}} 0 differing, no failure
func.func @dequantized(%x: tensor<3x8xf32>, %w: tensor<8x4xi8>)
    -> tensor<3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = arith.sitofp %w : tensor<8x4xi8> to tensor<8x4xf32>
  %1 = arith.truncf %0 : tensor<8x4xf32> to tensor<8x4xf8E4M3FN>
  %2 = arith.extf %1 : tensor<8x4xf8E4M3FN> to tensor<8x4xf32>
  %3 = tensor.empty() : tensor<3x4xf32>
  %4 = linalg.fill ins(%zero : f32) outs(%3 : tensor<3x4xf32>)
    -> tensor<3x4xf32>
  %5 = linalg.matmul ins(%x, %2 : tensor<3x8xf32>, tensor<8x4xf32>)
    outs(%4 : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %5 : tensor<3x4xf32>
}
