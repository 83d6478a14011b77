// RUN: fuse-opt %s --split-input-file \
// RUN:   --convert-fuse-to-linalg=scale-arguments | FileCheck %s

// Numbers that follow from static scales are arguments, each number once. The
// code has no constant that depends on a scale.

// CHECK-LABEL: func @products(
// CHECK-SAME:    %[[QUANTIZE:[^:]+]]: f32 {fuse.scalar = {over = 2.500000e-01 : f32, value = 4.000000e+00 : f32}},
// CHECK-SAME:    %[[PRODUCT:[^:]+]]: f32 {fuse.scalar = {of = [2.500000e-01 : f32, 5.000000e-01 : f32], value = 1.250000e-01 : f32}})
// CHECK:         arith.mulf %{{.*}}, %[[QUANTIZE]]
// CHECK:         arith.mulf %{{.*}}, %[[PRODUCT]]
// CHECK:         arith.mulf %{{.*}}, %[[PRODUCT]]
func.func @products(%x: tensor<?x8xbf16>, %w: tensor<8x8xf8E4M3FN>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %q = fuse.quantize %x scale 0.25
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %y = fuse.linear %q, %w scales(0.25, 0.5)
    : (tensor<?x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>) -> tensor<?x8xbf16>
  %z = fuse.linear %q, %w scales(0.25, 0.5)
    : (tensor<?x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>) -> tensor<?x8xbf16>
  return %y, %z : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// A quantize op that divides, a dequantize op and a channel scale read the
// scale itself.

// CHECK-LABEL: func @scales_themselves(
// CHECK-SAME:    %[[SCALE:[^:]+]]: f32 {fuse.scalar = {of = [2.500000e-01 : f32], value = 2.500000e-01 : f32}})
// CHECK:         arith.divf %{{.*}}, %[[SCALE]]
// CHECK:         arith.mulf %{{.*}}, %[[SCALE]]
// CHECK:         arith.mulf %{{.*}}, %[[SCALE]]
func.func @scales_themselves(%x: tensor<?x8xbf16>, %w: tensor<8x8xi8>,
    %s: tensor<8xf32>) -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %q = fuse.quantize %x scale 0.25 order divide
    : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %y = fuse.linear %q, %w channel_scale(%s) scales(0.25, per_channel)
    : (tensor<?x8xi8>, tensor<8x8xi8>, tensor<8xf32>) -> tensor<?x8xbf16>
  %z = fuse.dequantize %q scale 0.25 : (tensor<?x8xi8>) -> tensor<?x8xbf16>
  return %y, %z : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// Dynamic scales are not arguments.

// CHECK-LABEL: func @dynamic(%{{[^,]+}}: tensor<?x8xbf16>) ->
func.func @dynamic(%x: tensor<?x8xbf16>)
    -> (tensor<?x8xi8>, tensor<?xf32>) {
  %q, %s = fuse.dynamic_quantize per_token %x
    : (tensor<?x8xbf16>) -> (tensor<?x8xi8>, tensor<?xf32>)
  return %q, %s : tensor<?x8xi8>, tensor<?xf32>
}

// -----

// The callers of a private function would have to pass its numbers.

// CHECK-LABEL: func @public(
// CHECK-NOT:     fuse.scalar
// CHECK-SAME:    attributes {fuse.constant_scales}
// CHECK:         arith.constant 4.000000e+00
func.func @public(%x: tensor<?x8xbf16>) -> tensor<?x8xi8> {
  %q = fuse.quantize %x scale 0.25 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  return %q : tensor<?x8xi8>
}
// CHECK-LABEL: func private @private(%{{[^,]+}}: tensor<?x8xbf16>) ->
func.func private @private(%x: tensor<?x8xbf16>) -> tensor<?x8xi8> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  return %q : tensor<?x8xi8>
}
