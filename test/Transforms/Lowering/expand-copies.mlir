// RUN: fuse-opt %s --fuse-expand-copies | FileCheck %s

// CHECK-LABEL: func @into_columns
// CHECK-SAME: %[[X:.*]]: memref<?x4xf32>, %[[Y:.*]]: memref<?x4xf32, strided<[8, 1], offset: 2>>
// CHECK: linalg.generic
// CHECK-SAME: ins(%[[X]] : {{.*}}) outs(%[[Y]] :
// CHECK: linalg.yield %in
// CHECK-NOT: memref.copy
func.func @into_columns(%x: memref<?x4xf32>,
                        %y: memref<?x4xf32, strided<[8, 1], offset: 2>>) {
  memref.copy %x, %y
    : memref<?x4xf32> to memref<?x4xf32, strided<[8, 1], offset: 2>>
  return
}

// Upstream has no memcpy for these either.
// CHECK-LABEL: func @empty
// CHECK: linalg.generic
func.func @empty(%x: memref<0x4xf32>,
                 %y: memref<0x4xf32, strided<[4, 1], offset: 8>>) {
  memref.copy %x, %y
    : memref<0x4xf32> to memref<0x4xf32, strided<[4, 1], offset: 8>>
  return
}

// CHECK-LABEL: func @no_contiguous
// CHECK: memref.copy
// CHECK-NOT: linalg.generic
func.func @no_contiguous(%x: memref<?x4xf32>, %y: memref<?x4xf32>) {
  memref.copy %x, %y : memref<?x4xf32> to memref<?x4xf32>
  return
}

// CHECK-LABEL: func @no_contiguous_with_offset
// CHECK: memref.copy
// CHECK-NOT: linalg.generic
func.func @no_contiguous_with_offset(
    %x: memref<2x4xf32>, %y: memref<2x4xf32, strided<[4, 1], offset: 8>>) {
  memref.copy %x, %y
    : memref<2x4xf32> to memref<2x4xf32, strided<[4, 1], offset: 8>>
  return
}

// CHECK-LABEL: func @no_unranked
// CHECK: memref.copy
func.func @no_unranked(%x: memref<*xf32>, %y: memref<*xf32>) {
  memref.copy %x, %y : memref<*xf32> to memref<*xf32>
  return
}
