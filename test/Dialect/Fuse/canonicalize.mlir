// RUN: fuse-opt %s --canonicalize --split-input-file | FileCheck %s

// Casts that hide a static number of tokens are folded into the ops between.

// CHECK-LABEL: func.func @erased
// CHECK-NOT:     tensor.cast
// CHECK:         fuse.linear {{.*}} -> tensor<4x16xf32>
// CHECK-NOT:     tensor.cast
// CHECK:         fuse.rms_norm {{.*}} -> tensor<4x16xf32>
// CHECK-NEXT:    return
func.func @erased(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>)
    -> tensor<4x16xf32> {
  %0 = tensor.cast %x : tensor<4x8xf32> to tensor<?x8xf32>
  %1 = fuse.linear %0, %w
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %2 = fuse.rms_norm %1 eps 1.0e-6 : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %3 = tensor.cast %2 : tensor<?x16xf32> to tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// A size that a later cast shows is known from the argument on, up a chain of
// any length.

// CHECK-LABEL: func.func @shown_later
// CHECK-SAME:    %[[X:.*]]: tensor<?x8xf32>
// CHECK-NEXT:    %[[CAST:.*]] = tensor.cast %[[X]]
// CHECK-SAME:      tensor<?x8xf32> to tensor<4x8xf32>
// CHECK-NEXT:    fuse.activation silu %[[CAST]]
// CHECK-COUNT-11: fuse.activation silu {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT:    return
func.func @shown_later(%x: tensor<?x8xf32>) -> tensor<4x8xf32> {
  %0 = fuse.activation silu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  %1 = fuse.activation silu %0 : tensor<?x8xf32> -> tensor<?x8xf32>
  %2 = fuse.activation silu %1 : tensor<?x8xf32> -> tensor<?x8xf32>
  %3 = fuse.activation silu %2 : tensor<?x8xf32> -> tensor<?x8xf32>
  %4 = fuse.activation silu %3 : tensor<?x8xf32> -> tensor<?x8xf32>
  %5 = fuse.activation silu %4 : tensor<?x8xf32> -> tensor<?x8xf32>
  %6 = fuse.activation silu %5 : tensor<?x8xf32> -> tensor<?x8xf32>
  %7 = fuse.activation silu %6 : tensor<?x8xf32> -> tensor<?x8xf32>
  %8 = fuse.activation silu %7 : tensor<?x8xf32> -> tensor<?x8xf32>
  %9 = fuse.activation silu %8 : tensor<?x8xf32> -> tensor<?x8xf32>
  %10 = fuse.activation silu %9 : tensor<?x8xf32> -> tensor<?x8xf32>
  %11 = fuse.activation silu %10 : tensor<?x8xf32> -> tensor<?x8xf32>
  %12 = tensor.cast %11 : tensor<?x8xf32> to tensor<4x8xf32>
  return %12 : tensor<4x8xf32>
}

// A cast in another block need not be executed.

// CHECK-LABEL: func.func @shown_elsewhere
// CHECK:         fuse.activation {{.*}} -> tensor<?x8xf32>
// CHECK:         tensor.cast
func.func @shown_elsewhere(%x: tensor<?x8xf32>, %c: i1, %z: tensor<4x8xf32>)
    -> tensor<4x8xf32> {
  %0 = fuse.activation silu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  cf.cond_br %c, ^bb1, ^bb2(%z : tensor<4x8xf32>)
^bb1:
  %1 = tensor.cast %0 : tensor<?x8xf32> to tensor<4x8xf32>
  cf.br ^bb2(%1 : tensor<4x8xf32>)
^bb2(%2: tensor<4x8xf32>):
  return %2 : tensor<4x8xf32>
}

// The operands of a sum have the same tokens. Fused ops are refined, too.

// CHECK-LABEL: func.func @operands
// CHECK:         %[[S:.*]] = fuse.residual_add
// CHECK-SAME:      (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
// CHECK:         fuse.mlp %[[S]] {{.*}} then_add(%{{.*}})
// CHECK-SAME:      -> tensor<2x3x8xf32>
// CHECK-NOT:     tensor.cast
func.func @operands(%x: tensor<2x?x8xf32>, %y: tensor<?x3x8xf32>,
                    %z: tensor<?x3x8xf32>, %w: tensor<8x8xf32>)
    -> tensor<2x3x8xf32> {
  %0 = fuse.residual_add %x, %y
    : (tensor<2x?x8xf32>, tensor<?x3x8xf32>) -> tensor<?x?x8xf32>
  %1 = fuse.mlp %0 up(%w) down(%w) act(relu) then_add(%z) rounding(exact)
     : (tensor<?x?x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>,
        tensor<?x3x8xf32>) -> tensor<?x?x8xf32>
  %2 = tensor.cast %1 : tensor<?x?x8xf32> to tensor<2x3x8xf32>
  return %2 : tensor<2x3x8xf32>
}

// Casts to different sizes are undefined behavior and stay.

// CHECK-LABEL: func.func @contradiction
// CHECK:         fuse.activation silu %{{.*}} : tensor<?x8xf32> -> tensor<?x8xf32>
// CHECK-COUNT-2: tensor.cast
func.func @contradiction(%x: tensor<?x8xf32>)
    -> (tensor<4x8xf32>, tensor<5x8xf32>) {
  %0 = fuse.activation silu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  %1 = tensor.cast %0 : tensor<?x8xf32> to tensor<4x8xf32>
  %2 = tensor.cast %0 : tensor<?x8xf32> to tensor<5x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<5x8xf32>
}

// One scale for all tokens is not one scale per token: it says nothing about
// their number.

// CHECK-LABEL: func.func @scales
// CHECK:         fuse.linear %{{.*}} dynamic_scale(%{{.*}}) scales(dynamic, 0.5)
// CHECK-SAME:      (tensor<?x8xi8>, tensor<8x8xi8>, tensor<1xf32>)
// CHECK:         fuse.linear %{{.*}} dynamic_scale(%{{.*}}) scales(dynamic, 0.5)
// CHECK-SAME:      (tensor<4x8xi8>, tensor<8x8xi8>, tensor<4xf32>)
func.func @scales(%x: tensor<?x8xi8>, %y: tensor<?x8xi8>, %w: tensor<8x8xi8>,
                  %one: tensor<1xf32>, %each: tensor<4xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = fuse.linear %x, %w dynamic_scale(%one) scales(dynamic, 0.5)
    : (tensor<?x8xi8>, tensor<8x8xi8>, tensor<1xf32>) -> tensor<?x8xf32>
  %1 = tensor.cast %each : tensor<4xf32> to tensor<?xf32>
  %2 = fuse.linear %y, %w dynamic_scale(%1) scales(dynamic, 0.5)
    : (tensor<?x8xi8>, tensor<8x8xi8>, tensor<?xf32>) -> tensor<?x8xf32>
  return %0, %2 : tensor<?x8xf32>, tensor<?x8xf32>
}

// -----

// Results of `also` without users are dropped.

// CHECK-LABEL: func.func @extras
// CHECK:         %[[A:.*]]:2 = fuse.norm_linear {{.*}} also([normed])
// CHECK-SAME:      site("extras#0")
// CHECK:         %[[B:.*]] = fuse.norm_quantize
// CHECK-NOT:     also
// CHECK:         return %[[A]]#0, %[[A]]#1, %[[B]]
func.func @extras(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>, %w: tensor<8x8xf32>)
    -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xi8>) {
  %0:3 = fuse.norm_linear %x residual(%r) norm(rms eps 1.0e-6) linear(%w)
           also([stream, normed]) rounding(exact) site("extras#0")
       : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<8x8xf32>)
         -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
  %1:2 = fuse.norm_quantize %x norm(rms eps 1.0e-6) also([normed])
           scales(i8, input = 0.5) rounding(exact)
       : (tensor<?x8xf32>) -> (tensor<?x8xi8>, tensor<?x8xf32>)
  return %0#0, %0#2, %1#0 : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xi8>
}

