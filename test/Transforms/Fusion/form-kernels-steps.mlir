// RUN: fuse-opt %s --fuse-form-kernels=families=act_quantize \
// RUN:   --fuse-form-kernels | FileCheck %s
// RUN: fuse-opt %s --fuse-form-kernels=families=act_quantize \
// RUN:   --fuse-form-kernels --remarks-filter=.* 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: fuse-opt %s --fuse-form-kernels=families=act_quantize \
// RUN:   --fuse-form-kernels --fuse-unfuse > %t.unfused
// RUN: fuse-opt %s | diff - %t.unfused

// Kernels may be formed in several runs. Undoing them restores the input all
// the same, and no site id is given twice.

// CHECK-LABEL: @side_by_side
func.func @side_by_side(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xi8>) {
  // CHECK: fuse.mlp {{.*}} site("side_by_side#0")
  // CHECK: fuse.act_quantize {{.*}} site("side_by_side#1")
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %1 = fuse.activation silu %0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %2 = fuse.linear %1, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %3 = fuse.activation silu %x : tensor<?x64xf32> -> tensor<?x64xf32>
  %4 = fuse.quantize %3 scale 0.5 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return %2, %4 : tensor<?x64xf32>, tensor<?x64xi8>
}

// The second chain goes around a kernel of the first run. Kernels are undone
// from the last to the first, and these would be out of order.
// CHECK-LABEL: @interleaved
// REMARK: [Missed] interleaved#0 {{.*}}FUSE-N016 overlaps-kernel
func.func @interleaved(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xi8>) {
  // CHECK: fuse.linear
  // CHECK: fuse.activation
  // CHECK: fuse.act_quantize
  // CHECK: fuse.linear
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %1 = fuse.activation silu %0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %3 = fuse.activation silu %x : tensor<?x64xf32> -> tensor<?x64xf32>
  %4 = fuse.quantize %3 scale 0.5 : (tensor<?x64xf32>) -> tensor<?x64xi8>
  %2 = fuse.linear %1, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %2, %4 : tensor<?x64xf32>, tensor<?x64xi8>
}
