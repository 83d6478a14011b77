// Functions may have the names of phases of kernels and of what these call.

// RUN: fuse-compile %s -o %t.linked.fuse
// RUN: fuse-compile --verify %t.linked.fuse | FileCheck %s
// RUN: fuse-compile %s --no-link -o %t.fuse
// RUN: fuse-compile --verify %t.fuse | FileCheck %s

// CHECK: @f has the results of its layers {{.*}}ok
func.func @f(%x: tensor<?x8xf32>, %w: tensor<8xf32>,
             %d: tensor<8x8xf32> {fuse.parameter = "d"}) -> tensor<?x8xf32> {
  %0 = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%d) rounding(exact)
    : (tensor<?x8xf32>, tensor<8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK: @f_rows has the bits of its layers {{.*}}ok
func.func @f_rows(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.addf %x, %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK: @multiply_f32_1 has the bits of its layers {{.*}}ok
func.func @multiply_f32_1(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = fuse.activation silu %x : tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
