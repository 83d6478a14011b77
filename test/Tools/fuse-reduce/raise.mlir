// Layers are raised before ops are removed, if the failure is still there then.

// RUN: printf '#!/bin/sh\n! grep -q "erf\\|gelu" "$1"\n' > %t.any
// RUN: printf '#!/bin/sh\n! grep -q erf "$1"\n' > %t.written
// RUN: chmod +x %t.any %t.written
// RUN: fuse-reduce %s --test=%t.any | FileCheck %s
// RUN: fuse-reduce %s --test=%t.written | FileCheck %s --check-prefix=WRITTEN
// RUN: fuse-reduce --help | FileCheck %s --check-prefix=HELP

// CHECK:      fuse.activation gelu
// CHECK-NOT:  math.erf

// WRITTEN-NOT: fuse.activation
// WRITTEN:     math.erf

// HELP: fuse-reduce FILE --test=SCRIPT
// HELP: --test=<script>

#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %root = arith.constant 0.707106769 : f32
  %empty = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [#map, #map],
                       iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<4x8xf32>) outs(%empty : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = arith.mulf %in, %root : f32
    %e = math.erf %s : f32
    %p = arith.addf %e, %one : f32
    %h = arith.mulf %in, %half : f32
    %g = arith.mulf %h, %p : f32
    linalg.yield %g : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
