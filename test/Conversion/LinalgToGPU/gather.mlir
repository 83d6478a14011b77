// RUN: fuse-opt %s --split-input-file --convert-linalg-to-gpu \
// RUN:   --canonicalize --cse | FileCheck %s

// A buffer that the body loads from is a pointer behind those of the operands,
// its dynamic size an index.

// CHECK-LABEL: func @lookup(
// CHECK-SAME:    %[[I:.+]]: memref<?xi64>, %[[T:.+]]: memref<?x16xf32>, %[[Y:.+]]: memref<?xf32>)
// CHECK-DAG:     %[[N:.+]] = memref.dim %[[I]]
// CHECK-DAG:     %[[ROWS:.+]] = memref.dim %[[T]]
// CHECK:         gpu.launch_func @kernels::@map_i64_f32
// CHECK-SAME:    args(%{{.+}} : memref<i64>, %{{.+}} : memref<f32>, %{{.+}} : memref<f32>, %[[N]] : index, %[[ROWS]] : index)
// CHECK-LABEL: gpu.func @map_i64_f32(
// CHECK-SAME:    %[[I:.+]]: memref<i64>, %[[Y:.+]]: memref<f32>, %[[T:.+]]: memref<f32>, %{{.+}}: index, %[[ROWS:.+]]: index)
// CHECK:         %[[TABLE:.+]] = memref.reinterpret_cast %[[T]] to offset: [0], sizes: [%[[ROWS]], 16], strides: [16, 1]
// CHECK:         memref.load %[[TABLE]][
func.func @lookup(%i: memref<?xi64>, %table: memref<?x16xf32>,
                  %y: memref<?xf32>) {
  %c3 = arith.constant 3 : index
  linalg.generic {indexing_maps = [affine_map<(n) -> (n)>,
                                   affine_map<(n) -> (n)>],
                  iterator_types = ["parallel"]}
      ins(%i : memref<?xi64>) outs(%y : memref<?xf32>) {
  ^bb0(%index: i64, %out: f32):
    %row = arith.index_cast %index : i64 to index
    %value = memref.load %table[%row, %c3] : memref<?x16xf32>
    linalg.yield %value : f32
  }
  return
}

// -----

// A buffer that is an operand too is passed once; a view has its offset.

// CHECK-LABEL: gpu.func @map_f32_f32(
// CHECK-SAME:    %[[X:.+]]: memref<f32>, %{{.+}}: memref<f32>, %[[V:.+]]: memref<f32>)
// CHECK-DAG:     %[[WHOLE:.+]] = memref.reinterpret_cast %[[X]] to offset: [0], sizes: [8], strides: [1]
// CHECK-DAG:     %[[VIEW:.+]] = memref.reinterpret_cast %[[V]] to offset: [2], sizes: [4], strides: [1]
// CHECK:         memref.load %[[WHOLE]]
// CHECK:         memref.load %[[VIEW]]
func.func @shared(%x: memref<8xf32>, %t: memref<8xf32>, %y: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %view = memref.subview %t[2] [4] [1]
    : memref<8xf32> to memref<4xf32, strided<[1], offset: 2>>
  linalg.generic {indexing_maps = [affine_map<(n) -> (n)>,
                                   affine_map<(n) -> (n)>],
                  iterator_types = ["parallel"]}
      ins(%x : memref<8xf32>) outs(%y : memref<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %first = memref.load %x[%c0] : memref<8xf32>
    %other = memref.load %view[%c0] : memref<4xf32, strided<[1], offset: 2>>
    %0 = arith.addf %a, %first : f32
    %1 = arith.addf %0, %other : f32
    linalg.yield %1 : f32
  }
  return
}

// -----

// What a reduction starts from is read by a body before it: the fill stays.

