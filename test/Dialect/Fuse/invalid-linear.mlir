// RUN: fuse-opt %s -split-input-file -verify-diagnostics

func.func @weight_rank(%x: tensor<?x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{'weight' must be a static [out, in] matrix, got 'tensor<64xf32>'}}
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @weight_dynamic(%x: tensor<?x64xf32>, %w: tensor<?x64xf32>) {
  // expected-error @below {{'weight' must be a static [out, in] matrix, got 'tensor<?x64xf32>'}}
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @weight_empty(%x: tensor<?x64xf32>, %w: tensor<64x0xf32>) {
  // expected-error @below {{feature dimension of 'weight' must not be empty, got 'tensor<64x0xf32>'}}
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x0xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @input_features(%x: tensor<?x32xf32>, %w: tensor<128x64xf32>) {
  // expected-error @below {{'x' has 32 features, 'weight' expects 64}}
  %0 = fuse.linear %x, %w
    : (tensor<?x32xf32>, tensor<128x64xf32>) -> tensor<?x128xf32>
  return
}

// -----

// A weight as [in, out], as some frameworks store it.
func.func @transposed_weight(%x: tensor<?x64xf32>, %w: tensor<64x128xf32>) {
  // expected-error @below {{'x' has 64 features, 'weight' expects 128}}
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<64x128xf32>) -> tensor<?x128xf32>
  return
}

// -----

func.func @output_features(%x: tensor<?x64xf32>, %w: tensor<128x64xf32>) {
  // expected-error @below {{'y' has 64 features, 'weight' returns 128}}
  %0 = fuse.linear %x, %w
    : (tensor<?x64xf32>, tensor<128x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @leading_dimensions(%x: tensor<2x64xf32>, %w: tensor<128x64xf32>) {
  // expected-error @below {{leading dimensions of 'x' and 'y' must be the same, got 'tensor<2x64xf32>' and 'tensor<3x128xf32>'}}
  %0 = fuse.linear %x, %w
    : (tensor<2x64xf32>, tensor<128x64xf32>) -> tensor<3x128xf32>
  return
}

// -----

func.func @output_rank_0(%x: tensor<64xf32>, %w: tensor<1x64xf32>) {
  // expected-error @below {{'y' needs a feature dimension, got 'tensor<f32>'}}
  %0 = fuse.linear %x, %w : (tensor<64xf32>, tensor<1x64xf32>) -> tensor<f32>
  return
}

// -----

func.func @mixed_types(%x: tensor<?x64xbf16>, %w: tensor<128x64xf32>) {
  // expected-error @below {{'x' and 'weight' must have the same element type or both an 8-bit float, got 'bf16' and 'f32'}}
  %0 = fuse.linear %x, %w
    : (tensor<?x64xbf16>, tensor<128x64xf32>) -> tensor<?x128xf32>
  return
}

// -----

func.func @mixed_quantized_types(%x: tensor<?x64xf8E4M3FN>,
                                 %w: tensor<128x64xi8>) {
  // expected-error @below {{'x' and 'weight' must have the same element type or both an 8-bit float, got 'f8E4M3FN' and 'i8'}}
  %0 = fuse.linear %x, %w scales(1.0, 1.0)
    : (tensor<?x64xf8E4M3FN>, tensor<128x64xi8>) -> tensor<?x128xf32>
  return
}

// -----

func.func @bias_size(%x: tensor<?x64xf32>, %w: tensor<128x64xf32>,
                     %b: tensor<64xf32>) {
  // expected-error @below {{'bias' must have one entry per output (128), got 'tensor<64xf32>'}}
  %0 = fuse.linear %x, %w bias(%b)
    : (tensor<?x64xf32>, tensor<128x64xf32>, tensor<64xf32>)
      -> tensor<?x128xf32>
  return
}

// -----

func.func @quantized_bias(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>,
                          %b: tensor<128xi32>) {
  // expected-error @below {{operand #2 must be tensor without encoding of f16, bf16 or f32 values, but got 'tensor<128xi32>'}}
  %0 = fuse.linear %x, %w bias(%b) scales(1.0, 1.0)
    : (tensor<?x64xi8>, tensor<128x64xi8>, tensor<128xi32>)
      -> tensor<?x128xf32>
  return
}

// -----

func.func @channel_scale_size(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>,
                              %s: tensor<64xf32>) {
  // expected-error @below {{'channel_scale' must have one entry per output (128), got 'tensor<64xf32>'}}
  %0 = fuse.linear %x, %w channel_scale(%s) scales(1.0, per_channel)
    : (tensor<?x64xi8>, tensor<128x64xi8>, tensor<64xf32>)
      -> tensor<?x128xf32>
  return
}

// -----

func.func @channel_scale_type(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>,
                              %s: tensor<128xbf16>) {
  // expected-error @below {{operand #2 must be tensor without encoding of 32-bit float values, but got 'tensor<128xbf16>'}}
  %0 = fuse.linear %x, %w channel_scale(%s) scales(1.0, per_channel)
    : (tensor<?x64xi8>, tensor<128x64xi8>, tensor<128xbf16>)
      -> tensor<?x128xf32>
  return
}

// -----

func.func @quantized_without_scales(%x: tensor<?x64xi8>,
                                    %w: tensor<128x64xi8>) {
  // expected-error @below {{with quantized operands needs scales}}
  %0 = fuse.linear %x, %w
    : (tensor<?x64xi8>, tensor<128x64xi8>) -> tensor<?x128xf32>
  return
}

// -----

func.func @scales_of_floats(%x: tensor<?x64xf32>, %w: tensor<128x64xf32>) {
  // expected-error @below {{with floating-point operands does not support scales}}
  %0 = fuse.linear %x, %w scales(1.0, 1.0)
    : (tensor<?x64xf32>, tensor<128x64xf32>) -> tensor<?x128xf32>
  return
}

// -----

func.func @channel_scale_of_floats(%x: tensor<?x64xf32>,
                                   %w: tensor<128x64xf32>,
                                   %s: tensor<128xf32>) {
  // expected-error @below {{with floating-point operands does not support scales}}
  %0 = fuse.linear %x, %w channel_scale(%s)
    : (tensor<?x64xf32>, tensor<128x64xf32>, tensor<128xf32>)
      -> tensor<?x128xf32>
  return
}

// -----

func.func @no_weight_scale(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>) {
  // expected-error @below {{needs one scale for its weight: a number in 'scales', or 'per_channel' there and 'channel_scale'}}
  %0 = fuse.linear %x, %w scales(1.0, per_channel)
    : (tensor<?x64xi8>, tensor<128x64xi8>) -> tensor<?x128xf32>
  return
}

// -----

func.func @two_weight_scales(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>,
                             %s: tensor<128xf32>) {
  // expected-error @below {{needs one scale for its weight: a number in 'scales', or 'per_channel' there and 'channel_scale'}}
  %0 = fuse.linear %x, %w channel_scale(%s) scales(1.0, 2.0)
    : (tensor<?x64xi8>, tensor<128x64xi8>, tensor<128xf32>)
      -> tensor<?x128xf32>
  return
}

// -----

func.func @bad_input_scale(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>) {
  // expected-error @below {{input scale is zero in f32, got 0.000000e+00}}
  %0 = fuse.linear %x, %w scales(0.0, 1.0)
    : (tensor<?x64xi8>, tensor<128x64xi8>) -> tensor<?x128xf32>
  return
}

// -----

func.func @bad_weight_scale(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>) {
  // expected-error @below {{weight scale is negative, got -1.000000e+00}}
  %0 = fuse.linear %x, %w scales(1.0, -1.0)
    : (tensor<?x64xi8>, tensor<128x64xi8>) -> tensor<?x128xf32>
  return
}

// -----

func.func @no_bias(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{has no bias to add after rounding}}
  %0 = "fuse.linear"(%x, %w)
    <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>,
      bias_place = #fuse.bias_place<after_rounding>}>
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @bias_place(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                      %b: tensor<64xf32>) {
  // expected-error @below {{unknown place of the bias 'never'; expected one of before_rounding, after_rounding}}
  %0 = fuse.linear %x, %w bias(%b) added never
    : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @dynamic_scale_size(%x: tensor<4x64xi8>, %w: tensor<64x64xi8>,
                              %s: tensor<3xf32>) {
  // expected-error @below {{'dynamic_scale' must be tensor<1xf32> or have one entry per token of 'tensor<4x64xi8>', got 'tensor<3xf32>'}}
  %0 = fuse.linear %x, %w dynamic_scale(%s) scales(dynamic, 1.0)
    : (tensor<4x64xi8>, tensor<64x64xi8>, tensor<3xf32>) -> tensor<4x64xf32>
  return
}

// -----

func.func @dynamic_scale_of_floats(%x: tensor<4x64xf32>, %w: tensor<64x64xf32>,
                                   %s: tensor<4xf32>) {
  // expected-error @below {{with floating-point operands does not support scales}}
  %0 = fuse.linear %x, %w dynamic_scale(%s)
    : (tensor<4x64xf32>, tensor<64x64xf32>, tensor<4xf32>) -> tensor<4x64xf32>
  return
}

// -----

func.func @two_input_scales(%x: tensor<4x64xi8>, %w: tensor<64x64xi8>,
                            %s: tensor<4xf32>) {
  // expected-error @below {{has two scales for its input: a number in 'scales' and 'dynamic_scale'}}
  %0 = fuse.linear %x, %w dynamic_scale(%s) scales(1.0, 1.0)
    : (tensor<4x64xi8>, tensor<64x64xi8>, tensor<4xf32>) -> tensor<4x64xf32>
  return
}
