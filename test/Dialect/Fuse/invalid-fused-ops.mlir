// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// Members of fused ops. Types and shapes follow the rules of the layer ops; the
// errors also name the member.

//===----------------------------------------------------------------------===//
// Head: [residual_add] [norm]
//===----------------------------------------------------------------------===//

func.func @input(%x: tensor<f32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{'fuse.mlp' op member 'input': 'x' needs a feature dimension, got 'tensor<f32>'}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
     : (tensor<f32>, tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<f32>
  return
}

// -----

func.func @residual(%x: tensor<?x64xf32>, %r: tensor<?x32xf32>,
                    %w: tensor<64x64xf32>) {
  // expected-error @below {{member 'residual': 'x' and 'residual' must have the same shape, got 'tensor<?x64xf32>' and 'tensor<?x32xf32>'}}
  %0 = fuse.mlp %x residual(%r) up(%w) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xf32>, tensor<?x32xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @norm_weight(%x: tensor<?x64xf32>, %n: tensor<32xf32>,
                       %w: tensor<64x64xf32>) {
  // expected-error @below {{member 'norm': 'weight' must have one entry per feature (64), got 'tensor<32xf32>'}}
  %0 = fuse.mlp %x norm(rms %n eps 1.0e-6) up(%w) down(%w) act(silu)
         rounding(exact)
     : (tensor<?x64xf32>, tensor<32xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @norm_eps(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{member 'norm': eps must be finite and not negative, got nan}}
  %0 = fuse.mlp %x norm(rms eps 0x7FF8000000000000) up(%w) down(%w) act(silu)
         rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @norm_offset(%x: tensor<?x64xf32>, %n: tensor<64xf32>,
                       %w: tensor<64x64xf32>) {
  // expected-error @below {{member 'norm': offset must be 0 or 1, got 3}}
  %0 = fuse.mlp %x norm(rms %n eps 1.0 offset 3) up(%w) down(%w) act(silu)
         rounding(exact)
     : (tensor<?x64xf32>, tensor<64xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @rms_norm_bias(%x: tensor<?x64xf32>, %n: tensor<64xf32>,
                         %w: tensor<64x64xf32>) {
  // expected-error @below {{member 'norm': an rms norm has no bias}}
  %0 = fuse.mlp %x norm(rms %n, %n eps 1.0) up(%w) down(%w) act(silu)
         rounding(exact)
     : (tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @no_norm(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected 'norm(rms ...)' or 'norm(layer ...)', which the op needs}}
  %0 = fuse.norm_quantize %x scales(i8, input = 1.0) rounding(exact)
     : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Linear members
//===----------------------------------------------------------------------===//

func.func @weight_rank(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                       %v: tensor<64xf32>) {
  // expected-error @below {{'fuse.gated_mlp' op member 'gate': 'weight' must be a static [out, in] matrix, got 'tensor<64xf32>'}}
  %0 = fuse.gated_mlp %x gate(%v) up(%w) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xf32>, tensor<64xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @weight_dynamic(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                          %v: tensor<?x64xf32>) {
  // expected-error @below {{member 'up': feature dimension of 'y' must be static}}
  %0 = fuse.mlp %x up(%v) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @up_features(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                       %v: tensor<64x32xf32>) {
  // expected-error @below {{member 'up': 'x' has 64 features, 'weight' expects 32}}
  %0 = fuse.gated_mlp %x gate(%w) up(%v) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x32xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @gate_and_up(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                       %v: tensor<128x64xf32>) {
  // expected-error @below {{member 'product': 'gate' and 'up' must have the same shape, got 'tensor<?x64xf32>' and 'tensor<?x128xf32>'}}
  %0 = fuse.gated_mlp %x gate(%w) up(%v) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<128x64xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @down_features(%x: tensor<?x64xf32>, %w: tensor<128x64xf32>) {
  // expected-error @below {{member 'down': 'x' has 128 features, 'weight' expects 64}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xf32>, tensor<128x64xf32>, tensor<128x64xf32>)
       -> tensor<?x128xf32>
  return
}

// -----

func.func @bias(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                %b: tensor<1xf32>) {
  // expected-error @below {{member 'down': 'bias' must have one entry per output (64), got 'tensor<1xf32>'}}
  %0 = fuse.mlp %x up(%w) down(%w bias %b) act(silu) rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>,
        tensor<1xf32>) -> tensor<?x64xf32>
  return
}

// -----

// The type of an intermediate differs from that of its user's weight.
func.func @rounded_to_another_type(%x: tensor<?x64xbf16>,
                                   %w: tensor<64x64xbf16>) {
  // expected-error @below {{member 'down': 'x' and 'weight' must have the same element type or both an 8-bit float, got 'f32' and 'bf16'}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact types {act = f32})
     : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @linear(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                  %v: tensor<64x32xf32>) {
  // expected-error @below {{'fuse.norm_linear' op member 'linear': 'x' has 64 features, 'weight' expects 32}}
  %0:2 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w, %v)
           rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x32xf32>)
       -> (tensor<?x64xf32>, tensor<?x64xf32>)
  return
}

// -----

func.func @factor(%x: tensor<?x64xf32>, %u: tensor<?x32xf32>) {
  // expected-error @below {{'fuse.act_quantize' op member 'product': 'x' and 'factor' must have the same shape, got 'tensor<?x64xf32>' and 'tensor<?x32xf32>'}}
  %0 = fuse.act_quantize %x times(%u) act(silu) scales(i8, hidden = 1.0)
         rounding(exact)
     : (tensor<?x64xf32>, tensor<?x32xf32>) -> tensor<?x64xi8>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Tail: [residual_add]
//===----------------------------------------------------------------------===//

func.func @then_add(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                    %r: tensor<?x32xf32>) {
  // expected-error @below {{member 'then_add': 'down' and 'residual' must have the same shape, got 'tensor<?x64xf32>' and 'tensor<?x32xf32>'}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) then_add(%r) rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>,
        tensor<?x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @add_stream(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                      %wd: tensor<32x64xf32>) {
  // expected-error @below {{member 'then_add': 'down' and 'stream' must have the same shape, got 'tensor<?x32xf32>' and 'tensor<?x64xf32>'}}
  %0 = fuse.mlp %x residual(%x) up(%w) down(%wd) act(silu) add_stream
         rounding(exact)
     : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<64x64xf32>,
        tensor<32x64xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @both_adds(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{has both 'then_add' and 'add_stream'}}
  %0 = fuse.mlp %x residual(%x) up(%w) down(%w) act(silu) then_add(%x)
         add_stream rounding(exact)
     : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

// Without a residual, `then_add(%x)` expresses the same.
func.func @add_stream_without_residual(%x: tensor<?x64xf32>,
                                       %w: tensor<64x64xf32>) {
  // expected-error @below {{has no residual, so its stream is its input}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) add_stream rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

func.func @result_shape(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{member 'output': 'down' and 'result' must have the same shape, got 'tensor<?x64xf32>' and 'tensor<?x32xf32>'}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x32xf32>
  return
}

// -----

func.func @linear_result_shape(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{member 'linear': 'y' and 'result' must have the same shape, got 'tensor<?x64xf32>' and 'tensor<?x32xf32>'}}
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w) rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @no_results(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{expected 1 results (1 and those of 'also'), got 0}}
  fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>) -> ()
  return
}

// -----

func.func @no_extra_result(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{expected 2 results (1 and those of 'also'), got 1}}
  %0 = fuse.mlp %x residual(%x) up(%w) down(%w) act(silu) also([stream])
         rounding(exact)
     : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @one_result_for_two_linears(%x: tensor<?x64xf32>,
                                      %w: tensor<64x64xf32>) {
  // expected-error @below {{expected 2 results (2 and those of 'also'), got 1}}
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w, %w) rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @unknown_extra(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{cannot return 'act'; it returns stream}}
  %0:2 = fuse.mlp %x up(%w) down(%w) act(silu) also([act]) rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> (tensor<?x64xf32>, tensor<?x64xf32>)
  return
}

// -----

func.func @product_without_factor(%x: tensor<?x64xf32>) {
  // expected-error @below {{cannot return 'product'; it returns act}}
  %0:2 = fuse.act_quantize %x act(silu) also([product])
           scales(i8, hidden = 1.0) rounding(exact)
     : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x64xf32>)
  return
}

// -----

func.func @extra_twice(%x: tensor<?x64xf32>) {
  // expected-error @below {{returns 'normed' twice}}
  %0:3 = fuse.norm_quantize %x norm(rms eps 1.0e-6) also([normed, normed])
           scales(i8, input = 1.0) rounding(exact)
     : (tensor<?x64xf32>)
       -> (tensor<?x64xi8>, tensor<?x64xf32>, tensor<?x64xf32>)
  return
}

// -----

func.func @empty_extras(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{names no result in 'also'}}
  %0 = fuse.mlp %x residual(%x) up(%w) down(%w) act(silu) also([])
         rounding(exact)
     : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @stream_without_residual(%x: tensor<?x64xf32>) {
  // expected-error @below {{has no residual, so its stream is its input}}
  %0:2 = fuse.norm_quantize %x norm(rms eps 1.0e-6) also([stream])
           scales(i8, input = 1.0) rounding(exact)
     : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x64xf32>)
  return
}

// -----

func.func @stream_type(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{result 'stream' must be 'tensor<?x64xf32>', got 'tensor<?x64xbf16>'}}
  %0:2 = fuse.mlp %x residual(%x) up(%w) down(%w) act(silu) also([stream])
           rounding(exact)
     : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xbf16>)
  return
}

// -----

func.func @normed_type(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{result 'normed' must be 'tensor<?x64xf32>', got 'tensor<4x64xf32>'}}
  %0:2 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w) also([normed])
           rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>)
       -> (tensor<?x64xf32>, tensor<4x64xf32>)
  return
}

// -----

func.func @act_type(%x: tensor<?x64xf32>) {
  // expected-error @below {{result 'act' must be 'tensor<?x64xbf16>', got 'tensor<?x64xf32>'}}
  %0:2 = fuse.act_quantize %x act(silu) also([act]) scales(i8, hidden = 1.0)
           rounding(exact types {act = bf16})
     : (tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x64xf32>)
  return
}

// -----

func.func @quantized_norm_type(%x: tensor<?x64xf32>) {
  // expected-error @below {{result 'quantized' must be 'tensor<?x64xi8>', got 'tensor<?x64xf8E4M3FN>'}}
  %0 = fuse.norm_quantize %x norm(rms eps 1.0e-6) scales(i8, input = 1.0)
         rounding(exact)
     : (tensor<?x64xf32>) -> tensor<?x64xf8E4M3FN>
  return
}

// -----

func.func @quantized_act_type(%x: tensor<?x64xf32>) {
  // expected-error @below {{result 'quantized' must be 'tensor<?x64xi8>', got 'tensor<?x64xf32>'}}
  %0 = fuse.act_quantize %x act(silu) scales(i8, hidden = 1.0) rounding(exact)
     : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

func.func @quantized_without_scales(%x: tensor<?x64xbf16>,
                                    %w: tensor<64x64xi8>) {
  // expected-error @below {{with quantized members needs 'scales'}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @scales_without_quantized(%x: tensor<?x64xbf16>,
                                    %w: tensor<64x64xbf16>) {
  // expected-error @below {{has 'scales' but no quantized member}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu)
         scales(i8, input = 1.0, up = 1.0, hidden = 1.0, down = 1.0)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @unknown_scale(%x: tensor<?x64xbf16>, %w: tensor<64x64xi8>) {
  // expected-error @below {{unknown scale 'gate'; expected input, up, hidden, down}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu)
         scales(i8, input = 1.0, gate = 1.0, up = 1.0, hidden = 1.0, down = 1.0)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @missing_scale(%x: tensor<?x64xbf16>, %w: tensor<64x64xi8>) {
  // expected-error @below {{missing scale 'weight1'; expected input, weight0, weight1}}
  %0:2 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w, %w)
           scales(i8, input = 1.0, weight0 = 1.0) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>)
       -> (tensor<?x64xbf16>, tensor<?x64xbf16>)
  return
}

// -----

func.func @activation_per_channel(%x: tensor<?x64xbf16>,
                                  %w: tensor<64x64xi8>, %s: tensor<64xf32>) {
  // expected-error @below {{scale 'hidden' of an activation must be a number, not per_channel}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) channel_scales(%s)
         scales(i8, input = 1.0, up = 1.0, hidden = per_channel, down = 1.0)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>, tensor<64xf32>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @too_few_channel_scales(%x: tensor<?x64xbf16>,
                                  %w: tensor<64x64xi8>, %s: tensor<64xf32>) {
  // expected-error @below {{expected 2 'channel_scales', one per scale given per_channel, got 1}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) channel_scales(%s)
         scales(i8, input = 1.0, up = per_channel, hidden = 1.0,
                down = per_channel)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>, tensor<64xf32>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @channel_scales_of_floats(%x: tensor<?x64xbf16>,
                                    %w: tensor<64x64xbf16>,
                                    %s: tensor<64xf32>) {
  // expected-error @below {{expected 0 'channel_scales', one per scale given per_channel, got 1}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) channel_scales(%s) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>,
        tensor<64xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func @channel_scale_size(%x: tensor<?x64xbf16>, %w: tensor<64x64xi8>,
                              %s: tensor<32xf32>) {
  // expected-error @below {{member 'down': 'channel_scale' must have one entry per output (64), got 'tensor<32xf32>'}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) channel_scales(%s)
         scales(i8, input = 1.0, up = 1.0, hidden = 1.0, down = per_channel)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>, tensor<32xf32>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @one_float_weight(%x: tensor<?x64xbf16>, %w: tensor<64x64xi8>,
                            %v: tensor<64x64xbf16>) {
  // expected-error @below {{member 'down': 'x' and 'weight' must have the same element type or both an 8-bit float, got 'i8' and 'bf16'}}
  %0 = fuse.mlp %x up(%w) down(%v) act(silu)
         scales(i8, input = 1.0, up = 1.0, hidden = 1.0, down = 1.0)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xbf16>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @one_float_weight_qdq(%x: tensor<?x64xbf16>, %w: tensor<64x64xi8>,
                                %v: tensor<64x64xbf16>) {
  // expected-error @below {{member 'down': 'weight' must be quantized like its input, got 'tensor<64x64xbf16>'}}
  %0 = fuse.mlp %x up(%w) down(%v) act(silu)
         scales(i8, input = 1.0, up = 1.0, hidden = 1.0, down = 1.0, form = qdq)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xbf16>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @form_without_linear(%x: tensor<?x64xbf16>) {
  // expected-error @below {{has no linear, so 'scales' has no form}}
  %0 = fuse.act_quantize %x act(silu) scales(i8, hidden = 1.0, form = qdq)
         rounding(exact)
     : (tensor<?x64xbf16>) -> tensor<?x64xi8>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Rounding and provenance
//===----------------------------------------------------------------------===//

func.func @skipped_point(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{has no rounding point 'product'; it has stream, normed, dequantized, up, act, down}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(relaxed skip [product])
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @typed_absent(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // A skipped point may be absent from the chain. A point with a type must
  // exist.
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(relaxed skip [stream])
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  // expected-error @below {{has a type for rounding point 'stream', where it has no member}}
  %1 = fuse.mlp %x up(%w) down(%w) act(silu)
         rounding(exact types {stream = bf16})
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @typed_down(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // The result of down is a rounding point only if an add follows.
  // expected-error @below {{has a type for rounding point 'down', where it has no member}}
  %0 = fuse.gated_mlp %x gate(%w) up(%w) down(%w) act(silu)
         rounding(exact types {down = bf16})
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>,
        tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @typed_product(%x: tensor<?x64xf32>) {
  // expected-error @below {{has a type for rounding point 'product', where it has no member}}
  %0 = fuse.act_quantize %x act(silu) scales(i8, hidden = 0.1)
         rounding(exact types {product = bf16})
     : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @typed_normed(%x: tensor<?x64xf32>, %w: tensor<64x64xbf16>) {
  // expected-error @below {{has a type for rounding point 'dequantized', where it has no member}}
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w)
         rounding(exact types {normed = bf16, dequantized = bf16})
     : (tensor<?x64xf32>, tensor<64x64xbf16>) -> tensor<?x64xf32>
  return
}

// -----

func.func @typed_point(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{has no rounding point 'up'; it has stream, normed, dequantized}}
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w)
         rounding(exact types {up = bf16})
     : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @too_many_places(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{provenance has 4 places for 3 members}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
         provenance(places = [0, 1, 2, 3])
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @too_few_attributes(%x: tensor<?x64xf32>, %u: tensor<?x64xf32>) {
  // expected-error @below {{provenance has 2 attributes for 3 members}}
  %0 = fuse.act_quantize %x times(%u) act(silu) scales(i8, hidden = 1.0)
         rounding(exact) provenance(attributes = [{}, {}])
     : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

// Provenance contains only discardable attributes.
func.func @inherent_attribute(%x: tensor<?x64xf32>) {
  // expected-error @below {{member 'norm': attribute "eps" in provenance is not a discardable one}}
  %0 = fuse.norm_quantize %x norm(rms eps 1.0e-6) scales(i8, input = 1.0)
         rounding(exact) provenance(attributes = [{eps = 2.0}, {}])
     : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @commuted_linear(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{has no member 'down' with operands to commute}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact)
         provenance(commuted = [down])
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @commuted_absent_member(%x: tensor<?x64xf32>) {
  // expected-error @below {{has no member 'product' with operands to commute}}
  %0 = fuse.act_quantize %x act(silu) scales(i8, hidden = 1.0)
         rounding(exact) provenance(commuted = [product])
     : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @weight_only_input(%x: tensor<?x64xbf16>, %w: tensor<64x64xi8>) {
  // expected-error @below {{unknown scale 'input'; expected up, down}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu)
         scales(i8, input = 1.0, up = 1.0, down = 1.0, form = weight_only)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @weight_only_type(%x: tensor<?x64xbf16>, %w: tensor<64x64xi8>,
                            %v: tensor<64x64xf8E4M3FN>) {
  // expected-error @below {{member 'down': 'weight' must be stored as 'i8', got 'tensor<64x64xf8E4M3FN>'}}
  %0 = fuse.mlp %x up(%w) down(%v) act(silu)
         scales(i8, up = 1.0, down = 1.0, form = weight_only) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xf8E4M3FN>)
       -> tensor<?x64xbf16>
  return
}

// -----

func.func @weight_only_quantize(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>) {
  // expected-error @below {{has no linear, so 'scales' has no form}}
  %0 = fuse.norm_quantize %x norm(rms %w eps 1.0e-6)
         scales(i8, form = weight_only) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xi8>
  return
}

// -----

func.func @no_bias(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>) {
  // expected-error @below {{has no bias to add after rounding}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu)
         rounding(exact bias after_rounding)
     : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
       -> tensor<?x64xbf16>
  return
}
