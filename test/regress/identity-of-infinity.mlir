// RUN: fuse-fuzz %s --seed=21813 --stratum=boundary --run | FileCheck %s
// CHECK: no failure

// Sums in f16 are infinite here, as the contract allows, and zero times infinity
// is NaN: a product with an identity matrix is none that changes nothing.

module {
  func.func @f(%arg0: tensor<?x257xf16>, %arg1: tensor<63x257xf8E5M2>, %arg2: tensor<257x63xi8>) -> tensor<?x257xf16> {
    %0 = fuse.layer_norm %arg0 eps 0.25 : (tensor<?x257xf16>) -> tensor<?x257xf16>
    %1 = fuse.quantize %0 scale 0.25 : (tensor<?x257xf16>) -> tensor<?x257xf8E5M2>
    %2 = fuse.dequantize %1 scale 0.25 : (tensor<?x257xf8E5M2>) -> tensor<?x257xf16>
    %3 = fuse.dequantize %arg1 scale 1.0 : (tensor<63x257xf8E5M2>) -> tensor<63x257xf16>
    %4 = fuse.linear %2, %3 : (tensor<?x257xf16>, tensor<63x257xf16>) -> tensor<?x63xf16>
    %5 = fuse.dequantize %arg1 scale 0.25 : (tensor<63x257xf8E5M2>) -> tensor<63x257xf16>
    %6 = fuse.linear %2, %5 : (tensor<?x257xf16>, tensor<63x257xf16>) -> tensor<?x63xf16>
    %7 = fuse.activation quick_gelu %6 : tensor<?x63xf16> -> tensor<?x63xf16>
    %8 = fuse.gated_mul %4, %7 : (tensor<?x63xf16>, tensor<?x63xf16>) -> tensor<?x63xf16>
    %9 = fuse.quantize %8 scale 0.25 : (tensor<?x63xf16>) -> tensor<?x63xf8E5M2>
    %10 = fuse.dequantize %9 scale 0.25 : (tensor<?x63xf8E5M2>) -> tensor<?x63xf16>
    %11 = fuse.dequantize %arg2 scale 0.13 : (tensor<257x63xi8>) -> tensor<257x63xf16>
    %12 = fuse.linear %10, %11 : (tensor<?x63xf16>, tensor<257x63xf16>) -> tensor<?x257xf16>
    %13 = fuse.residual_add %12, %arg0 : (tensor<?x257xf16>, tensor<?x257xf16>) -> tensor<?x257xf16>
    return %13 : tensor<?x257xf16>
  }
}
