// RUN: fuse-opt %s --fuse-form-kernels | FileCheck %s --check-prefix=FORMED
// RUN: fuse-opt %s --fuse-form-kernels --fuse-unfuse | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null
// RUN: fuse-opt %s --fuse-form-kernels --verify-roundtrip -o /dev/null

// Members go back to where they stood among the other ops of the block.

// Two members stand behind the last of the others, and keep their order.
// FORMED-LABEL: @two_behind_the_last
// FORMED: provenance(places = [0, 2, 3])
// CHECK-LABEL: @two_behind_the_last
func.func @two_behind_the_last(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  // CHECK: fuse.linear
  // CHECK-NEXT: arith.negf
  // CHECK-NEXT: fuse.activation
  // CHECK-NEXT: fuse.linear
  // CHECK-NEXT: return
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %1 = arith.negf %x : tensor<?x64xf32>
  %2 = fuse.activation silu %0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %3 = fuse.linear %2, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %1, %3 : tensor<?x64xf32>, tensor<?x64xf32>
}

// The kernel stands behind the op that makes its last operand.
// FORMED-LABEL: @operand_between
// FORMED: arith.negf
// FORMED: fuse.mlp {{.*}} provenance(places = [0, 1, 3], before = 1)
// CHECK-LABEL: @operand_between
func.func @operand_between(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                           %v: tensor<64x64xf32>) -> tensor<?x64xf32> {
  // CHECK: fuse.linear
  // CHECK-NEXT: fuse.activation
  // CHECK-NEXT: arith.negf
  // CHECK-NEXT: fuse.linear
  // CHECK-NEXT: return
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %1 = fuse.activation silu %0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %2 = arith.negf %v : tensor<64x64xf32>
  %3 = fuse.linear %1, %2
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %3 : tensor<?x64xf32>
}

// Two chains that take turns.
// FORMED-LABEL: @interleaved
// FORMED: fuse.mlp
// FORMED: fuse.mlp
// FORMED-NEXT: return
// CHECK-LABEL: @interleaved
func.func @interleaved(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>)
    -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  // CHECK: fuse.linear
  // CHECK-NEXT: fuse.linear
  // CHECK-NEXT: fuse.activation silu
  // CHECK-NEXT: fuse.activation relu
  // CHECK-NEXT: fuse.linear
  // CHECK-NEXT: fuse.linear
  // CHECK-NEXT: return
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %1 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %2 = fuse.activation silu %1 : tensor<?x64xf32> -> tensor<?x64xf32>
  %3 = fuse.activation relu %0 : tensor<?x64xf32> -> tensor<?x64xf32>
  %4 = fuse.linear %3, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  %5 = fuse.linear %2, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return %4, %5 : tensor<?x64xf32>, tensor<?x64xf32>
}

// Members share a location; the location of a kernel survives printing.
// CHECK-LABEL: @shared_location
func.func @shared_location(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>)
    -> tensor<?x64xf32> {
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc("a")
  %1 = fuse.activation silu %0 : tensor<?x64xf32> -> tensor<?x64xf32> loc("a")
  %2 = fuse.linear %1, %w
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32> loc(unknown)
  return %2 : tensor<?x64xf32>
}
