// RUN: fuse-opt %s --fuse-gpu-pipeline=stage=gpu | FileCheck %s

// Arithmetic on whole tensors, as front ends write it between layers, is a
// kernel like any other; unused in a region it is none.

// CHECK-LABEL: func @elementwise(
// CHECK-NOT:     arith.negf
// CHECK:         gpu.launch_func @kernels::@map_f32_f32 blocks
// CHECK-NEXT:    return
func.func @elementwise(%x: tensor<3x16xf32>) -> tensor<3x16xf32> {
  scf.execute_region {
    %unused = arith.negf %x : tensor<3x16xf32>
    scf.yield
  }
  %y = arith.negf %x : tensor<3x16xf32>
  return %y : tensor<3x16xf32>
}
