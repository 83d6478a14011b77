// RUN: fuse-opt %s --split-input-file --convert-linalg-to-gpu \
// RUN:   --canonicalize --cse | FileCheck %s

#in = affine_map<(m, k) -> (m, k)>
#out = affine_map<(m, k) -> (m)>

// A block per row. Its threads start at the neutral element, and the first one
// adds what the output held.

// CHECK-LABEL: func @squares(
// CHECK:         %[[M:.+]] = memref.dim
// CHECK:         gpu.launch_func @kernels::@reduce_bf16_f32 blocks in (%[[M]], %{{.+}}, %{{.+}})
// CHECK-LABEL: gpu.func @reduce_bf16_f32(
// CHECK-SAME:    workgroup(%[[PARTIAL:.+]] : memref<256xf32, #gpu.address_space<workgroup>>)
// CHECK:         %[[ZERO:.+]] = arith.constant 0.0{{.*}} : f32
// CHECK:         %[[THREAD:.+]] = gpu.thread_id x
// CHECK:         %[[SUM:.+]] = scf.for %{{.+}} = %[[THREAD]] to %{{.+}} step %{{.+}} iter_args(%{{.+}} = %[[ZERO]])
// CHECK:           math.fma
// CHECK:         memref.store %[[SUM]], %[[PARTIAL]][%[[THREAD]]]
// CHECK-COUNT-8: gpu.barrier
// CHECK-NOT:     gpu.barrier
// CHECK:         memref.load %{{.+}} : memref<?xf32>
// CHECK:         arith.addf
// CHECK:         memref.store %{{.+}} : memref<?xf32>
func.func @squares(%x: memref<?x1000xbf16>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [#in, #out],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x1000xbf16>) outs(%y : memref<?xf32>) {
  ^bb0(%a: bf16, %sum: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = math.fma %0, %0, %sum : f32
    linalg.yield %1 : f32
  }
  return
}

// -----

#in = affine_map<(m, k) -> (m, k)>
#out = affine_map<(m, k) -> (m)>

// Short rows take fewer threads, two outputs two arrays.

// CHECK-LABEL: gpu.func @reduce_f32_f32_f32(
// CHECK-SAME:    workgroup(%{{.+}} : memref<64xf32, #gpu.address_space<workgroup>>, %{{.+}} : memref<64xf32, #gpu.address_space<workgroup>>)
// CHECK-SAME:    known_block_size = array<i32: 64, 1, 1>
// CHECK:         scf.for
// CHECK:           arith.maximumf
// CHECK:           arith.addf
func.func @max_and_sum(%x: memref<?x40xf32>, %max: memref<?xf32>,
                       %sum: memref<?xf32>) {
  linalg.generic {indexing_maps = [#in, #out, #out],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x40xf32>) outs(%max, %sum : memref<?xf32>, memref<?xf32>) {
  ^bb0(%a: f32, %m: f32, %s: f32):
    %0 = arith.maximumf %a, %m : f32
    %1 = arith.addf %a, %s : f32
    linalg.yield %0, %1 : f32, f32
  }
  return
}

// -----

#in = affine_map<(m, k) -> (m, k)>
#out = affine_map<(m, k) -> (m)>

// What cannot be reordered runs in one thread per row, in order.

// CHECK-LABEL: func @no_order(
// CHECK:         gpu.launch_func @kernels::@map_reduce_f32_f32
// CHECK-LABEL: gpu.func @map_reduce_f32_f32(
// CHECK-NOT:     workgroup
// CHECK:         scf.for
// CHECK:           arith.subf
func.func @no_order(%x: memref<?x40xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [#in, #out],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x40xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.subf %a, %acc : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

#in = affine_map<(m, k) -> (m, k)>
#out = affine_map<(m, k) -> (m)>

// Eight elements are reduced by one thread, without a barrier.

// CHECK-LABEL: gpu.func @map_reduce_f32_f32(
// CHECK-NOT:     gpu.barrier
// CHECK:         arith.maximumf
// CHECK-NOT:     gpu.barrier
func.func @few(%x: memref<?x8xf32>, %max: memref<?xf32>) {
  linalg.generic {indexing_maps = [#in, #out],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x8xf32>) outs(%max : memref<?xf32>) {
  ^bb0(%a: f32, %m: f32):
    %0 = arith.maximumf %a, %m : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

#in = affine_map<(m, k) -> (m, k)>
#out = affine_map<(m, k) -> (m)>

// CHECK-LABEL: gpu.func @reduce_f32_f32(
// CHECK:         gpu.barrier
func.func @more(%x: memref<?x9xf32>, %max: memref<?xf32>) {
  linalg.generic {indexing_maps = [#in, #out],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<?x9xf32>) outs(%max : memref<?xf32>) {
  ^bb0(%a: f32, %m: f32):
    %0 = arith.maximumf %a, %m : f32
    linalg.yield %0 : f32
  }
  return
}
