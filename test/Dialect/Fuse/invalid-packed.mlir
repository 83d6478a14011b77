// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{storage type with weights = group must be f4E2M1FN, i4 or ui4, got 'f8E4M3FN'}}
#a = #fuse.quant<f8E4M3FN, weights = group<32, f32>, activations = none>

// -----

// expected-error @below {{size of a group of a weight must be positive and even, got 3}}
#a = #fuse.quant<i4, weights = group<3, f32>, activations = none>

// -----

// expected-error @below {{type of the scales of a group must be f32, bf16, f16, f8E4M3FN or f8E8M0FNU, got 'f8E5M2'}}
#a = #fuse.quant<i4, weights = group<32, f8E5M2>, activations = none>

// -----

// expected-error @below {{weights = group needs activations = none, got per_token}}
#a = #fuse.quant<i4, weights = group<32, f32>, activations = per_token>

// -----

// expected-error @below {{activations = none needs weights = group, got channel}}
#a = #fuse.quant<f8E4M3FN, weights = channel, activations = none>

// -----

// expected-error @below {{'zero_points' must be given with ui4 and with no other type, got 'ui4'}}
#a = #fuse.quant<ui4, weights = group<32, f32>, activations = none>

// -----

// expected-error @below {{'zero_points' must be given with ui4 and with no other type, got 'i4'}}
#a = #fuse.quant<i4, weights = group<32, f32>, zero_points = 8, activations = none>

// -----

// expected-error @below {{a zero point must be a code of 0 to 15, got 16}}
#a = #fuse.quant<ui4, weights = group<32, f32>, zero_points = 16, activations = none>

// -----

// expected-error @below {{expected group or a number}}
#a = #fuse.quant<ui4, weights = group<32, f32>, zero_points = none, activations = none>

// -----

// expected-error @below {{'tensor_scale' needs a type without zero points, got 'ui4'}}
#a = #fuse.quant<ui4, weights = group<32, f32>, zero_points = 8, tensor_scale = multiply, activations = none>

// -----

// expected-error @below {{'zero_points' and 'tensor_scale' need weights = group, got tensor}}
#a = #fuse.quant<f8E4M3FN, weights = tensor, tensor_scale = multiply, activations = per_token>

// -----

// expected-error @below {{weights = group quantizes no activations, so it has no 'upper' and no 'sums'}}
#a = #fuse.quant<i4, weights = group<32, f32>, activations = none, sums = block<32>>

// -----

func.func @width(%q: tensor<6x8xi8>, %s: tensor<6x1xf32>) {
  // expected-error @below {{'weight' has 16 inputs, which groups of 12 do not divide}}
  %w = fuse.dequantize_weight %q scales(%s)
         quant(i4, weights = group<12, f32>, activations = none)
    : (tensor<6x8xi8>, tensor<6x1xf32>) -> tensor<6x16xbf16>
  return
}

// -----

func.func @type(%q: tensor<6x8xi8>, %s: tensor<6x2xbf16>) {
  // expected-error @below {{'scale' of a weight of 6x16 must be 'tensor<6x2xi8>', got 'tensor<6x2xbf16>'}}
  %w = fuse.dequantize_weight %q scales(%s)
         quant(f4E2M1FN, weights = group<8, f8E8M0FNU>, activations = none)
    : (tensor<6x8xi8>, tensor<6x2xbf16>) -> tensor<6x16xbf16>
  return
}

// -----

func.func @transposed(%q: tensor<6x8xi8>, %s: tensor<6x2xf32>,
                      %z: tensor<2x6xi8>) {
  // expected-error @below {{'zero points' of a weight of 6x16 must be 'tensor<6x2xi8>', got 'tensor<2x6xi8>'}}
  %w = fuse.dequantize_weight %q scales(%s, %z)
         quant(ui4, weights = group<8, f32>, zero_points = group,
               activations = none)
    : (tensor<6x8xi8>, tensor<6x2xf32>, tensor<2x6xi8>) -> tensor<6x16xbf16>
  return
}

// -----

func.func @missing(%q: tensor<6x8xi8>, %s: tensor<6x2xf8E4M3FN>) {
  // expected-error @below {{expected 2 operands with scales of 'weight', got 1}}
  %w = fuse.dequantize_weight %q scales(%s)
         quant(f4E2M1FN, weights = group<8, f8E4M3FN>,
               tensor_scale = multiply, activations = none)
    : (tensor<6x8xi8>, tensor<6x2xf8E4M3FN>) -> tensor<6x16xbf16>
  return
}

