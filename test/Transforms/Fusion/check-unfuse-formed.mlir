// RUN: fuse-opt %s --fuse-form-kernels=disable=again#1 -o %t.formed
// RUN: fuse-opt %t.formed --fuse-check-unfuse --remarks-filter=fuse \
// RUN:   --remark-format=emitRemark -o %t.checked 2>&1 \
// RUN:   | FileCheck %s --implicit-check-not=Passed
// RUN: diff %t.formed %t.checked
// RUN: fuse-opt %s --fuse-form-kernels -o %t.all
// RUN: fuse-opt %t.all --fuse-check-unfuse | diff %t.all -

// The check forms and unfuses only sites that are not fused yet.

// CHECK: [Passed] again#1

func.func @again(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %1 = fuse.activation gelu %0 : tensor<?x8xf32> -> tensor<?x8xf32>
  %2 = fuse.linear %1, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %3 = fuse.linear %2, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %4 = fuse.activation gelu %3 : tensor<?x8xf32> -> tensor<?x8xf32>
  %5 = fuse.linear %4, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %5 : tensor<?x8xf32>
}
