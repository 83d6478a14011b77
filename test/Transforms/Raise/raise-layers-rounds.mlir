// RUN: fuse-opt %s --fuse-raise-layers | FileCheck %s
// RUN: fuse-opt %s --fuse-raise-layers=max-rounds=1 \
// RUN:   --remarks-filter-missed=raise --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BOUND

// Sums become residual adds one after the other, from the layer on. The bound
// ends this early, with a remark.

// CHECK-LABEL: func @sums(
// CHECK-NEXT:    fuse.linear
// CHECK-NEXT:    fuse.residual_add
// CHECK-NEXT:    fuse.residual_add
// CHECK-NEXT:    fuse.residual_add
// CHECK-NEXT:    return

// BOUND:       remark: [Missed] layer {{.*}}At=func.func{{.*}}FUSE-N136 rounds
// BOUND-LABEL: func @sums(
// BOUND:         fuse.residual_add
// BOUND:         arith.addf
func.func @sums(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>) -> tensor<2x4xf32> {
  %0 = fuse.linear %x, %w
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = arith.addf %0, %x : tensor<2x4xf32>
  %2 = arith.addf %1, %x : tensor<2x4xf32>
  %3 = arith.addf %2, %x : tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}
