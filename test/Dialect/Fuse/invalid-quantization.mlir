// RUN: fuse-opt %s -split-input-file -verify-diagnostics

func.func @quantize_shape(%x: tensor<?x64xf32>) {
  // expected-error @below {{'x' and 'q' must have the same shape, got 'tensor<?x64xf32>' and 'tensor<?x32xi8>'}}
  %0 = fuse.quantize %x scale 1.0 : (tensor<?x64xf32>) -> tensor<?x32xi8>
  return
}

// -----

func.func @quantize_storage(%x: tensor<?x64xf32>) {
  // expected-error @below {{result #0 must be tensor without encoding of f8E4M3FN, f8E5M2 or i8 values, but got 'tensor<?x64xi4>'}}
  %0 = fuse.quantize %x scale 1.0 : (tensor<?x64xf32>) -> tensor<?x64xi4>
  return
}

// -----

// Storage types are signless; stored values are signed.
func.func @quantize_unsigned(%x: tensor<?x64xf32>) {
  // expected-error @below {{result #0 must be tensor without encoding of f8E4M3FN, f8E5M2 or i8 values, but got 'tensor<?x64xui8>'}}
  %0 = fuse.quantize %x scale 1.0 : (tensor<?x64xf32>) -> tensor<?x64xui8>
  return
}

// -----

func.func @quantize_without_scale(%x: tensor<?x64xf32>) {
  // expected-error @below {{needs either 'scale' or 'channel_scale'}}
  %0 = fuse.quantize %x : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @quantize_two_scales(%x: tensor<4x64xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{needs either 'scale' or 'channel_scale'}}
  %0 = fuse.quantize %x scale 1.0 channel_scale(%s)
    : (tensor<4x64xf32>, tensor<4xf32>) -> tensor<4x64xi8>
  return
}

// -----

func.func @quantize_dynamic_channels(%x: tensor<?x64xf32>, %s: tensor<?xf32>) {
  // expected-error @below {{with 'channel_scale' needs a static dimension 0, got 'tensor<?x64xf32>'}}
  %0 = fuse.quantize %x channel_scale(%s)
    : (tensor<?x64xf32>, tensor<?xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @quantize_channel_scale_size(%x: tensor<4x64xf32>,
                                       %s: tensor<64xf32>) {
  // expected-error @below {{'channel_scale' must have one entry per index of dimension 0 (4), got 'tensor<64xf32>'}}
  %0 = fuse.quantize %x channel_scale(%s)
    : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xi8>
  return
}

// -----

func.func @dequantize_channel_scale_rank(%q: tensor<4x64xi8>,
                                         %s: tensor<4x1xf32>) {
  // expected-error @below {{'channel_scale' must have one entry per index of dimension 0 (4), got 'tensor<4x1xf32>'}}
  %0 = fuse.dequantize %q channel_scale(%s)
    : (tensor<4x64xi8>, tensor<4x1xf32>) -> tensor<4x64xf32>
  return
}

// -----

func.func @dequantize_shape(%q: tensor<4x64xi8>) {
  // expected-error @below {{'x' and 'q' must have the same shape, got 'tensor<4x32xf32>' and 'tensor<4x64xi8>'}}
  %0 = fuse.dequantize %q scale 1.0 : (tensor<4x64xi8>) -> tensor<4x32xf32>
  return
}

// -----

func.func @one_token(%x: tensor<64xbf16>) {
  // expected-error @below {{per_token needs a dimension of tokens, got 'tensor<64xbf16>'}}
  %q, %s = fuse.dynamic_quantize per_token %x
    : (tensor<64xbf16>) -> (tensor<64xi8>, tensor<1xf32>)
  return
}

// -----

func.func @scale_per_token(%x: tensor<?x64xbf16>) {
  // expected-error @below {{per_token scales must be 'tensor<?xf32>', got 'tensor<1xf32>'}}
  %q, %s = fuse.dynamic_quantize per_token %x
    : (tensor<?x64xbf16>) -> (tensor<?x64xi8>, tensor<1xf32>)
  return
}

// -----

func.func @scale_per_tensor(%x: tensor<?x64xbf16>) {
  // expected-error @below {{per_tensor scale must be tensor<1xf32>, got 'tensor<?xf32>'}}
  %q, %s = fuse.dynamic_quantize per_tensor %x
    : (tensor<?x64xbf16>) -> (tensor<?x64xi8>, tensor<?xf32>)
  return
}

// -----

func.func @stored_shape(%x: tensor<?x64xbf16>) {
  // expected-error @below {{'x' and 'q' must have the same shape, got 'tensor<?x64xbf16>' and 'tensor<?x32xi8>'}}
  %q, %s = fuse.dynamic_quantize per_token %x
    : (tensor<?x64xbf16>) -> (tensor<?x32xi8>, tensor<?xf32>)
  return
}

// -----

func.func @scope(%x: tensor<?x64xbf16>) {
  // expected-error @below {{unknown scope 'per_block'; expected one of per_token, per_tensor}}
  %q, %s = fuse.dynamic_quantize per_block %x
    : (tensor<?x64xbf16>) -> (tensor<?x64xi8>, tensor<?xf32>)
  return
}