// -----

// The second of two relus of one type changes nothing. That of another type
// rounds.

// CHECK-LABEL: func.func @relu
// CHECK:         %[[Y:.*]] = fuse.activation relu %{{.*}} -> tensor<?x8xbf16>
// CHECK-NEXT:    %[[Z:.*]] = fuse.activation relu %[[Y]] {{.*}} -> tensor<?x8xf16>
// CHECK-NEXT:    return %[[Y]], %[[Z]]
func.func @relu(%x: tensor<?x8xf32>) -> (tensor<?x8xbf16>, tensor<?x8xf16>) {
  %0 = fuse.activation relu %x : tensor<?x8xf32> -> tensor<?x8xbf16>
  %1 = fuse.activation relu %0 : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %2 = fuse.activation relu %1 : tensor<?x8xbf16> -> tensor<?x8xf16>
  return %1, %2 : tensor<?x8xbf16>, tensor<?x8xf16>
}

// CHECK-LABEL: func.func @relu2
// CHECK-COUNT-2: fuse.activation relu2
func.func @relu2(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = fuse.activation relu2 %x : tensor<?x8xf32> -> tensor<?x8xf32>
  %1 = fuse.activation relu2 %0 : tensor<?x8xf32> -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// -----

// Real values of an i8 return to it, in any type and order of division.

// CHECK-LABEL: func.func @integers
// CHECK-SAME:    %[[Q:.*]]: tensor<?x8xi8>
// CHECK-NEXT:    return %[[Q]], %[[Q]]
func.func @integers(%q: tensor<?x8xi8>) -> (tensor<?x8xi8>, tensor<?x8xi8>) {
  %0 = fuse.dequantize %q scale 0.3 : (tensor<?x8xi8>) -> tensor<?x8xbf16>
  %1 = fuse.quantize %0 scale 0.3 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %2 = fuse.dequantize %q scale 0.3 : (tensor<?x8xi8>) -> tensor<?x8xf32>
  %3 = fuse.quantize %2 scale 0.3 order divide
    : (tensor<?x8xf32>) -> tensor<?x8xi8>
  return %1, %3 : tensor<?x8xi8>, tensor<?x8xi8>
}

// Another scale, a scale per channel, a real value that overflows f16 or is
// subnormal there, and 8-bit floats, whose infinities saturate, are not folded.

// CHECK-LABEL: func.func @not_integers
// CHECK-COUNT-5: fuse.quantize
func.func @not_integers(%q: tensor<4x8xi8>, %s: tensor<4xf32>,
                        %f: tensor<4x8xf8E5M2>)
    -> (tensor<4x8xi8>, tensor<4x8xi8>, tensor<4x8xi8>, tensor<4x8xi8>,
        tensor<4x8xf8E5M2>) {
  %0 = fuse.dequantize %q scale 0.3 : (tensor<4x8xi8>) -> tensor<4x8xf32>
  %1 = fuse.quantize %0 scale 0.31 : (tensor<4x8xf32>) -> tensor<4x8xi8>
  %2 = fuse.dequantize %q channel_scale(%s)
    : (tensor<4x8xi8>, tensor<4xf32>) -> tensor<4x8xf32>
  %3 = fuse.quantize %2 channel_scale(%s)
    : (tensor<4x8xf32>, tensor<4xf32>) -> tensor<4x8xi8>
  %4 = fuse.dequantize %q scale 600.0 : (tensor<4x8xi8>) -> tensor<4x8xf16>
  %5 = fuse.quantize %4 scale 600.0 : (tensor<4x8xf16>) -> tensor<4x8xi8>
  %6 = fuse.dequantize %q scale 6.0e-5 : (tensor<4x8xi8>) -> tensor<4x8xf16>
  %7 = fuse.quantize %6 scale 6.0e-5 : (tensor<4x8xf16>) -> tensor<4x8xi8>
  %8 = fuse.dequantize %f scale 0.5 : (tensor<4x8xf8E5M2>) -> tensor<4x8xf32>
  %9 = fuse.quantize %8 scale 0.5 : (tensor<4x8xf32>) -> tensor<4x8xf8E5M2>
  return %1, %3, %5, %7, %9 : tensor<4x8xi8>, tensor<4x8xi8>, tensor<4x8xi8>,
    tensor<4x8xi8>, tensor<4x8xf8E5M2>
}

// -----

// Ops that look like identities and are not: quantizing rounds, and the sum of
// -0.0 and 0.0 is 0.0.

// CHECK-LABEL: func.func @not_identities
// CHECK:         fuse.quantize
// CHECK:         fuse.dequantize
// CHECK:         fuse.residual_add
func.func @not_identities(%x: tensor<4x8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %0 = fuse.quantize %x scale 0.5 : (tensor<4x8xf32>) -> tensor<4x8xi8>
  %1 = fuse.dequantize %0 scale 0.5 : (tensor<4x8xi8>) -> tensor<4x8xf32>
  %2 = fuse.residual_add %x, %zero
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}
