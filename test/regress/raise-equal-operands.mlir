// RUN: fuse-fuzz %s --seed=40002333 --raise | FileCheck %s
// CHECK: no failure

// Two casts of one value are one value, and their minimum is that value, before a
// norm is looked for. Raising once was not enough.

module {
  func.func @wide_add(%arg0: tensor<4x64xbf16>, %arg1: tensor<4x64xf32>) -> tensor<4x64xbf16> {
    %0 = arith.extf %arg0 : tensor<4x64xbf16> to tensor<4x64xf32>
    %1 = arith.extf %arg0 : tensor<4x64xbf16> to tensor<4x64xf32>
    %2 = arith.minimumf %0, %1 : tensor<4x64xf32>
    %cst = arith.constant dense<0.000000e+00> : tensor<4xf32>
    %cst_0 = arith.constant dense<6.400000e+01> : tensor<4xf32>
    %3 = arith.mulf %2, %2 : tensor<4x64xf32>
    %reduced = linalg.reduce { arith.addf } ins(%3 : tensor<4x64xf32>) outs(%cst : tensor<4xf32>) dimensions = [1] 
    %4 = arith.divf %reduced, %cst_0 : tensor<4xf32>
    %5 = math.rsqrt %4 : tensor<4xf32>
    %broadcasted = linalg.broadcast ins(%5 : tensor<4xf32>) outs(%arg1 : tensor<4x64xf32>) dimensions = [1] 
    %6 = arith.mulf %2, %broadcasted : tensor<4x64xf32>
    %7 = arith.truncf %6 : tensor<4x64xf32> to tensor<4x64xbf16>
    return %7 : tensor<4x64xbf16>
  }
}
