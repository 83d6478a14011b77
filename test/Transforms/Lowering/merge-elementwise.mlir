// RUN: fuse-opt %s --fuse-merge-elementwise --cse | FileCheck %s

#id = affine_map<(m, n) -> (m, n)>
#n = affine_map<(m, n) -> (n)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// CHECK: #[[STORED:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>

// A chain becomes one op; the rounding between its members stays.

// CHECK-LABEL: func @chain(
// CHECK-COUNT-1: linalg.generic
// CHECK:         arith.addf
// CHECK:         arith.truncf
// CHECK:         arith.extf
// CHECK:         math.tanh
// CHECK-NOT:     linalg.generic
func.func @chain(%x: tensor<?x8xf32>, %b: tensor<8xf32>,
                 %o0: tensor<?x8xbf16>, %o1: tensor<?x8xf32>)
    -> tensor<?x8xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #n, #id],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<?x8xf32>, tensor<8xf32>)
      outs(%o0 : tensor<?x8xbf16>) {
  ^bb0(%a: f32, %c: f32, %out: bf16):
    %1 = arith.addf %a, %c : f32
    %2 = arith.truncf %1 : f32 to bf16
    linalg.yield %2 : bf16
  } -> tensor<?x8xbf16>
  %3 = linalg.generic {indexing_maps = [#id, #id],
                       iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<?x8xbf16>) outs(%o1 : tensor<?x8xf32>) {
  ^bb0(%a: bf16, %out: f32):
    %4 = arith.extf %a : bf16 to f32
    %5 = math.tanh %4 : f32
    linalg.yield %5 : f32
  } -> tensor<?x8xf32>
  return %3 : tensor<?x8xf32>
}

// Converting a weight is merged into the linear that would read it from memory
// again and again; an activation is not, because it costs more than the read.

// CHECK-LABEL: func @into_linear(
// CHECK:         linalg.generic
// CHECK:           math.exp
// CHECK:         linalg.generic
// CHECK-SAME:      "reduction"
// CHECK:           arith.extf %{{.+}} : f8E4M3FN to f32
// CHECK:           math.fma
// CHECK-NOT:     linalg.generic
func.func @into_linear(%x: tensor<?x8xf32>, %q: tensor<4x8xf8E4M3FN>,
                       %ox: tensor<?x8xf32>, %ow: tensor<4x8xf32>,
                       %oy: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %h = linalg.generic {indexing_maps = [#id, #id],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x8xf32>) outs(%ox : tensor<?x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<?x8xf32>
  %w = linalg.generic {indexing_maps = [#id, #id],
                       iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<4x8xf8E4M3FN>) outs(%ow : tensor<4x8xf32>) {
  ^bb0(%a: f8E4M3FN, %out: f32):
    %0 = arith.extf %a : f8E4M3FN to f32
    linalg.yield %0 : f32
  } -> tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%h, %w : tensor<?x8xf32>, tensor<4x8xf32>)
      outs(%oy : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %0 = math.fma %a, %b, %sum : f32
    linalg.yield %0 : f32
  } -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// Two linears read a transposed weight where it is stored.

// CHECK-LABEL: func @transposed_weight(
// CHECK-NOT:     linalg.transpose
// CHECK-COUNT-2: linalg.generic {indexing_maps = [#{{.*}}, #[[STORED]], #{{.*}}]
// CHECK-NOT:     linalg.generic
func.func @transposed_weight(%x: tensor<?x8xf32>, %w: tensor<8x4xf32>,
                             %ow: tensor<4x8xf32>, %oy: tensor<?x4xf32>)
    -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %t = linalg.transpose ins(%w : tensor<8x4xf32>) outs(%ow : tensor<4x8xf32>)
      permutation = [1, 0]
  %0 = linalg.generic {indexing_maps = [#x, #w, #y],
         iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %t : tensor<?x8xf32>, tensor<4x8xf32>)
      outs(%oy : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %2 = math.fma %a, %b, %out : f32
    linalg.yield %2 : f32
  } -> tensor<?x4xf32>
  %1 = linalg.generic {indexing_maps = [#x, #w, #y],
         iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %t : tensor<?x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<?x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %2 = math.fma %a, %b, %out : f32
    linalg.yield %2 : f32
  } -> tensor<?x4xf32>
  return %0, %1 : tensor<?x4xf32>, tensor<?x4xf32>
}

// A result with two users is computed once.

// CHECK-LABEL: func @two_users(
// CHECK-COUNT-3: linalg.generic
func.func @two_users(%x: tensor<?x8xf32>, %o: tensor<?x8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = linalg.generic {indexing_maps = [#id, #id],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x8xf32>) outs(%o : tensor<?x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %1 = arith.addf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<?x8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id],
                       iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<?x8xf32>) outs(%o : tensor<?x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %1 = arith.mulf %a, %a : f32
    linalg.yield %1 : f32
  } -> tensor<?x8xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id],
                       iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<?x8xf32>) outs(%o : tensor<?x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %1 = arith.negf %a : f32
    linalg.yield %1 : f32
  } -> tensor<?x8xf32>
  return %2, %3 : tensor<?x8xf32>, tensor<?x8xf32>
}

// Fills of buffers have no result that others could read.
// CHECK-LABEL: func.func @fills(
// CHECK:         linalg.fill {{.*}} outs(%{{.*}} : memref<4xf32>)
func.func @fills(%buffer: memref<4xf32>, %x: tensor<4xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%buffer : memref<4xf32>)
  %unused = linalg.fill ins(%zero : f32) outs(%x : tensor<4xf32>)
    -> tensor<4xf32>
  return
}

// A constant of one value that initializes a sum is a fill. Another constant
// stays.

// CHECK-LABEL: func @constant_init(
// CHECK-SAME:    %[[X:.+]]: tensor<2x4xf32>, %[[Y:.+]]: tensor<4x2xf32>
// CHECK-DAG:     %[[TABLE:.+]] = arith.constant dense<{{.+}}> : tensor<2x2xf32>
// CHECK-DAG:     %[[ZERO:.+]] = arith.constant 0.0{{.+}} : f32
// CHECK:         %[[FILL:.+]] = linalg.fill ins(%[[ZERO]] : f32)
// CHECK:         linalg.matmul {{.+}} outs(%[[FILL]]
// CHECK:         linalg.matmul {{.+}} outs(%[[TABLE]]
func.func @constant_init(%x: tensor<2x4xf32>, %y: tensor<4x2xf32>)
    -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %zero = arith.constant dense<0.0> : tensor<2x2xf32>
  %table = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %0 = linalg.matmul ins(%x, %y : tensor<2x4xf32>, tensor<4x2xf32>)
    outs(%zero : tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = linalg.matmul ins(%x, %y : tensor<2x4xf32>, tensor<4x2xf32>)
    outs(%table : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}