// CHECK-LABEL: func @read_between(
// CHECK-COUNT-3: gpu.launch_func
func.func @read_between(%x: memref<40x40xf32>, %y: memref<40xf32>,
                        %z: memref<40xf32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  linalg.fill ins(%one : f32) outs(%y : memref<40xf32>)
  linalg.generic {indexing_maps = [affine_map<(n) -> (n)>],
                  iterator_types = ["parallel"]}
      outs(%z : memref<40xf32>) {
  ^bb0(%out: f32):
    %0 = memref.load %y[%c0] : memref<40xf32>
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>,
                                   affine_map<(m, k) -> (m)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<40x40xf32>) outs(%y : memref<40xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %0 = arith.addf %a, %sum : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// Rows that the body gathers are read in vectors, like the operand that is
// multiplied with them, where both begin at multiples of 16 bytes; elsewhere
// the same elements are added up in the same order. Tokens go fastest, so that
// those of one expert read a row one after the other.

// CHECK-LABEL: gpu.func @reduce_bf16_i64_f32(
// CHECK-SAME:    %[[X:.+]]: memref<bf16>, %{{.+}}: memref<i64>, %{{.+}}: memref<f32>, %[[T:.+]]: memref<bf16>, %[[M:.+]]: index)
// CHECK-DAG:     %[[TABLE:.+]] = memref.reinterpret_cast %[[T]]
// CHECK-DAG:     %[[ROWS:.+]] = memref.reinterpret_cast %[[X]]
// CHECK:         %[[BLOCK:.+]] = gpu.block_id x
// CHECK:         %[[TOKEN:.+]] = arith.remui %[[BLOCK]], %[[M]]
// CHECK:         %[[ROW:.+]] = arith.divui %[[BLOCK]], %[[M]]
// CHECK-DAG:     memref.extract_aligned_pointer_as_index %[[TABLE]]
// CHECK-DAG:     memref.extract_aligned_pointer_as_index %[[ROWS]]
// CHECK:         scf.if
// CHECK:           scf.for %[[K:.+]] = %{{.+}} to %{{.+}} step %{{.+}} iter_args
// CHECK:             vector.load %[[ROWS]][%[[TOKEN]], %[[K]]] {alignment = 16 : i64} : memref<?x64xbf16>, vector<8xbf16>
// CHECK:             vector.load %[[TABLE]][%{{.+}}, %[[ROW]], %[[K]]] {alignment = 16 : i64} : memref<4x24x64xbf16>, vector<8xbf16>
// CHECK-NOT:         vector.load
// CHECK-COUNT-8:     math.fma
// CHECK-NOT:         math.fma
// CHECK:         } else {
// CHECK-COUNT-8:     math.fma
// CHECK-NOT:     vector.load
// CHECK:         gpu.barrier
func.func @rows_of_experts(%x: memref<?x64xbf16>, %i: memref<?xi64>,
                           %table: memref<4x24x64xbf16>, %y: memref<?x24xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                                   affine_map<(m, n, k) -> (m)>,
                                   affine_map<(m, n, k) -> (m, n)>],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %i : memref<?x64xbf16>, memref<?xi64>) outs(%y : memref<?x24xf32>) {
  ^bb0(%a: bf16, %index: i64, %sum: f32):
    %expert = arith.index_cast %index : i64 to index
    %row = linalg.index 1 : index
    %column = linalg.index 2 : index
    %w = memref.load %table[%expert, %row, %column] : memref<4x24x64xbf16>
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %w : bf16 to f32
    %2 = math.fma %0, %1, %sum : f32
    linalg.yield %2 : f32
  }
  return
}

// -----

// Rows of another length are read element by element.

// CHECK-LABEL: gpu.func @reduce_f32_i64_f32(
// CHECK-NOT:     vector.load
// CHECK-NOT:     scf.if
// CHECK:         scf.for
func.func @odd_rows(%x: memref<?x60xf32>, %i: memref<?xi64>,
                    %table: memref<4x60xf32>, %y: memref<?xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>,
                                   affine_map<(m, k) -> (m)>,
                                   affine_map<(m, k) -> (m)>],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x, %i : memref<?x60xf32>, memref<?xi64>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %index: i64, %sum: f32):
    %expert = arith.index_cast %index : i64 to index
    %column = linalg.index 1 : index
    %w = memref.load %table[%expert, %column] : memref<4x60xf32>
    %0 = math.fma %a, %w, %sum : f32
    linalg.yield %0 : f32
  }
  return
}
