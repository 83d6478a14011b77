// RUN: fuse-opt %s --fuse-kernel-formation-pipeline | FileCheck %s
// RUN: fuse-opt %s --fuse-kernel-formation-pipeline=rounding=relaxed \
// RUN:   | FileCheck %s --check-prefix=RELAXED
// RUN: fuse-opt %s --fuse-kernel-formation-pipeline=disable=mlp#0 \
// RUN:   | FileCheck %s --check-prefix=DISABLED
// RUN: fuse-opt %s --fuse-kernel-formation-pipeline=families=norm_linear \
// RUN:   | FileCheck %s --check-prefix=DISABLED
// RUN: not fuse-opt %s --fuse-kernel-formation-pipeline=rounding=fast 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: unknown rounding 'fast'; expected one of exact, relaxed

// An activation written out in upstream ops between two linears: one kernel,
// and nothing of the function is left but that.

// CHECK-LABEL: func @mlp
// CHECK-NEXT:    %[[Y:.*]] = fuse.mlp %arg0 up(%arg1) down(%arg2) act(silu)
// CHECK-SAME:      rounding(exact) site("mlp#0")
// CHECK-NEXT:    return %[[Y]]
// RELAXED:       fuse.mlp
// DISABLED:      fuse.linear
// DISABLED:      fuse.activation silu
// DISABLED:      fuse.linear
func.func @mlp(%x: tensor<?x8xf32>, %w1: tensor<16x8xf32>,
               %w2: tensor<8x16xf32>) -> tensor<?x8xf32> {
  %0 = fuse.linear %x, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %c0 = arith.constant 0 : index
  %tokens = tensor.dim %x, %c0 : tensor<?x8xf32>
  %init = tensor.empty(%tokens) : tensor<?x16xf32>
  %1 = linalg.generic {
         indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                          affine_map<(d0, d1) -> (d0, d1)>],
         iterator_types = ["parallel", "parallel"]}
         ins(%0 : tensor<?x16xf32>) outs(%init : tensor<?x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %one = arith.constant 1.0 : f32
    %minus = arith.negf %in : f32
    %exp = math.exp %minus : f32
    %sum = arith.addf %exp, %one : f32
    %value = arith.divf %in, %sum : f32
    linalg.yield %value : f32
  } -> tensor<?x16xf32>
  %2 = fuse.linear %1, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
