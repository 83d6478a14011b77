// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{unknown granularity 'row'; expected one of tensor, channel, block, group}}
#a = #fuse.quant<f8E4M3FN, weights = row, activations = per_token>

// -----

// expected-error @below {{unknown field 'rounding'; expected one of weights, activations, floor, upper, scale_op, order, sums, zero_points, tensor_scale}}
#a = #fuse.quant<f8E4M3FN, rounding = none>

// -----

// expected-error @below {{field 'weights' is given twice}}
#a = #fuse.quant<f8E4M3FN, weights = tensor, weights = tensor>

// -----

// expected-error @below {{expected the field 'activations'}}
#a = #fuse.quant<f8E4M3FN, weights = tensor>

// -----

// expected-error @below {{storage type must be f8E4M3FN, f8E5M2 or i8, got 'bf16'}}
#a = #fuse.quant<bf16, weights = tensor, activations = per_token>

// -----

// expected-error @below {{expected a block of two sizes, such as 128x128, got 1}}
#a = #fuse.quant<f8E4M3FN, weights = block<128>, activations = per_token>

// -----

// expected-error @below {{sizes of a block must be positive with weights = block and zero otherwise, got 0x8}}
#a = #fuse.quant<f8E4M3FN, weights = block<0x8>, activations = per_token, sums = block<8>>

// -----

// expected-error @below {{size of a group must be positive with activations = per_group and zero otherwise, got -8}}
#a = #fuse.quant<f8E4M3FN, weights = tensor, activations = per_group<-8>, sums = block<8>>

// -----

// A floor avoids the division by zero of a token of zeros.

// expected-error @below {{'floor' is zero in f32, got 0}}
#a = #fuse.quant<f8E4M3FN, weights = tensor, activations = per_token, floor = amax<0.0>>

// -----

// expected-error @below {{'upper' must not be below 'floor', got 1.000000e+00 and 2.000000e+00}}
#a = #fuse.quant<f8E4M3FN, weights = tensor, activations = per_token, floor = amax<2.0>, upper = 1.0>

// -----

// expected-error @below {{scales per block or group need sums = block}}
#a = #fuse.quant<f8E4M3FN, weights = block<8x8>, activations = per_token>

// -----

// expected-error @below {{sums = block needs scales per block or group}}
#a = #fuse.quant<f8E4M3FN, weights = channel, activations = per_token, sums = block<8>>

// -----

// expected-error @below {{a block of a sum must not cross scales: 8 does not divide 12}}
#a = #fuse.quant<f8E4M3FN, weights = block<8x12>, activations = per_group<8>, sums = block<8>>

// -----

// expected-error @below {{sums = block needs an 8-bit float, got 'i8'}}
#a = #fuse.quant<i8, weights = block<8x8>, activations = per_token, sums = block<8>>

// -----

func.func @groups(%x: tensor<?x12xbf16>) {
  // expected-error @below {{'x' has 12 features, which groups of 8 do not divide}}
  %q, %s = fuse.dynamic_quantize per_group %x
             quant(f8E4M3FN, weights = block<8x8>, activations = per_group<8>,
                   sums = block<8>)
    : (tensor<?x12xbf16>) -> (tensor<?x12xf8E4M3FN>, tensor<?x1xf32>)
  return
}

// -----

func.func @no_groups(%x: tensor<?x16xbf16>) {
  // expected-error @below {{per_group needs 'quant' with the size of a group}}
  %q, %s = fuse.dynamic_quantize per_group %x
    : (tensor<?x16xbf16>) -> (tensor<?x16xf8E4M3FN>, tensor<?x2xf32>)
  return
}

// -----

func.func @scope(%x: tensor<?x16xbf16>) {
  // expected-error @below {{measures per_tensor, 'quant' states per_token}}
  %q, %s = fuse.dynamic_quantize per_tensor %x
             quant(f8E4M3FN, weights = channel, activations = per_token)
    : (tensor<?x16xbf16>) -> (tensor<?x16xf8E4M3FN>, tensor<1xf32>)
  return
}

// -----

func.func @group_scales(%x: tensor<?x16xbf16>) {
  // expected-error @below {{per_group scales must be 'tensor<?x2xf32>', got 'tensor<?x4xf32>'}}
  %q, %s = fuse.dynamic_quantize per_group %x
             quant(f8E4M3FN, weights = block<8x8>, activations = per_group<8>,
                   sums = block<8>)
    : (tensor<?x16xbf16>) -> (tensor<?x16xf8E4M3FN>, tensor<?x4xf32>)
  return
}

// -----

func.func @storage(%x: tensor<?x16xbf16>) {
  // expected-error @below {{quantizes to 'f8E5M2', 'quant' states 'f8E4M3FN'}}
  %q, %s = fuse.dynamic_quantize per_token %x
             quant(f8E4M3FN, weights = channel, activations = per_token)
    : (tensor<?x16xbf16>) -> (tensor<?x16xf8E5M2>, tensor<?xf32>)
  return
}

