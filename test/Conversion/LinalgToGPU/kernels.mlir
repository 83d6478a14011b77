// RUN: fuse-opt %s --split-input-file --convert-linalg-to-gpu \
// RUN:   --canonicalize --cse | FileCheck %s

#id = affine_map<(i) -> (i)>

// Equal kernels are emitted once for all launches; another constant makes
// another kernel.

// CHECK-LABEL: func @first(
// CHECK:         gpu.launch_func @kernels::@[[K:map_f32_f32]] blocks
// CHECK-LABEL: func @second(
// CHECK:         gpu.launch_func @kernels::@[[K]] blocks
// CHECK-LABEL: func @third(
// CHECK:         gpu.launch_func @kernels::@[[OTHER:map_f32_f32_.+]] blocks
// CHECK-LABEL: gpu.module @kernels
// CHECK:         gpu.func @[[K]](
// CHECK:         gpu.func @[[OTHER]](
// CHECK-NOT:     gpu.func
func.func @first(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c = arith.constant 2.0 : f32
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %0 = arith.mulf %a, %c : f32
    linalg.yield %0 : f32
  }
  return
}
func.func @second(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c = arith.constant 2.0 : f32
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %0 = arith.mulf %a, %c : f32
    linalg.yield %0 : f32
  }
  return
}
func.func @third(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c = arith.constant 3.0 : f32
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %out: f32):
    %0 = arith.mulf %a, %c : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// A fill that something reads before the reduction stays a kernel.

// CHECK-LABEL: func @no_init(
// CHECK:         gpu.launch_func @kernels::@map_f32 blocks
// CHECK:         gpu.launch_func @kernels::@map_f32_f32 blocks
// CHECK:         gpu.launch_func @kernels::@reduce_f32_f32 blocks
// CHECK-LABEL: func @init(
// CHECK-NOT:     @map_f32 blocks
// CHECK:         gpu.launch_func @kernels::@reduce_f32_f32_{{.+}} blocks
func.func @no_init(%x: memref<?x16xf32>, %y: memref<?xf32>, %z: memref<?xf32>) {
  %c = arith.constant 1.0 : f32
  linalg.fill ins(%c : f32) outs(%y : memref<?xf32>)
  memref.copy %y, %z : memref<?xf32> to memref<?xf32>
  linalg.reduce {arith.addf} ins(%x : memref<?x16xf32>) outs(%y : memref<?xf32>)
    dimensions = [1]
  return
}
func.func @init(%x: memref<?x16xf32>, %y: memref<?xf32>, %z: memref<?xf32>) {
  %c = arith.constant 1.0 : f32
  linalg.fill ins(%c : f32) outs(%y : memref<?xf32>)
  linalg.reduce {arith.addf} ins(%x : memref<?x16xf32>) outs(%y : memref<?xf32>)
    dimensions = [1]
  return
}

// -----

// A module without work gets no kernels.

// CHECK-LABEL: func @nothing(
// CHECK-NOT:   gpu.module
func.func @nothing(%x: memref<?xf32>) {
  return
}
