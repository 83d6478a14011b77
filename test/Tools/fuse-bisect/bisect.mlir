// The command stands for any check of the fused program. Here it fails for a
// program with certain kernels. Five sites need six runs: two with none and all
// of the sites, three in between, and one with the guilty site alone.

// RUN: fuse-bisect -v %s -- sh -c '! grep -q "five#3" {}' | FileCheck %s
// RUN: fuse-bisect %s -- sh -c '! grep "five#1" {} || ! grep "five#3" {}' \
// RUN:   | FileCheck %s --check-prefix=TWO

// CHECK:      0 of 5 sites fused: good
// CHECK-NEXT: 5 of 5 sites fused: bad
// CHECK-NEXT: 2 of 5 sites fused: good
// CHECK-NEXT: 3 of 5 sites fused: good
// CHECK-NEXT: 4 of 5 sites fused: bad
// CHECK-NEXT: 1 of 5 sites fused: bad
// CHECK-NEXT: guilty: five#3
// CHECK-NEXT: runs: 6
// CHECK-NEXT: reproduce: fuse-opt {{.*}}bisect.mlir --fuse-raising-pipeline '--fuse-form-kernels=disable=five#0,five#1,five#2,five#4'

// TWO:      guilty: five#3, together with sites in front of it
// TWO:      reproduce: {{.*}}=disable=five#4

func.func @five(%x0: tensor<?x8xf32>, %w1: tensor<16x8xf32>,
                %w2: tensor<8x16xf32>) -> tensor<?x8xf32> {
  %u0 = fuse.linear %x0, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a0 = fuse.activation silu %u0 : tensor<?x16xf32> -> tensor<?x16xf32>
  %x1 = fuse.linear %a0, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %u1 = fuse.linear %x1, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a1 = fuse.activation silu %u1 : tensor<?x16xf32> -> tensor<?x16xf32>
  %x2 = fuse.linear %a1, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %u2 = fuse.linear %x2, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a2 = fuse.activation silu %u2 : tensor<?x16xf32> -> tensor<?x16xf32>
  %x3 = fuse.linear %a2, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %u3 = fuse.linear %x3, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a3 = fuse.activation silu %u3 : tensor<?x16xf32> -> tensor<?x16xf32>
  %x4 = fuse.linear %a3, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %u4 = fuse.linear %x4, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a4 = fuse.activation silu %u4 : tensor<?x16xf32> -> tensor<?x16xf32>
  %x5 = fuse.linear %a4, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  return %x5 : tensor<?x8xf32>
}
