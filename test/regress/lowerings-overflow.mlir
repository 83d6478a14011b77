// RUN: fuse-fuzz %s --seed=56506 --stratum=boundary --run | FileCheck %s
// CHECK: no failure

// As fuse-fuzz reduced it. Next to the largest f16, a sum in one order rounds to
// infinity and in another one does not. The contract allows both, and it is the
// contract that judges; the comparison of the two lowerings went beyond it.

module {
  func.func @f(%arg0: tensor<?x256xf16>, %arg1: tensor<128xf16>, %arg2: tensor<128x256xf8E5M2>, %arg3: tensor<256xf16>, %arg4: tensor<256x128xf8E5M2>, %arg5: tensor<?x128xf16>) -> tensor<?x256xf16> {
    %0 = fuse.dequantize %arg2 scale 1.0 : (tensor<128x256xf8E5M2>) -> tensor<128x256xf16>
    %1 = fuse.rms_norm %arg0 eps 0.25 : (tensor<?x256xf16>) -> tensor<?x256xf16>
    %2 = fuse.linear %1, %0 bias(%arg1) : (tensor<?x256xf16>, tensor<128x256xf16>, tensor<128xf16>) -> tensor<?x128xf16>
    %3 = fuse.activation relu %2 : tensor<?x128xf16> -> tensor<?x128xf16>
    %4 = fuse.gated_mul %3, %arg5 : (tensor<?x128xf16>, tensor<?x128xf16>) -> tensor<?x128xf16>
    %5 = fuse.dequantize %arg4 scale 0.1 : (tensor<256x128xf8E5M2>) -> tensor<256x128xf16>
    %6 = fuse.linear %4, %5 bias(%arg3) : (tensor<?x128xf16>, tensor<256x128xf16>, tensor<256xf16>) -> tensor<?x256xf16>
    %7 = fuse.residual_add %6, %arg0 : (tensor<?x256xf16>, tensor<?x256xf16>) -> tensor<?x256xf16>
    return %7 : tensor<?x256xf16>
  }
}
