// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s
// RUN: fuse-opt %s --convert-fuse-to-linalg \
// RUN:   | fuse-opt --fuse-gpu-pipeline="chip=sm_90a stage=gpu" \
// RUN:   | FileCheck %s --check-prefix=GPU

// CHECK-DAG: #[[GROUP:.*]] = affine_map<(d0, d1) -> (d0, d1 floordiv 8)>
// CHECK-DAG: #[[INPUT:.*]] = affine_map<(d0, d1, d2) -> (d0, d2 floordiv 8)>
// CHECK-DAG: #[[WEIGHT:.*]] = affine_map<(d0, d1, d2) -> (d1 floordiv 4, d2 floordiv 8)>

// The limit is one of the magnitude, which is multiplied by 1 / 448, and the
// values are divided.

// CHECK-LABEL: func @per_group
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2]]
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// CHECK: math.absf
// CHECK: arith.maximumf
// CHECK: %[[FLOOR:.*]] = arith.constant 9.99999974E-5
// CHECK: %[[AMAX:.*]] = arith.maximumf %{{.*}}, %[[FLOOR]]
// CHECK: %[[UPPER:.*]] = arith.constant 1.200000e+03
// CHECK: %[[BOUND:.*]] = arith.minimumf %[[AMAX]], %[[UPPER]]
// CHECK: %[[FACTOR:.*]] = arith.constant 0.00223214296
// CHECK: arith.mulf %[[BOUND]], %[[FACTOR]]
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[GROUP]], #{{.*}}]
// CHECK: arith.divf
// CHECK-NOT: arith.mulf
// CHECK: arith.truncf %{{.*}} : f32 to f8E4M3FN
func.func @per_group(%x: tensor<?x16xbf16>)
    -> (tensor<?x16xf8E4M3FN>, tensor<?x2xf32>) {
  %q, %s = fuse.dynamic_quantize per_group %x
             quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
                   floor = amax<1.0e-4>, upper = 1200.0, scale_op = reciprocal,
                   order = divide, sums = block<8>)
    : (tensor<?x16xbf16>) -> (tensor<?x16xf8E4M3FN>, tensor<?x2xf32>)
  return %q, %s : tensor<?x16xf8E4M3FN>, tensor<?x2xf32>
}

// One loop nest has the sum of the block and that of all blocks. At the last
// term of a block, its sum is scaled and starts again. On a GPU, it is one
// tiled kernel.

// CHECK-LABEL: func @blocks
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #[[INPUT]], #[[WEIGHT]], #{{.*}}, #{{.*}}], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK: ^bb0(%{{.*}}: f8E4M3FN, %{{.*}}: f8E4M3FN, %[[S:.*]]: f32, %[[T:.*]]: f32, %[[Y:.*]]: f32, %[[PART:.*]]: f32):
// CHECK: %[[BLOCK:.*]] = math.fma %{{.*}}, %{{.*}}, %[[PART]]
// CHECK: %[[ALPHA:.*]] = arith.mulf %[[S]], %[[T]]
// CHECK: %[[SUM:.*]] = math.fma %[[ALPHA]], %[[BLOCK]], %[[Y]]
// CHECK: linalg.index 2
// CHECK: arith.select %[[LAST:.*]], %[[SUM]], %[[Y]]
// CHECK: arith.select %[[LAST]], %{{.*}}, %[[BLOCK]]
// GPU-LABEL: func @blocks
// GPU: gpu.launch_func @kernels::@contract_f8E4M3FN_f8E4M3FN_f32_f32_f32_f32
func.func @blocks(%q: tensor<?x16xf8E4M3FN>, %w: tensor<6x16xf8E4M3FN>,
                  %s: tensor<2x2xf32>, %t: tensor<?x2xf32>)
    -> tensor<?x6xbf16> {
  %y = fuse.linear %q, %w channel_scale(%s) dynamic_scale(%t)
         quant(f8E4M3FN, weights = block<4x8>, activations = per_group<8>,
               sums = block<8>)
    : (tensor<?x16xf8E4M3FN>, tensor<6x16xf8E4M3FN>, tensor<2x2xf32>,
       tensor<?x2xf32>) -> tensor<?x6xbf16>
  return %y : tensor<?x6xbf16>
}

// Scales that do not vary along the sum multiply it once.

// CHECK-LABEL: func @whole
// CHECK: ^bb0(%[[SUM:.*]]: f32, %[[TOKEN:.*]]: f32, %[[ALL:.*]]: f32, %{{.*}}: bf16):
// CHECK: %[[ALPHA:.*]] = arith.mulf %[[TOKEN]], %[[ALL]]
// CHECK: arith.mulf %[[SUM]], %[[ALPHA]]
func.func @whole(%q: tensor<?x16xf8E4M3FN>, %w: tensor<6x16xf8E4M3FN>,
                 %s: tensor<1xf32>, %t: tensor<?xf32>) -> tensor<?x6xbf16> {
  %y = fuse.linear %q, %w channel_scale(%s) dynamic_scale(%t)
         quant(f8E4M3FN, weights = tensor, activations = per_token)
    : (tensor<?x16xf8E4M3FN>, tensor<6x16xf8E4M3FN>, tensor<1xf32>,
       tensor<?xf32>) -> tensor<?x6xbf16>
  return %y : tensor<?x6xbf16>
}
