// Each tool that fuses a file raises it first, so all find the same sites in
// layers that are written out: one that is fused and one that is refused.

// RUN: fuse-compile %s --cpu=native --remarks -o %t.fuse 2>&1 \
// RUN:   | grep 'fuse:fuse-form-kernels' | FileCheck %s --check-prefix=COMPILE
// RUN: fuse-explain %s | FileCheck %s --check-prefix=EXPLAIN
// RUN: fuse-run %s --verify | FileCheck %s --check-prefix=VERIFY
// RUN: fuse-bisect %s -- sh -c '! grep fuse.mlp {}' \
// RUN:   | FileCheck %s --check-prefix=BISECT
// RUN: not fuse-tune candidates %s -o %t.candidates 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TUNE

// COMPILE-COUNT-1: remark: Passed
// COMPILE-COUNT-1: remark: Missed
// COMPILE-NOT:     remark

// EXPLAIN:      mlp#0 ops fused mlp 3
// EXPLAIN-NEXT: mlp#1 ops refused FUSE-N
// EXPLAIN:      1 site fused, 1 refused

// VERIFY: V0 raised against written, CPU ok {{.*}}of 80 values differ
// VERIFY: V0 unfuse(form(x)) is x ok identical (kernels: 1, refused sites: 1)

// BISECT: guilty: mlp#0
// BISECT: reproduce: fuse-opt {{.*}} --fuse-raising-pipeline

// TUNE: not tuned: the input is f32, not bf16

#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @mlp(%x: tensor<5x16xf32>, %w1: tensor<16x16xf32>,
               %w2: tensor<16x16xf32>) -> tensor<5x16xf32> {
  %init = tensor.empty() : tensor<5x16xf32>
  %0 = fuse.linear %x, %w1
    : (tensor<5x16xf32>, tensor<16x16xf32>) -> tensor<5x16xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map],
                       iterator_types = ["parallel", "parallel"]}
         ins(%0 : tensor<5x16xf32>) outs(%init : tensor<5x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %minus = arith.negf %in : f32
    %exp = math.exp %minus : f32
    %sum = arith.addf %exp, %one : f32
    %reciprocal = arith.divf %one, %sum : f32
    %value = arith.mulf %in, %reciprocal : f32
    linalg.yield %value : f32
  } -> tensor<5x16xf32>
  %2 = fuse.linear %1, %w2
    : (tensor<5x16xf32>, tensor<16x16xf32>) -> tensor<5x16xf32>
  %3 = linalg.generic {indexing_maps = [#map, #map],
                       iterator_types = ["parallel", "parallel"]}
         ins(%2 : tensor<5x16xf32>) outs(%init : tensor<5x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %zero = arith.constant 0.0 : f32
    %relu = arith.maximumf %in, %zero : f32
    linalg.yield %relu : f32
  } -> tensor<5x16xf32>
  return %3 : tensor<5x16xf32>
}
