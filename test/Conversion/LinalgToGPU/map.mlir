// RUN: fuse-opt %s --split-input-file --convert-linalg-to-gpu \
// RUN:   --canonicalize --cse | FileCheck %s

#id = affine_map<(i, j) -> (i, j)>
#j = affine_map<(i, j) -> (j)>

// Neighboring loops are one: the kernel knows the number of elements only.

// CHECK: [[BLOCKS:#.+]] = affine_map<()[s0, s1] -> ((s0 * s1) ceildiv 256)>
// CHECK-LABEL: func @twice(
// CHECK:         %[[GRID:.+]] = affine.apply [[BLOCKS]]
// CHECK:         gpu.launch_func @kernels::@map_f32_f32 blocks in (%[[GRID]], %{{.+}}, %{{.+}})
// CHECK-LABEL: gpu.func @map_f32_f32(
// CHECK-SAME:    %[[X:.+]]: memref<f32>, %[[Y:.+]]: memref<f32>, %[[N:.+]]: index)
// CHECK-DAG:     memref.reinterpret_cast %[[X]] to offset: [0], sizes: [%[[N]]], strides: [1]
// CHECK-DAG:     memref.reinterpret_cast %[[Y]] to offset: [0], sizes: [%[[N]]], strides: [1]
// CHECK:         %[[INSIDE:.+]] = arith.cmpi slt, %[[I:.+]], %[[N]] : index
// CHECK:         scf.if %[[INSIDE]]
// CHECK:           memref.load %{{.+}}[%[[I]]]
// CHECK:           memref.store %{{.+}}[%[[I]]]
func.func @twice(%x: memref<?x?xf32>, %y: memref<?x?xf32>) {
  linalg.generic {indexing_maps = [#id, #id],
                  iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x?xf32>) outs(%y : memref<?x?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %0 = arith.addf %a, %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#j = affine_map<(i, j) -> (j)>

// A vector along one loop keeps the loops apart. The scalar is a parameter,
// the constant is not.

// CHECK-LABEL: gpu.func @map_f32_f32_f32(
// CHECK-SAME:    %{{.+}}: memref<f32>, %{{.+}}: memref<f32>, %{{.+}}: memref<f32>, %[[S:.+]]: f32, %{{.+}}: index)
// CHECK-DAG:     %[[HALF:.+]] = arith.constant 5.0{{.*}}e-01
// CHECK-DAG:     %[[COLUMNS:.+]] = arith.constant 24 : index
// CHECK:         %[[J:.+]] = arith.remui %{{.+}}, %[[COLUMNS]]
// CHECK:         %[[I:.+]] = arith.divui %{{.+}}, %[[COLUMNS]]
// CHECK:         %[[B:.+]] = memref.load %{{.+}}[%[[J]]] : memref<24xf32>
// CHECK:         arith.addf %{{.+}}, %[[B]]
// CHECK:         arith.mulf %{{.+}}, %[[S]]
// CHECK:         arith.mulf %{{.+}}, %[[HALF]]
func.func @bias(%x: memref<?x24xf32>, %b: memref<24xf32>, %s: f32,
                %y: memref<?x24xf32>) {
  %half = arith.constant 0.5 : f32
  linalg.generic {indexing_maps = [#id, #j, #id],
                  iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : memref<?x24xf32>, memref<24xf32>)
      outs(%y : memref<?x24xf32>) {
  ^bb0(%a: f32, %c: f32, %out: f32):
    %0 = arith.addf %a, %c : f32
    %1 = arith.mulf %0, %s : f32
    %2 = arith.mulf %1, %half : f32
    linalg.yield %2 : f32
  }
  return
}

// -----

// Copies and named ops are ops like any other; an offset that is not static is
// a parameter, a static one is not.

// CHECK-LABEL: func @views(
// CHECK:         gpu.launch_func @kernels::@map_f32_f32
// CHECK-SAME:      args(%{{.+}} : memref<f32>, %{{.+}} : memref<f32>, %[[O:.+]] : index)
// CHECK-LABEL: gpu.func @map_f32_f32(
// CHECK-SAME:    %[[X:.+]]: memref<f32>, %{{.+}}: memref<f32>, %[[O:.+]]: index)
// CHECK:         memref.reinterpret_cast %[[X]] to offset: [%[[O]]], sizes: [4], strides: [2]
func.func @views(%x: memref<100xf32>, %offset: index, %y: memref<4xf32>) {
  %0 = memref.subview %x[%offset] [4] [2]
    : memref<100xf32> to memref<4xf32, strided<[2], offset: ?>>
  memref.copy %0, %y : memref<4xf32, strided<[2], offset: ?>> to memref<4xf32>
  return
}

// -----

// CHECK-LABEL: func @index(
// CHECK-LABEL: gpu.func @map_i64(
// CHECK:         %[[J:.+]] = arith.remui
// CHECK:         %[[I:.+]] = arith.divui
// CHECK:         arith.addi %[[I]], %[[J]]
func.func @index(%y: memref<?x8xi64>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>],
                  iterator_types = ["parallel", "parallel"]}
      outs(%y : memref<?x8xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %0 = arith.addi %i, %j : index
    %1 = arith.index_cast %0 : index to i64
    linalg.yield %1 : i64
  }
  return
}
