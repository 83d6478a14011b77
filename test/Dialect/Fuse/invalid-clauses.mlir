// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// Unknown keywords. Every error lists the known ones.

func.func @activation(%x: tensor<?x64xf32>) {
  // expected-error @below {{unknown activation 'swish'; expected one of silu, gelu, gelu_tanh, relu, relu2, quick_gelu}}
  %0 = fuse.activation swish %x : tensor<?x64xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @no_activation(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected valid keyword}}
  %0 = fuse.activation %x : tensor<?x64xf32> -> tensor<?x64xf32>
  return
}

// -----

func.func @activation_of_fused_op(%x: tensor<?x64xf32>) {
  // expected-error @below {{unknown activation 'gelu_new'; expected one of silu, gelu, gelu_tanh, relu, relu2, quick_gelu}}
  %0 = fuse.act_quantize %x act(gelu_new) scales(i8, hidden = 1.0)
         rounding(exact)
       : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @cast_order(%x: tensor<?x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{unknown cast order 'never'; expected one of before_weight, after_weight}}
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6 cast never
    : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @quantization_order(%x: tensor<?x64xf32>) {
  // expected-error @below {{unknown quantization order 'multiply'; expected one of reciprocal, divide}}
  %0 = fuse.quantize %x scale 1.0 order multiply
    : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @norm(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{unknown norm 'batch'; expected one of rms, layer}}
  %0 = fuse.mlp %x norm(batch eps 1.0e-6) up(%w) down(%w) act(silu)
         rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @no_eps(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected 'eps'}}
  %0 = fuse.rms_norm %x : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @eps_is_an_integer(%x: tensor<?x64xf32>) {
  // expected-error @below {{unexpected decimal integer literal for a floating point value}}
  // expected-note @below {{add a trailing dot to make the literal a float}}
  %0 = fuse.rms_norm %x eps 1 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @eps_out_of_range(%x: tensor<?x64xf32>) {
  // expected-error @below {{eps must be finite and not negative, got INF}}
  %0 = fuse.rms_norm %x eps 1.0e400 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @offset_out_of_range(%x: tensor<?x64xf32>, %w: tensor<64xf32>) {
  // expected-error @below {{integer value too large}}
  %0 = fuse.rms_norm %x weight(%w) eps 1.0 offset 99999999999999999999
    : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @linear_scales(%x: tensor<?x64xi8>, %w: tensor<64x64xi8>) {
  // expected-error @below {{expected ','}}
  %0 = fuse.linear %x, %w scales(1.0)
    : (tensor<?x64xi8>, tensor<64x64xi8>) -> tensor<?x64xf32>
  return
}

// -----

func.func @no_rounding(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  %0 = fuse.mlp %x up(%w) down(%w) act(silu)
     // expected-error @below {{expected 'rounding(exact)' or 'rounding(relaxed skip [...])'}}
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

// The order of clauses is fixed.
func.func @rounding_before_scales(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected ':'}}
  %0 = fuse.act_quantize %x act(relu) rounding(exact) scales(i8, hidden = 1.0)
       : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @site_is_a_number(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{invalid kind of attribute specified}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact) site(1)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

func.func @origins_are_numbers(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{attribute 'origins' failed to satisfy constraint: string array attribute}}
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact) origins([1, 2])
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// #fuse.norm
//===----------------------------------------------------------------------===//

// expected-error @below {{eps must be an f64, got 9.99999997E-7 : f32}}
#norm = #fuse.norm<rms, eps = 1.0e-6 : f32, offset = 0, cast = before_weight>

// -----

// expected-error @below {{offset of a layer norm must be 0, got 1}}
#norm = #fuse.norm<layer, eps = 1.0 : f64, offset = 1, cast = before_weight>

// -----

// expected-error @below {{a layer norm has no cast order, got after_weight}}
#norm = #fuse.norm<layer, eps = 1.0 : f64, offset = 0, cast = after_weight>

// -----

func.func @layer_norm_with_offset(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{offset of a layer norm must be 0, got 1}}
  %0 = fuse.mlp %x norm(layer eps 1.0e-6 offset 1) up(%w) down(%w) act(silu)
         rounding(exact)
     : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
       -> tensor<?x64xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// #fuse.rounding
//===----------------------------------------------------------------------===//

// expected-error @below {{unknown rounding mode 'fast'; expected one of exact, relaxed}}
#rounding = #fuse.rounding<fast>

// -----

// expected-error @below {{exact rounding skips nothing, got a list of 1 rounding points to skip}}
#rounding = #fuse.rounding<exact skip [act]>

// -----

// expected-error @below {{unknown rounding point 'hidden'; expected one of stream, normed, dequantized, gate, up, act, product, down}}
#rounding = #fuse.rounding<relaxed skip [hidden]>

// -----

// expected-error @below {{unknown rounding point 'hidden'; expected one of stream, normed, dequantized, gate, up, act, product, down}}
#rounding = #fuse.rounding<exact types {hidden = f32}>

// -----

// expected-error @below {{rounding point 'act' is given twice}}
#rounding = #fuse.rounding<relaxed skip [act, act]>

// -----

// expected-error @below {{rounding point 'act' is given twice}}
#rounding = #fuse.rounding<exact types {act = f32, act = f16}>

// -----

// expected-error @below {{rounding point 'act' must be f16, bf16 or f32, got f64}}
#rounding = #fuse.rounding<exact types {act = f64}>

// -----

//===----------------------------------------------------------------------===//
// #fuse.provenance
//===----------------------------------------------------------------------===//

// expected-error @below {{unknown provenance entry 'order'; expected one of places, before, commuted, attributes}}
#provenance = #fuse.provenance<order = [0]>

// -----

// expected-error @below {{provenance is empty; omit it if the chain was canonical}}
#provenance = #fuse.provenance<places = []>

// -----

// expected-error @below {{place of a member must be between 0 and 2^31 - 1, got -1}}
#provenance = #fuse.provenance<places = [0, -1]>

// -----

// expected-error @below {{place of a member must be between 0 and 2^31 - 1, got 2147483648}}
#provenance = #fuse.provenance<places = [0, 2147483648]>

// -----

// expected-error @below {{'before' must be between 0 and the number of ops between the members (2), got 3}}
#provenance = #fuse.provenance<places = [0, 3], before = 3>

// -----

// expected-error @below {{'before' must be between 0 and the number of ops between the members (2), got -1}}
#provenance = #fuse.provenance<places = [0, 3], before = -1>

// -----

// expected-error @below {{'before' must be between 0 and the number of ops between the members (0), got 1}}
#provenance = #fuse.provenance<before = 1, commuted = [product]>

// -----

// expected-error @below {{two members have place 2}}
#provenance = #fuse.provenance<places = [0, 2, 2]>

// -----

// expected-error @below {{the first member must have place 0}}
#provenance = #fuse.provenance<places = [1, 2]>

// -----

// expected-error @below {{unknown member 'adds'; expected one of residual, norm, quantize_input, dequantize_input, dequantize_gate, gate, act, dequantize_up, up, product, quantize_hidden, dequantize_hidden, dequantize_down, down, then_add, dequantize_weight, linear, member}}
#provenance = #fuse.provenance<commuted = [adds]>

// -----

// expected-error @below {{invalid kind of attribute specified}}
#provenance = #fuse.provenance<attributes = [1]>
