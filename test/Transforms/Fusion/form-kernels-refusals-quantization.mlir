// RUN: fuse-opt %s --fuse-form-kernels -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark -o /dev/null
// RUN: fuse-opt %s --fuse-check-unfuse -split-input-file -o /dev/null
// RUN: fuse-opt %s --fuse-repair-scales=inputs=largest --fuse-form-kernels \
// RUN:   -split-input-file | FileCheck %s --check-prefix=REPAIRED

// Refusals of quantized chains. In each, the hidden value still forms an
// act_quantize, or a chain with consistent quantization forms an MLP.

// Only the hidden value is quantized. An act_quantize forms, and the remark
// explains why it is not an MLP.

func.func @mixed(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                 %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] mixed#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] mixed#0{{.*}}a larger kernel stopped at fuse.linear: FUSE-N006 mixed-quantization}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

func.func @quantized_elsewhere(%q: tensor<?x8xi8>, %w1: tensor<16x8xi8>,
                               %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] quantized_elsewhere#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] quantized_elsewhere#0{{.*}}FUSE-N007 input-not-quantized-here}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// The scale of the linear is the inverse of that of the quantize op.

func.func @inverted(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                    %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(2.0, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] inverted#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] inverted#0{{.*}}a larger kernel stopped at fuse.linear: FUSE-N008 scale-mismatch}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// One linear reads stored values, the other dequantized ones.

func.func @one_form(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                    %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] one_form#0{{.*}}Family=mlp}}
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %xd = fuse.dequantize %q scale 0.5 : (tensor<?x8xi8>) -> tensor<?x8xbf16>
  %w1d = fuse.dequantize %w1 scale 0.25 : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %u = fuse.linear %xd, %w1d
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %hd = fuse.dequantize %h scale 0.5 : (tensor<?x16xi8>) -> tensor<?x16xbf16>
  %w2d = fuse.dequantize %w2 scale 0.25 : (tensor<8x16xi8>) -> tensor<8x16xbf16>
  %d = fuse.linear %hd, %w2d
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

func.func @two_forms(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                     %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] two_forms#1{{.*}}Family=fused_linear}}
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %xd = fuse.dequantize %q scale 0.5 : (tensor<?x8xi8>) -> tensor<?x8xbf16>
  %w1d = fuse.dequantize %w1 scale 0.25 : (tensor<16x8xi8>) -> tensor<16x8xbf16>
  %u = fuse.linear %xd, %w1d
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] two_forms#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] two_forms#0{{.*}}FUSE-N009 quantization-styles-differ}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// Dynamic scales are unknown until run time, so chains with them form no MLP.

func.func @static_scales(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                         %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] static_scales#0{{.*}}Family=mlp}}
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// A dynamic scale of the hidden value depends on all of its elements.

func.func @dynamic_hidden(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                          %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] dynamic_hidden#1{{.*}}Family=fused_linear}}
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Missed] dynamic_hidden#0{{.*}}At=fuse.dynamic_quantize{{.*}}FUSE-N017 dynamic-scale}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h, %s = fuse.dynamic_quantize per_token %a
    : (tensor<?x16xbf16>) -> (tensor<?x16xi8>, tensor<?xf32>)
  %d = fuse.linear %h, %w2 dynamic_scale(%s) scales(dynamic, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>, tensor<?xf32>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

func.func @dynamic_input(%q: tensor<?x8xi8>, %s: tensor<?xf32>,
                         %w1: tensor<16x8xi8>, %w2: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %u = fuse.linear %q, %w1 dynamic_scale(%s) scales(dynamic, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>, tensor<?xf32>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Missed] dynamic_input#0{{.*}}At=fuse.linear{{.*}}FUSE-N017 dynamic-scale}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

func.func @dynamic_norm(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>)
    -> tensor<?x16xbf16> {
  // expected-remark-re @below {{[Missed] dynamic_norm#0{{.*}}FUSE-N017 dynamic-scale}}
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %q, %s = fuse.dynamic_quantize per_tensor %n
    : (tensor<?x8xbf16>) -> (tensor<?x8xi8>, tensor<1xf32>)
  %u = fuse.linear %q, %w dynamic_scale(%s) scales(dynamic, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>, tensor<1xf32>) -> tensor<?x16xbf16>
  return %u : tensor<?x16xbf16>
}

// -----

// Weights can have one scale per output channel; activations have one scale.

func.func @weights(%x: tensor<8x8xbf16>, %s: tensor<8xf32>,
                   %w: tensor<8x8xi8>) -> tensor<8x8xbf16> {
  // expected-remark-re @below {{[Passed] weights#0{{.*}}Family=mlp}}
  %q = fuse.quantize %x scale 0.5 : (tensor<8x8xbf16>) -> tensor<8x8xi8>
  %u = fuse.linear %q, %w channel_scale(%s) scales(0.5, per_channel)
    : (tensor<8x8xi8>, tensor<8x8xi8>, tensor<8xf32>) -> tensor<8x8xbf16>
  %a = fuse.activation silu %u : tensor<8x8xbf16> -> tensor<8x8xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<8x8xbf16>) -> tensor<8x8xi8>
  %d = fuse.linear %h, %w scales(0.5, 0.25)
    : (tensor<8x8xi8>, tensor<8x8xi8>) -> tensor<8x8xbf16>
  return %d : tensor<8x8xbf16>
}

func.func @activations(%x: tensor<8x8xbf16>, %s: tensor<8xf32>,
                       %w: tensor<8x8xi8>) -> tensor<8x8xbf16> {
  %q = fuse.quantize %x channel_scale(%s)
    : (tensor<8x8xbf16>, tensor<8xf32>) -> tensor<8x8xi8>
  %u = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<8x8xi8>, tensor<8x8xi8>) -> tensor<8x8xbf16>
  // expected-remark-re @below {{[Passed] activations#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] activations#0{{.*}}a larger kernel stopped at fuse.quantize: FUSE-N018 input-scale-not-one-number}}
  %a = fuse.activation silu %u : tensor<8x8xbf16> -> tensor<8x8xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<8x8xbf16>) -> tensor<8x8xi8>
  %d = fuse.linear %h, %w scales(0.5, 0.25)
    : (tensor<8x8xi8>, tensor<8x8xi8>) -> tensor<8x8xbf16>
  return %d : tensor<8x8xbf16>
}

