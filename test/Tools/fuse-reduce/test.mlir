// RUN: fuse-reduce %s --test=%S/still-fails.sh | FileCheck %s
// RUN: echo 'func.func private @g()' > %t.mlir
// RUN: not fuse-reduce %t.mlir --test=%S/still-fails.sh 2>&1 | FileCheck %s --check-prefix=DULL
// RUN: not fuse-reduce %t.mlir --test=%t.nowhere 2>&1 | FileCheck %s --check-prefix=NOWHERE

// Ops that nothing needs go, and what the gelu is applied to becomes an
// argument. Sizes get smaller, attributes and locations are forgotten.

// CHECK:      module {
// CHECK-NEXT:   func.func @f(%[[X:.*]]: tensor<1x1xf32>) -> tensor<1x1xf32> {
// CHECK-NEXT:     %[[Y:.*]] = fuse.activation gelu %[[X]] : tensor<1x1xf32> -> tensor<1x1xf32>
// CHECK-NEXT:     return %[[Y]]
// CHECK-NEXT:   }
// CHECK-NEXT: }
func.func @f(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>)
    -> (tensor<4x16xf32>, tensor<4x8xf32>) {
  %h = fuse.linear %x, %w : (tensor<4x8xf32>, tensor<16x8xf32>)
    -> tensor<4x16xf32>
  %y = fuse.activation gelu %h {note = "kept"}
    : tensor<4x16xf32> -> tensor<4x16xf32>
  %z = fuse.activation relu %y : tensor<4x16xf32> -> tensor<4x16xf32>
  %s = fuse.activation silu %x : tensor<4x8xf32> -> tensor<4x8xf32>
  return %z, %s : tensor<4x16xf32>, tensor<4x8xf32>
}

func.func private @unused(%x: tensor<4x8xf32>) {
  return
}

// DULL: error: {{.*}}still-fails.sh does not exit with 1 on {{.*}}.mlir, so that there is nothing to keep
// NOWHERE: error: cannot run '{{.*}}.nowhere': {{.*}}No such file or directory
