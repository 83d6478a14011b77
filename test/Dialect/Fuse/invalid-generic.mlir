// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// The generic syntax can express invalid ops that the custom syntax cannot. The
// verifier reports them before accessors rely on valid ops.

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

func.func @no_kind(%x: tensor<?x64xf32>) {
  // expected-error @below {{'fuse.activation' op requires attribute 'kind'}}
  %0 = "fuse.activation"(%x) : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @kind_is_a_string(%x: tensor<?x64xf32>) {
  // expected-error @below {{Invalid attribute `kind` in property conversion: "silu"}}
  %0 = "fuse.activation"(%x) <{kind = "silu"}>
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @unknown_kind(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected ::fuse::Activation to be one of: silu, gelu, gelu_tanh, relu, relu2, quick_gelu}}
  // expected-error @below {{failed to parse Fuse_ActivationAttr parameter 'value'}}
  %0 = "fuse.activation"(%x) <{kind = #fuse.activation<swish>}>
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @eps_is_an_integer(%x: tensor<?x64xf32>) {
  // expected-error @below {{Invalid attribute `eps` in property conversion: 1 : i64}}
  %0 = "fuse.rms_norm"(%x) <{eps = 1 : i64}>
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @eps_is_f32(%x: tensor<?x64xf32>) {
  // expected-error @below {{attribute 'eps' failed to satisfy constraint: 64-bit float attribute}}
  %0 = "fuse.rms_norm"(%x) <{eps = 1.0 : f32}>
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @offset_is_i32(%x: tensor<?x64xf32>) {
  // expected-error @below {{attribute 'offset' failed to satisfy constraint: 64-bit signless integer attribute}}
  %0 = "fuse.rms_norm"(%x) <{eps = 1.0 : f64, offset = 1 : i32}>
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @scale_is_f32(%x: tensor<?x64xf32>) {
  // expected-error @below {{attribute 'scale' failed to satisfy constraint: 64-bit float attribute}}
  %0 = "fuse.quantize"(%x) <{scale = 1.0 : f32}>
    : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

// The syntax of linears would drop this scale.
func.func @weight_scale_of_floats(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{with floating-point operands does not support scales}}
  %0 = "fuse.linear"(%x, %w)
    <{operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>, weight_scale = 1.0 : f64}>
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @no_rounding(%x: tensor<?x64xf32>) {
  // expected-error @below {{'fuse.act_quantize' op requires attribute 'rounding'}}
  %0 = "fuse.act_quantize"(%x)
    <{activation = #fuse.activation<silu>,
      scales = #fuse.static_scales<i8, hidden = 1.0>}>
    : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @no_scales(%x: tensor<?x64xf32>) {
  // expected-error @below {{with quantized members needs 'scales'}}
  %0 = "fuse.act_quantize"(%x)
    <{activation = #fuse.activation<silu>, rounding = #fuse.rounding<exact>}>
    : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @extras_are_numbers(%x: tensor<?x64xf32>) {
  // expected-error @below {{attribute 'extras' failed to satisfy constraint: array of rounding points}}
  %0 = "fuse.act_quantize"(%x)
    <{activation = #fuse.activation<silu>, extras = [1],
      rounding = #fuse.rounding<exact>,
      scales = #fuse.static_scales<i8, hidden = 1.0>}>
    : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @rounding_is_a_string(%x: tensor<?x64xf32>) {
  // expected-error @below {{Invalid attribute `rounding` in property conversion: "exact"}}
  %0 = "fuse.act_quantize"(%x)
    <{activation = #fuse.activation<silu>, rounding = "exact",
      scales = #fuse.static_scales<i8, hidden = 1.0>}>
    : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

func.func @no_operands() {
  // expected-error @below {{'fuse.linear' op expected 2 or more operands, but found 0}}
  %0 = "fuse.linear"() <{operandSegmentSizes = array<i32: 0, 0, 0, 0, 0>}>
    : () -> tensor<?x64xf32>
  return
}

// -----

func.func @no_segments(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{operand count (2) does not match with the total size (0) specified in attribute 'operandSegmentSizes'}}
  %0 = "fuse.linear"(%x, %w)
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @negative_segment(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{'operandSegmentSizes' attribute cannot have negative elements}}
  %0 = "fuse.linear"(%x, %w)
    <{operandSegmentSizes = array<i32: 1, 2, -1, 0, 0>}>
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @too_few_segments(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{size mismatch in attribute conversion: 2 vs 5}}
  %0 = "fuse.linear"(%x, %w) <{operandSegmentSizes = array<i32: 1, 1>}>
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @two_biases(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>,
                      %b: tensor<64xf32>) {
  // expected-error @below {{operand group starting at #2 requires 0 or 1 element, but found 2}}
  %0 = "fuse.linear"(%x, %w, %b, %b)
    <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 0>}>
    : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64xf32>, tensor<64xf32>)
      -> tensor<?x64xf32>
  return
}

// -----

func.func @no_weight(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{'fuse.linear' op needs one operand 'weight', got 0}}
  %0 = "fuse.linear"(%x, %w) <{operandSegmentSizes = array<i32: 1, 0, 1, 0, 0>}>
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @two_inputs_no_weight(%x: tensor<?x64xf32>) {
  // expected-error @below {{'fuse.linear' op needs one operand 'x', got 2}}
  %0 = "fuse.linear"(%x, %x) <{operandSegmentSizes = array<i32: 2, 0, 0, 0, 0>}>
    : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @no_input_of_norm(%w: tensor<64xf32>) {
  // expected-error @below {{'fuse.layer_norm' op needs one operand 'x', got 0}}
  %0 = "fuse.layer_norm"(%w, %w)
    <{eps = 1.0, operandSegmentSizes = array<i32: 0, 1, 1>}>
    : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return
}

// -----

func.func @no_gate(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{'fuse.gated_mlp' op needs one operand 'gate', got 0}}
  %0 = "fuse.gated_mlp"(%x, %x, %w, %w)
    <{activation = #fuse.activation<silu>,
      operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0>,
      rounding = #fuse.rounding<exact>}>
    : (tensor<?x64xf32>, tensor<?x64xf32>, tensor<64x64xf32>,
       tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @two_downs(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{'fuse.mlp' op needs one operand 'up', got 0}}
  %0 = "fuse.mlp"(%x, %w, %w)
    <{activation = #fuse.activation<silu>,
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 2, 0, 0, 0>,
      rounding = #fuse.rounding<exact>}>
    : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
      -> tensor<?x64xf32>
  return
}

// -----

func.func @no_input_of_norm_linear(%w: tensor<64x64xf32>) {
  // expected-error @below {{'fuse.norm_linear' op needs one operand 'x', got 0}}
  %0 = "fuse.norm_linear"(%w)
    <{bias_mask = array<i1: false>,
      norm = #fuse.norm<rms, eps = 1.0, offset = 0, cast = before_weight>,
      operandSegmentSizes = array<i32: 0, 0, 0, 0, 1, 0, 0>,
      rounding = #fuse.rounding<exact>}>
    : (tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @no_input_of_norm_quantize(%n: tensor<64xf32>) {
  // expected-error @below {{'fuse.norm_quantize' op needs one operand 'x', got 0}}
  %0 = "fuse.norm_quantize"(%n)
    <{norm = #fuse.norm<rms, eps = 1.0, offset = 0, cast = before_weight>,
      operandSegmentSizes = array<i32: 0, 0, 1, 0>,
      rounding = #fuse.rounding<exact>,
      scales = #fuse.static_scales<i8, input = 1.0>}>
    : (tensor<64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @no_norm(%x: tensor<?x64xf32>) {
  // expected-error @below {{'fuse.norm_quantize' op requires attribute 'norm'}}
  %0 = "fuse.norm_quantize"(%x)
    <{operandSegmentSizes = array<i32: 1, 0, 0, 0>,
      rounding = #fuse.rounding<exact>,
      scales = #fuse.static_scales<i8, input = 1.0>}>
    : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @norm_weight_without_norm(%x: tensor<?x64xf32>, %n: tensor<64xf32>,
                                    %w: tensor<64x64xf32>) {
  // expected-error @below {{has the weight of a norm but no norm}}
  %0 = "fuse.mlp"(%x, %n, %w, %w)
    <{activation = #fuse.activation<silu>,
      operandSegmentSizes = array<i32: 1, 0, 1, 0, 1, 0, 1, 0, 0, 0>,
      rounding = #fuse.rounding<exact>}>
    : (tensor<?x64xf32>, tensor<64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
      -> tensor<?x64xf32>
  return
}

// -----

func.func @norm_bias_without_weight(%x: tensor<?x64xf32>, %n: tensor<64xf32>) {
  // expected-error @below {{has the bias of a norm but no weight}}
  %0 = "fuse.norm_quantize"(%x, %n)
    <{norm = #fuse.norm<layer, eps = 1.0, offset = 0, cast = before_weight>,
      operandSegmentSizes = array<i32: 1, 0, 0, 1>,
      rounding = #fuse.rounding<exact>,
      scales = #fuse.static_scales<i8, input = 1.0>}>
    : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xi8>
  return
}

// -----

func.func @no_linear(%x: tensor<?x64xf32>) {
  // expected-error @below {{'fuse.norm_linear' op needs at least one linear}}
  "fuse.norm_linear"(%x)
    <{bias_mask = array<i1>,
      norm = #fuse.norm<rms, eps = 1.0, offset = 0, cast = before_weight>,
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0>,
      rounding = #fuse.rounding<exact>}>
    : (tensor<?x64xf32>) -> ()
  return
}

// -----

func.func @bias_mask_size(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{bias_mask must have one entry per linear (1) and one true entry per bias (0)}}
  %0 = "fuse.norm_linear"(%x, %w)
    <{bias_mask = array<i1: false, false>,
      norm = #fuse.norm<rms, eps = 1.0, offset = 0, cast = before_weight>,
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 1, 0, 0>,
      rounding = #fuse.rounding<exact>}>
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @bias_mask_without_bias(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) {
  // expected-error @below {{bias_mask must have one entry per linear (1) and one true entry per bias (0)}}
  %0 = "fuse.norm_linear"(%x, %w)
    <{bias_mask = array<i1: true>,
      norm = #fuse.norm<rms, eps = 1.0, offset = 0, cast = before_weight>,
      operandSegmentSizes = array<i32: 1, 0, 0, 0, 1, 0, 0>,
      rounding = #fuse.rounding<exact>}>
    : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

func.func @no_result(%x: tensor<?x64xf32>) {
  // expected-error @below {{'fuse.activation' op requires one result}}
  "fuse.activation"(%x) <{kind = #fuse.activation<silu>}>
    : (tensor<?x64xf32>) -> ()
  return
}

// -----

func.func @no_results_of_fused_op(%x: tensor<?x64xf32>) {
  // expected-error @below {{expected 1 results (1 and those of 'also'), got 0}}
  "fuse.act_quantize"(%x)
    <{activation = #fuse.activation<silu>, rounding = #fuse.rounding<exact>,
      scales = #fuse.static_scales<i8, hidden = 1.0>}>
    : (tensor<?x64xf32>) -> ()
  return
}

// -----

func.func @empty_extras(%x: tensor<?x64xf32>) {
  // expected-error @below {{names no result in 'also'}}
  %0 = "fuse.act_quantize"(%x)
    <{activation = #fuse.activation<silu>, extras = [],
      rounding = #fuse.rounding<exact>,
      scales = #fuse.static_scales<i8, hidden = 1.0>}>
    : (tensor<?x64xf32>) -> tensor<?x64xi8>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

func.func @no_region() {
  // expected-error @below {{'fuse.group' op requires one region}}
  "fuse.group"() <{rounding = #fuse.rounding<exact>}> : () -> ()
  return
}

// -----

func.func @no_block() {
  // expected-error @below {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
  "fuse.group"() <{rounding = #fuse.rounding<exact>}> ({}) : () -> ()
  return
}

// -----

func.func @empty_block() {
  // expected-error @below {{'fuse.group' op expects a non-empty block}}
  "fuse.group"() <{rounding = #fuse.rounding<exact>}> ({
  ^bb0:
  }) : () -> ()
  return
}

// -----

func.func @unregistered_terminator() {
  // expected-error @below {{body must end with fuse.yield}}
  "fuse.group"() <{rounding = #fuse.rounding<exact>}> ({
    "ub.unreachable"() : () -> ()
  }) : () -> ()
  return
}