// -----

// Gate and up quantize one value. With one scale, they share the quantize op.
// With two scales, the MLP is refused unless fuse-repair-scales=inputs=largest
// unifies them.

func.func @shared(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>,
                  %v: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] shared#0{{.*}}Family=gated_mlp}}
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %g = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %v scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// REPAIRED-LABEL: func @apart
// REPAIRED: fuse.gated_mlp
// REPAIRED-SAME: scales(i8, input = 0.75,
func.func @apart(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>,
                 %v: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] apart#1{{.*}}Family=fused_linear}}
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %g = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] apart#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] apart#0{{.*}}FUSE-N019 input-scales-differ}}
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] apart#2{{.*}}Family=fused_linear}}
  %q2 = fuse.quantize %x scale 0.75 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q2, %w scales(0.75, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %v scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// Both activations of a kernel have the same storage type.

func.func @one_type(%x: tensor<?x8xbf16>, %w1: tensor<16x8xf8E4M3FN>,
                    %w2: tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] one_type#0{{.*}}Family=mlp}}
  %q = fuse.quantize %x scale 0.5
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

func.func @two_types(%x: tensor<?x8xbf16>, %w1: tensor<16x8xf8E4M3FN>,
                     %w2: tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] two_types#1{{.*}}Family=fused_linear}}
  %q = fuse.quantize %x scale 0.5
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] two_types#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] two_types#0{{.*}}FUSE-N020 storage-types-differ}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xf8E5M2>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xf8E5M2>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// Gate and up quantize one value to different types.

func.func @gate_and_up(%x: tensor<?x8xbf16>, %w: tensor<16x8xf8E4M3FN>,
                       %w3: tensor<16x8xf8E5M2>,
                       %v: tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] gate_and_up#1{{.*}}Family=fused_linear}}
  %q = fuse.quantize %x scale 0.5
    : (tensor<?x8xbf16>) -> tensor<?x8xf8E4M3FN>
  %g = fuse.linear %q, %w scales(0.5, 0.25)
    : (tensor<?x8xf8E4M3FN>, tensor<16x8xf8E4M3FN>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] gate_and_up#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] gate_and_up#0{{.*}}stopped at fuse.linear: FUSE-N020 storage-types-differ: the linears read values that are stored in different types}}
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] gate_and_up#2{{.*}}Family=fused_linear}}
  %q3 = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xf8E5M2>
  %u = fuse.linear %q3, %w3 scales(0.5, 0.25)
    : (tensor<?x8xf8E5M2>, tensor<16x8xf8E5M2>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %h = fuse.quantize %p scale 0.5
    : (tensor<?x16xbf16>) -> tensor<?x16xf8E4M3FN>
  %d = fuse.linear %h, %v scales(0.5, 0.25)
    : (tensor<?x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// A kernel has one division order.

func.func @one_order(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                     %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] one_order#0{{.*}}Family=mlp}}
  %q = fuse.quantize %x scale 0.5 order divide
    : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 order divide
    : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

func.func @two_orders(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                      %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Passed] two_orders#1{{.*}}Family=fused_linear}}
  %q = fuse.quantize %x scale 0.5 order divide
    : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Passed] two_orders#0{{.*}}Family=act_quantize}}
  // expected-remark-re @below {{[Analysis] two_orders#0{{.*}}FUSE-N021 division-orders-differ}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
