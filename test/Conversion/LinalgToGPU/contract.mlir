// RUN: fuse-opt %s --split-input-file --convert-linalg-to-gpu \
// RUN:   --canonicalize --cse | FileCheck %s

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>

// The grid has a block per tile of 64 x 64. The fill became the first value of
// the sum, and x, w and the number of tokens are all that the kernel needs.

// CHECK: [[TILES:#.+]] = affine_map<()[s0] -> (s0 ceildiv 64)>
// CHECK-LABEL: func @linear(
// CHECK-SAME:      %[[X:.+]]: memref<?x40xbf16>, %[[W:.+]]: memref<130x40xbf16>, %[[Y:.+]]: memref<?x130xf32>)
// CHECK-DAG:     %[[THREADS:.+]] = arith.constant 256 : index
// CHECK-DAG:     %[[TILES_N:.+]] = arith.constant 3 : index
// CHECK:         %[[M:.+]] = memref.dim %[[X]]
// CHECK:         %[[TILES_M:.+]] = affine.apply [[TILES]]()[%[[M]]]
// CHECK-NOT:     linalg
// CHECK:         gpu.launch_func @kernels::@contract_bf16_bf16_f32
// CHECK-SAME:      blocks in (%[[TILES_M]], %[[TILES_N]], %{{[a-z0-9]+}}) threads in (%[[THREADS]], %{{[a-z0-9]+}}, %{{[a-z0-9]+}})
// CHECK-SAME:      args(%{{.+}} : memref<bf16>, %{{.+}} : memref<bf16>, %{{.+}} : memref<f32>, %[[M]] : index)
// CHECK-NOT:     gpu.launch_func
func.func @linear(%x: memref<?x40xbf16>, %w: memref<130x40xbf16>,
                  %y: memref<?x130xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%y : memref<?x130xf32>)
  linalg.generic {indexing_maps = [#x, #w, #y],
                  iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : memref<?x40xbf16>, memref<130x40xbf16>)
      outs(%y : memref<?x130xf32>) {
  ^bb0(%a: bf16, %b: bf16, %sum: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %b : bf16 to f32
    %2 = math.fma %0, %1, %sum : f32
    linalg.yield %2 : f32
  }
  return
}

// The operands are converted once, when they are staged: two tiles of f32 in
// workgroup memory. 16 sums per thread stay in registers. 40 is no multiple of
// 16, so the last step along k is shorter.

// CHECK: gpu.func @contract_bf16_bf16_f32(%{{.+}}: memref<bf16>, %{{.+}}: memref<bf16>, %{{.+}}: memref<f32>, %{{.+}}: index)
// CHECK-SAME:  workgroup(%[[A:.+]] : memref<16x68xf32, #gpu.address_space<workgroup>>, %[[B:.+]] : memref<16x68xf32, #gpu.address_space<workgroup>>)
// CHECK-SAME:  known_block_size = array<i32: 256, 1, 1>
// CHECK-DAG:     %[[ZERO:.+]] = arith.constant 0.0{{.*}} : f32
// CHECK-DAG:     %[[STEP:.+]] = arith.constant 16 : index
// CHECK-DAG:     %[[K:.+]] = arith.constant 40 : index
// CHECK:         scf.for %[[K0:.+]] = %{{.+}} to %[[K]] step %[[STEP]]
// CHECK:           gpu.barrier
// CHECK:           arith.extf
// CHECK:           memref.store %{{.+}}, %[[A]]
// CHECK:           arith.extf
// CHECK:           memref.store %{{.+}}, %[[B]]
// CHECK:           gpu.barrier
// CHECK:           %[[REST:.+]] = arith.subi %[[K]], %[[K0]]
// CHECK:           %[[LENGTH:.+]] = arith.minsi %[[REST]], %[[STEP]]
// CHECK:           scf.for %{{.+}} = %{{.+}} to %[[LENGTH]]
// CHECK-NOT:         arith.extf
// CHECK-COUNT-16:    math.fma
// CHECK-NOT:         math.fma

// -----

#bx = affine_map<(b, m, n, k) -> (b, m, k)>
#bw = affine_map<(b, m, n, k) -> (b, n, k)>
#by = affine_map<(b, m, n, k) -> (b, m, n)>
#lw = affine_map<(b, m, n, k) -> (n, k)>

// Batches that both operands have are numbered with the tiles of m ...

// CHECK-LABEL: func @batches(
// CHECK:         gpu.launch_func @kernels::@contract_f32_f32_f32
// CHECK-SAME:      args(%{{.+}} : memref<f32>, %{{.+}} : memref<f32>, %{{.+}} : memref<f32>, %{{.+}} : index, %{{.+}} : index)
func.func @batches(%x: memref<?x?x16xf32>, %w: memref<?x64x16xf32>,
                   %y: memref<?x?x64xf32>) {
  linalg.generic {indexing_maps = [#bx, #bw, #by],
                  iterator_types = ["parallel", "parallel", "parallel",
                                    "reduction"]}
      ins(%x, %w : memref<?x?x16xf32>, memref<?x64x16xf32>)
      outs(%y : memref<?x?x64xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %0 = math.fma %a, %b, %sum : f32
    linalg.yield %0 : f32
  }
  return
}

// ... while leading dimensions of one operand are one loop.

// CHECK-LABEL: func @leading(
// CHECK:         gpu.launch_func @kernels::@contract_f32_f32_f32
// CHECK-SAME:      args(%{{.+}} : memref<f32>, %{{.+}} : memref<f32>, %{{.+}} : memref<f32>, %{{.+}} : index)
func.func @leading(%x: memref<?x?x16xf32>, %w: memref<64x16xf32>,
                   %y: memref<?x?x64xf32>) {
  linalg.generic {indexing_maps = [#bx, #lw, #by],
                  iterator_types = ["parallel", "parallel", "parallel",
                                    "reduction"]}
      ins(%x, %w : memref<?x?x16xf32>, memref<64x16xf32>)
      outs(%y : memref<?x?x64xf32>) {
  ^bb0(%a: f32, %b: f32, %sum: f32):
    %0 = math.fma %a, %b, %sum : f32
    linalg.yield %0 : f32
  }
  return
}
