// RUN: fuse-opt %s --fuse-gpu-pipeline=chip=sm_90 | FileCheck %s

// The product of two bf16 values is rounded to f16 once. LLVM would round both
// factors to f16 first, where 1e6 * 1e-3 is infinite.

// CHECK: gpu.binary
// CHECK-NOT: mul.rn.f16
// CHECK-SAME: mul.rn.f32 \09%[[PRODUCT:r[0-9]+]], %{{r[0-9]+}}, %{{r[0-9]+}};\0A\09cvt.rn.f16.f32 \09%{{rs[0-9]+}}, %[[PRODUCT]];
func.func @product(%x: tensor<2x16xbf16>, %y: tensor<2x16xbf16>)
    -> tensor<2x16xf16> {
  %0 = fuse.gated_mul %x, %y
    : (tensor<2x16xbf16>, tensor<2x16xbf16>) -> tensor<2x16xf16>
  return %0 : tensor<2x16xf16>
}
