// RUN: fuse-opt %s --fuse-expand-reshapes | FileCheck %s

// CHECK-LABEL: func @two_dynamic
// CHECK-SAME: %[[X:[^:]+]]: memref<?x8xf32>, %[[A:[^:]+]]: index, %[[B:[^:]+]]: index
// CHECK: %[[STRIDE:.*]] = arith.muli %{{.*}}, %[[B]]
// CHECK: memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[A]], %[[B]], 8], strides: [%[[STRIDE]], 8, 1]
func.func @two_dynamic(%x: memref<?x8xf32>, %a: index, %b: index)
    -> memref<?x?x8xf32> {
  %y = memref.expand_shape %x [[0, 1], [2]] output_shape [%a, %b, 8]
    : memref<?x8xf32> into memref<?x?x8xf32>
  return %y : memref<?x?x8xf32>
}

// CHECK-LABEL: func @no_one_dynamic
// CHECK: memref.expand_shape
func.func @no_one_dynamic(%x: memref<?x8xf32>, %a: index)
    -> memref<2x?x8xf32> {
  %y = memref.expand_shape %x [[0, 1], [2]] output_shape [2, %a, 8]
    : memref<?x8xf32> into memref<2x?x8xf32>
  return %y : memref<2x?x8xf32>
}

// CHECK-LABEL: func @no_strided
// CHECK: memref.expand_shape
func.func @no_strided(%x: memref<?xf32, strided<[2]>>, %a: index, %b: index)
    -> memref<?x?xf32, strided<[?, 2]>> {
  %y = memref.expand_shape %x [[0, 1]] output_shape [%a, %b]
    : memref<?xf32, strided<[2]>> into memref<?x?xf32, strided<[?, 2]>>
  return %y : memref<?x?xf32, strided<[?, 2]>>
}