// -----

func.func @result(%q: tensor<6x8xi8>, %s: tensor<6x2xf32>) {
  // expected-error @below {{result must be 'tensor<6x16xbf16>', got 'tensor<6x8xbf16>'}}
  %w = fuse.dequantize_weight %q scales(%s)
         quant(i4, weights = group<8, f32>, activations = none)
    : (tensor<6x8xi8>, tensor<6x2xf32>) -> tensor<6x8xbf16>
  return
}

// -----

func.func @granularity(%q: tensor<6x8xi8>, %s: tensor<6xf32>) {
  // expected-error @below {{needs 'quant' with weights = group, got channel}}
  %w = fuse.dequantize_weight %q scales(%s)
         quant(i8, weights = channel, activations = per_token)
    : (tensor<6x8xi8>, tensor<6xf32>) -> tensor<6x16xbf16>
  return
}

// -----

func.func @rows(%q: tensor<?x8xi8>, %s: tensor<6x2xf32>) {
  // expected-error @below {{'weight' must be a static [out, in / 2] matrix of i8, got 'tensor<?x8xi8>'}}
  %w = fuse.dequantize_weight %q scales(%s)
         quant(i4, weights = group<8, f32>, activations = none)
    : (tensor<?x8xi8>, tensor<6x2xf32>) -> tensor<6x16xbf16>
  return
}

// -----

func.func @linear(%x: tensor<?x8xi8>, %q: tensor<6x8xi8>, %s: tensor<6x2xf32>,
                  %t: tensor<?xf32>) {
  // expected-error @below {{multiplies no packed codes; expected the result of fuse.dequantize_weight}}
  %y = fuse.linear %x, %q channel_scale(%s) dynamic_scale(%t)
         quant(i4, weights = group<8, f32>, activations = none)
    : (tensor<?x8xi8>, tensor<6x8xi8>, tensor<6x2xf32>, tensor<?xf32>)
      -> tensor<?x6xbf16>
  return
}

// -----

func.func @scope(%x: tensor<?x8xbf16>) {
  // expected-error @below {{needs a scope of scales, got none}}
  %q, %t = fuse.dynamic_quantize none %x
    : (tensor<?x8xbf16>) -> (tensor<?x8xi8>, tensor<?xf32>)
  return
}

// -----

func.func @count(%x: tensor<?x8xbf16>, %u: tensor<16x4xi8>, %d: tensor<8x8xi8>,
                 %su: tensor<16x2xf32>, %sd: tensor<8x4xf32>) {
  // expected-error @below {{expected 4 'channel_scales', 2 per weight, got 2}}
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) channel_scales(%su, %sd)
         quant(ui4, weights = group<4, f32>, zero_points = group,
               activations = none) rounding(exact)
    : (tensor<?x8xbf16>, tensor<16x4xi8>, tensor<8x8xi8>, tensor<16x2xf32>,
       tensor<8x4xf32>) -> tensor<?x8xbf16>
  return
}

// -----

func.func @member(%x: tensor<?x8xbf16>, %u: tensor<16x4xi8>, %d: tensor<8x8xi8>,
                  %su: tensor<16x2xf32>, %sd: tensor<8x2xf32>) {
  // expected-error @below {{member 'down': 'scale' of a weight of 8x16 must be 'tensor<8x4xf32>', got 'tensor<8x2xf32>'}}
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) channel_scales(%su, %sd)
         quant(i4, weights = group<4, f32>, activations = none)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<16x4xi8>, tensor<8x8xi8>, tensor<16x2xf32>,
       tensor<8x2xf32>) -> tensor<?x8xbf16>
  return
}

// -----

// Without groups, scales are in f32.

func.func @element(%x: tensor<?x8xbf16>, %n: tensor<8xbf16>,
                   %w: tensor<16x8xi8>, %s: tensor<16xbf16>) {
  // expected-error @below {{'channel_scales' must be in f32 without weights = group, got 'tensor<16xbf16>'}}
  %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w)
         channel_scales(%s)
         quant(i8, weights = channel, activations = per_token)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<8xbf16>, tensor<16x8xi8>, tensor<16xbf16>)
      -> tensor<?x16xbf16>
  return
}
