// RUN: fuse-opt %s --fuse-linalg-pipeline | FileCheck %s
// RUN: fuse-run %s --shape=1:7x2x8 --reference --print | FileCheck %s \
// RUN:   --check-prefix=EXECUTED

// A size may be static in one operand and dynamic in another: the layer is
// lowered with the static one, and the result keeps its type. Arithmetic
// between layers that is no layer op is lowered with them.

// CHECK-LABEL: func @mixed_sizes
// CHECK:         linalg.generic {{.*}} ins({{.*}} : tensor<14x8xf32>, tensor<14x8xf32>)
// CHECK:         arith.addf
// CHECK-NOT:     arith.negf %{{.*}} : tensor
// CHECK:         tensor.cast %{{.*}} : tensor<7x2x8xf32> to tensor<?x2x8xf32>
// EXECUTED: 7x2x8xf32
func.func @mixed_sizes(%a: tensor<7x2x8xf32>, %b: tensor<?x2x8xf32>)
    -> tensor<?x2x8xf32> {
  %0 = fuse.residual_add %a, %b
    : (tensor<7x2x8xf32>, tensor<?x2x8xf32>) -> tensor<?x2x8xf32>
  %1 = arith.negf %0 : tensor<?x2x8xf32>
  %2 = fuse.activation silu %1 : tensor<?x2x8xf32> -> tensor<?x2x8xf32>
  return %2 : tensor<?x2x8xf32>
}
