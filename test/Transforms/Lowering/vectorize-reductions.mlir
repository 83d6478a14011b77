// RUN: fuse-opt %s --fuse-vectorize-reductions="lanes=4 rows=2 columns=2" --canonicalize --cse --split-input-file | FileCheck %s

// Four lanes, which a tree adds up in the end.

// CHECK-LABEL: func @sum
// CHECK-SAME: %[[X:[^:]+]]: memref<1x8xf32>, %[[Y:[^:]+]]: memref<1xf32>
// CHECK: %[[SUMS:.*]] = scf.for %[[K:[^ ]+]] = %c0 to %c8 step %c4 iter_args(%[[ACC:[^ ]+]] =
// CHECK:   %[[TERMS:.*]] = vector.load %[[X]][%c0, %[[K]]]
// CHECK:   %[[NEXT:.*]] = arith.addf %[[ACC]], %[[TERMS]] : vector<4xf32>
// CHECK:   scf.yield %[[NEXT]]
// CHECK: %[[START:.*]] = memref.load %[[Y]][%c0]
// CHECK: arith.addf %{{.*}}, %{{.*}} : vector<2xf32>
// CHECK: arith.addf %{{.*}}, %{{.*}} : vector<1xf32>
// CHECK: %[[SUM:.*]] = vector.extract
// CHECK: %[[TOTAL:.*]] = arith.addf %[[START]], %[[SUM]] : f32
// CHECK: memref.store %[[TOTAL]], %[[Y]][%c0]
#full = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
func.func @sum(%x: memref<1x8xf32>, %y: memref<1xf32>) {
  linalg.generic {indexing_maps = [#full, #row],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<1x8xf32>) outs(%y : memref<1xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// Two rows and two columns at a time; each vector is loaded and widened once
// and used twice. Rows that are left over come one by one.

// CHECK-LABEL: func @product
// CHECK-SAME: %[[X:[^:]+]]: memref<?x4xbf16>, %[[W:[^:]+]]: memref<4x4xbf16>
// CHECK: scf.for %[[N:[^ ]+]] = %c0 to %c4 step %c2
// CHECK:   %[[REST:.*]] = arith.remui %{{.*}}, %c2
// CHECK:   %[[WHOLE:.*]] = arith.subi %{{.*}}, %[[REST]]
// CHECK:   scf.for %[[M:[^ ]+]] = %c0 to %[[WHOLE]] step %c2
// CHECK-COUNT-4: vector.load
// CHECK-NOT: vector.load
// CHECK: memref.store
// CHECK:   scf.for %{{[^ ]+}} = %[[WHOLE]] to %{{[^ ]+}} step %c1
// CHECK-COUNT-3: vector.load
// CHECK-NOT: vector.load
#mk = affine_map<(m, n, k) -> (m, k)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
func.func @product(%x: memref<?x4xbf16>, %w: memref<4x4xbf16>,
                   %y: memref<?x4xf32>) {
  linalg.generic {indexing_maps = [#mk, #nk, #mn],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<?x4xbf16>, memref<4x4xbf16>)
      outs(%y : memref<?x4xf32>) {
  ^bb0(%a: bf16, %b: bf16, %acc: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %b : bf16 to f32
    %2 = math.fma %0, %1, %acc : f32
    linalg.yield %2 : f32
  }
  return
}

// -----

// Terms that are left over are loaded in parts, and the lanes beyond the end
// keep their sums: here their terms would be the square of the mean.

// CHECK-LABEL: func @ragged
// CHECK-SAME: %[[X:[^:]+]]: memref<1x7xf32>
// CHECK: %[[MASK:.*]] = arith.constant dense<[true, true, true, false]>
// CHECK: %[[SUMS:.*]] = math.fma
// CHECK: vector.load %[[X]][%c0, %c4] : memref<1x7xf32>, vector<2xf32>
// CHECK: vector.load %[[X]][%c0, %c6] : memref<1x7xf32>, vector<1xf32>
// CHECK: %[[NEXT:.*]] = math.fma
// CHECK: arith.select %[[MASK]], %[[NEXT]], %[[SUMS]]
#full = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
func.func @ragged(%x: memref<1x7xf32>, %mean: memref<1xf32>,
                  %y: memref<1xf32>) {
  linalg.generic {indexing_maps = [#full, #row, #row],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x, %mean : memref<1x7xf32>, memref<1xf32>)
      outs(%y : memref<1xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.subf %a, %b : f32
    %1 = math.fma %0, %0, %acc : f32
    linalg.yield %1 : f32
  }
  return
}

// -----

// CHECK-LABEL: func @integers
// CHECK: arith.extsi %{{.*}} : vector<4xi8> to vector<4xi32>
// CHECK: arith.addi %{{.*}}, %{{.*}} : vector<4xi32>
#full = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
func.func @integers(%x: memref<1x8xi8>, %y: memref<1xi32>) {
  linalg.generic {indexing_maps = [#full, #row],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<1x8xi8>) outs(%y : memref<1xi32>) {
  ^bb0(%a: i8, %acc: i32):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.addi %acc, %0 : i32
    linalg.yield %1 : i32
  }
  return
}

// -----

// Left for loops: a dynamic number of terms, terms that are not contiguous,
// and a body that is not a sum.

// CHECK-LABEL: func @no_dynamic
// CHECK: linalg.generic
#full = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
func.func @no_dynamic(%x: memref<1x?xf32>, %y: memref<1xf32>) {
  linalg.generic {indexing_maps = [#full, #row],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<1x?xf32>) outs(%y : memref<1xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// CHECK-LABEL: func @no_column_sum
// CHECK: linalg.generic
#transposed = affine_map<(m, k) -> (k, m)>
#row = affine_map<(m, k) -> (m)>
func.func @no_column_sum(%x: memref<8x4xf32>, %y: memref<4xf32>) {
  linalg.generic {indexing_maps = [#transposed, #row],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<8x4xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// CHECK-LABEL: func @no_maximum
// CHECK: linalg.generic
#full = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
func.func @no_maximum(%x: memref<4x8xf32>, %y: memref<4xf32>) {
  linalg.generic {indexing_maps = [#full, #row],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %acc, %a : f32
    linalg.yield %0 : f32
  }
  return
}

// -----

// Lanes behind the last term are zero, which is no divisor.

// CHECK-LABEL: func @no_ragged_quotients
// CHECK-NOT: vector
// CHECK: linalg.generic
#full = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
func.func @no_ragged_quotients(%x: memref<1x7xi32>, %d: memref<1x7xi32>,
                               %y: memref<1xi32>) {
  linalg.generic {indexing_maps = [#full, #full, #row],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x, %d : memref<1x7xi32>, memref<1x7xi32>)
      outs(%y : memref<1xi32>) {
  ^bb0(%a: i32, %b: i32, %acc: i32):
    %0 = arith.divsi %a, %b : i32
    %1 = arith.addi %acc, %0 : i32
    linalg.yield %1 : i32
  }
  return
}

// -----

// CHECK-LABEL: func @whole_quotients
// CHECK: arith.divsi %{{.*}} : vector<4xi32>
#full = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
func.func @whole_quotients(%x: memref<1x8xi32>, %d: memref<1x8xi32>,
                           %y: memref<1xi32>) {
  linalg.generic {indexing_maps = [#full, #full, #row],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x, %d : memref<1x8xi32>, memref<1x8xi32>)
      outs(%y : memref<1xi32>) {
  ^bb0(%a: i32, %b: i32, %acc: i32):
    %0 = arith.divsi %a, %b : i32
    %1 = arith.addi %acc, %0 : i32
    linalg.yield %1 : i32
  }
  return
}

// -----

// CHECK-LABEL: func @no_indices
// CHECK-NOT: vector
// CHECK: linalg.generic
#full = affine_map<(m, k) -> (m, k)>
#row = affine_map<(m, k) -> (m)>
func.func @no_indices(%x: memref<1x7xindex>, %y: memref<1xindex>) {
  linalg.generic {indexing_maps = [#full, #row],
                  iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<1x7xindex>) outs(%y : memref<1xindex>) {
  ^bb0(%a: index, %acc: index):
    %0 = arith.addi %acc, %a : index
    linalg.yield %0 : index
  }
  return
}