// -----

// Scales of the transposed weight.

func.func @transposed(%q: tensor<?x16xf8E4M3FN>, %w: tensor<32x16xf8E4M3FN>,
                      %s: tensor<2x4xf32>, %t: tensor<?x2xf32>) {
  // expected-error @below {{'channel_scale' must be 'tensor<4x2xf32>' for a weight of 32x16 with weights = block, got 'tensor<2x4xf32>'}}
  %y = fuse.linear %q, %w channel_scale(%s) dynamic_scale(%t)
         quant(f8E4M3FN, weights = block<8x8>, activations = per_group<8>,
               sums = block<8>)
    : (tensor<?x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<2x4xf32>,
       tensor<?x2xf32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func @numbers(%q: tensor<?x16xf8E4M3FN>, %w: tensor<32x16xf8E4M3FN>,
                   %s: tensor<32xf32>, %t: tensor<?xf32>) {
  // expected-error @below {{with 'quant' has its scales as operands, so it has no 'scales'}}
  %y = "fuse.linear"(%q, %w, %s, %t) {
    input_scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>,
    quant = #fuse.quant<f8E4M3FN, weights = channel, activations = per_token>}
    : (tensor<?x16xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<32xf32>,
       tensor<?xf32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func @input_scales(%q: tensor<?x16xf8E4M3FN>, %w: tensor<4x16xf8E4M3FN>,
                        %s: tensor<4xf32>, %t: tensor<1xf32>) {
  // expected-error @below {{'dynamic_scale' must be 'tensor<?x2xf32>' with activations = per_group, got 'tensor<1xf32>'}}
  %y = fuse.linear %q, %w channel_scale(%s) dynamic_scale(%t)
         quant(f8E4M3FN, weights = channel, activations = per_group<8>,
               sums = block<8>)
    : (tensor<?x16xf8E4M3FN>, tensor<4x16xf8E4M3FN>, tensor<4xf32>,
       tensor<1xf32>) -> tensor<?x4xbf16>
  return
}

// -----

func.func @two(%x: tensor<?x8xbf16>, %u: tensor<8x8xf8E4M3FN>,
               %s: tensor<8xf32>) {
  // expected-error @below {{has both 'scales' and 'quant'; expected one of them}}
  %y = fuse.mlp %x up(%u) down(%u) act(gelu) channel_scales(%s, %s)
         quant(f8E4M3FN, weights = channel, activations = per_token)
         scales(f8E4M3FN, input = 1.0, up = 1.0, hidden = 1.0, down = 1.0)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<8x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>,
       tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xbf16>
  return
}

// -----

func.func @unquantized(%x: tensor<?x8xbf16>, %u: tensor<8x8xbf16>) {
  // expected-error @below {{has 'quant' but no quantized member}}
  %y = fuse.mlp %x up(%u) down(%u) act(gelu)
         quant(f8E4M3FN, weights = channel, activations = per_token)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>)
      -> tensor<?x8xbf16>
  return
}

// -----

func.func @count(%x: tensor<?x8xbf16>, %u: tensor<8x8xf8E4M3FN>,
                 %s: tensor<8xf32>) {
  // expected-error @below {{expected 2 'channel_scales', one per weight, got 1}}
  %y = fuse.mlp %x up(%u) down(%u) act(gelu) channel_scales(%s)
         quant(f8E4M3FN, weights = channel, activations = per_token)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<8x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>,
       tensor<8xf32>) -> tensor<?x8xbf16>
  return
}

// -----

// The rows of a kernel do not depend on each other.

func.func @per_tensor(%x: tensor<?x8xbf16>, %u: tensor<8x8xf8E4M3FN>,
                      %s: tensor<8xf32>) {
  // expected-error @below {{must measure activations per_token or per_group, got per_tensor}}
  %y = fuse.mlp %x up(%u) down(%u) act(gelu) channel_scales(%s, %s)
         quant(f8E4M3FN, weights = channel, activations = per_tensor)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<8x8xf8E4M3FN>, tensor<8x8xf8E4M3FN>,
       tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xbf16>
  return
}

// -----

func.func @hidden(%x: tensor<?x8xbf16>, %u: tensor<12x8xf8E4M3FN>,
                  %d: tensor<8x12xf8E4M3FN>, %s: tensor<2x1xf32>,
                  %t: tensor<1x2xf32>) {
  // expected-error @below {{member 'down': 'x' has 12 features, which groups of 8 do not divide}}
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) channel_scales(%s, %t)
         quant(f8E4M3FN, weights = block<8x8>, activations = per_group<8>,
               sums = block<8>)
         rounding(exact)
    : (tensor<?x8xbf16>, tensor<12x8xf8E4M3FN>, tensor<8x12xf8E4M3FN>,
       tensor<2x1xf32>, tensor<1x2xf32>) -> tensor<?x8xbf16>
  return
}
