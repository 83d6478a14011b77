// RUN: fuse-opt %s --fuse-tile-transposes | FileCheck %s

// Blocks of 16 by 16 elements; the last ones are smaller.

// CHECK-LABEL: func @matrix(
// CHECK-DAG:     %[[STEP:.*]] = arith.constant 16 : index
// CHECK:         scf.for {{.*}} step %{{.*}} {
// CHECK:           scf.for {{.*}} step %{{.*}} {
// CHECK:             affine.min
// CHECK:             linalg.transpose
// CHECK-SAME:          permutation = [1, 0]
func.func @matrix(%x: memref<20x?xf32>, %y: memref<?x20xf32>) {
  linalg.transpose ins(%x : memref<20x?xf32>) outs(%y : memref<?x20xf32>)
      permutation = [1, 0]
  return
}

// Only the loops along which a buffer is contiguous.

// CHECK-LABEL: func @middle(
// CHECK-COUNT-2: scf.for
// CHECK-NOT:     scf.for
// CHECK:         linalg.transpose ins(%{{.*}} : memref<16x3x16xf32, {{.*}}>)
func.func @middle(%x: memref<32x3x64xf32>, %y: memref<64x3x32xf32>) {
  linalg.transpose ins(%x : memref<32x3x64xf32>) outs(%y : memref<64x3x32xf32>)
      permutation = [2, 1, 0]
  return
}

// The last dimension stays: rows are copied as they are.

// CHECK-LABEL: func @rows(
// CHECK-NOT:     scf.for
// CHECK:         linalg.transpose
func.func @rows(%x: memref<32x64x64xf32>, %y: memref<64x32x64xf32>) {
  linalg.transpose ins(%x : memref<32x64x64xf32>)
      outs(%y : memref<64x32x64xf32>) permutation = [1, 0, 2]
  return
}

// One block.

// CHECK-LABEL: func @small(
// CHECK-NOT:     scf.for
// CHECK:         linalg.transpose
func.func @small(%x: memref<16x64xf32>, %y: memref<64x16xf32>) {
  linalg.transpose ins(%x : memref<16x64xf32>) outs(%y : memref<64x16xf32>)
      permutation = [1, 0]
  return
}

// CHECK-LABEL: func @tensor(
// CHECK-NOT:     scf.for
// CHECK:         linalg.transpose
func.func @tensor(%x: tensor<32x64xf32>, %y: tensor<64x32xf32>)
    -> tensor<64x32xf32> {
  %t = linalg.transpose ins(%x : tensor<32x64xf32>) outs(%y : tensor<64x32xf32>)
      permutation = [1, 0]
  return %t : tensor<64x32xf32>
}
