// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s

// One op dequantizes a weight of 4 bits. A byte has two codes, and a group one
// scale.

// CHECK-DAG: #[[$BYTE:.*]] = affine_map<(d0, d1) -> (d0, d1 floordiv 2)>
// CHECK-DAG: #[[$GROUP:.*]] = affine_map<(d0, d1) -> (d0, d1 floordiv 8)>
// CHECK-DAG: #[[$FULL:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[$WHOLE:.*]] = affine_map<(d0, d1) -> (0)>

// The table of twice the magnitudes is one word; all bits of an exponent but
// the first and last byte are those of f32.

// CHECK-LABEL: func @mxfp4
// CHECK: linalg.generic {indexing_maps = [#[[$BYTE]], #[[$GROUP]], #[[$FULL]]]
// CHECK: %[[K:.*]] = linalg.index 1
// CHECK: %[[CODE:.*]] = arith.andi %{{.*}}, %c15_i32
// CHECK: arith.shrui %{{c-932957680_i32.*}}, %{{.*}}
// CHECK: arith.ori
// CHECK: %[[CODED:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK: arith.extui %{{.*}} : i8 to i32
// CHECK: arith.shli %{{.*}}, %c23_i32
// CHECK-COUNT-2: arith.select
// CHECK: %[[SCALE:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK: %[[VALUE:.*]] = arith.mulf %[[CODED]], %[[SCALE]]
// CHECK: arith.truncf %[[VALUE]] : f32 to bf16
func.func @mxfp4(%q: tensor<4x8xi8>, %s: tensor<4x2xi8>) -> tensor<4x16xbf16> {
  %w = fuse.dequantize_weight %q scales(%s)
         quant(f4E2M1FN, weights = group<8, f8E8M0FNU>, activations = none)
    : (tensor<4x8xi8>, tensor<4x2xi8>) -> tensor<4x16xbf16>
  return %w : tensor<4x16xbf16>
}

// CHECK-LABEL: func @nvfp4
// CHECK: linalg.generic {indexing_maps = [#[[$BYTE]], #[[$GROUP]], #[[$WHOLE]], #[[$FULL]]]
// CHECK: %[[S:.*]] = arith.extf %{{.*}} : f8E4M3FN to f32
// CHECK: arith.divf %[[S]], %{{.*}} : f32
func.func @nvfp4(%q: tensor<4x8xi8>, %s: tensor<4x2xf8E4M3FN>,
                 %t: tensor<1xf32>) -> tensor<4x16xbf16> {
  %w = fuse.dequantize_weight %q scales(%s, %t)
         quant(f4E2M1FN, weights = group<8, f8E4M3FN>, tensor_scale = divide,
               activations = none)
    : (tensor<4x8xi8>, tensor<4x2xf8E4M3FN>, tensor<1xf32>)
      -> tensor<4x16xbf16>
  return %w : tensor<4x16xbf16>
}

// CHECK-LABEL: func @zero_points
// CHECK: linalg.generic {indexing_maps = [#[[$BYTE]], #[[$GROUP]], #[[$GROUP]], #[[$FULL]]]
// CHECK: %[[Z:.*]] = arith.uitofp %{{.*}} : i8 to f32
// CHECK: %[[D:.*]] = arith.subf %{{.*}}, %[[Z]] : f32
// CHECK: %[[S:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: arith.mulf %[[D]], %[[S]] : f32
func.func @zero_points(%q: tensor<4x8xi8>, %s: tensor<4x2xf16>,
                       %z: tensor<4x2xi8>) -> tensor<4x16xf16> {
  %w = fuse.dequantize_weight %q scales(%s, %z)
         quant(ui4, weights = group<8, f16>, zero_points = group,
               activations = none)
    : (tensor<4x8xi8>, tensor<4x2xf16>, tensor<4x2xi8>) -> tensor<4x16xf16>
  return %w : tensor<4x16xf16>
}

// CHECK-LABEL: func @signed
// CHECK: arith.shli %{{.*}}, %c28_i32
// CHECK: arith.shrsi %{{.*}}, %c28_i32
func.func @signed(%q: tensor<4x8xi8>, %s: tensor<4x1xf32>)
    -> tensor<4x16xf32> {
  %w = fuse.dequantize_weight %q scales(%s)
         quant(i4, weights = group<16, f32>, activations = none)
    : (tensor<4x8xi8>, tensor<4x1xf32>) -> tensor<4x16xf32>
  return %w : tensor<4x16xf32>
}
