// RUN: fuse-opt %s --fuse-form-kernels -split-input-file \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -split-input-file -o /dev/null

// One case per predicate: a site that fails it, named with its id, the op at
// which it failed and what to do.

// CHECK: [Missed] not_linear#0
// CHECK-SAME: At=fuse.activation
// CHECK-SAME: FUSE-N001 activation-input-not-linear
// CHECK-SAME: Suggestion="check that the projection was raised to fuse.linear"
func.func @not_linear(%x: tensor<?x16xbf16>, %w: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %a = fuse.activation silu %x : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// CHECK: [Missed] other_user#0
// CHECK-SAME: At=func.return
// CHECK-SAME: FUSE-N002 intermediate-has-other-users
func.func @other_user(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                      %w2: tensor<8x16xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x16xbf16>) {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d, %u : tensor<?x8xbf16>, tensor<?x16xbf16>
}

// -----

// CHECK: [Missed] partner#0
// CHECK-SAME: At=fuse.gated_mul
// CHECK-SAME: FUSE-N003 gate-partner-not-linear
func.func @partner(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                   %w2: tensor<8x16xbf16>, %u: tensor<?x16xbf16>)
    -> tensor<?x8xbf16> {
  %g = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = fuse.linear %p, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// CHECK: [Missed] two_inputs#0
// CHECK-SAME: At=fuse.linear
// CHECK-SAME: FUSE-N004 gate-and-up-inputs-differ
func.func @two_inputs(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>,
                      %w1: tensor<16x8xbf16>, %w2: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %g = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %y, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = fuse.linear %p, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// CHECK: [Missed] no_down#0
// CHECK-SAME: At=func.return
// CHECK-SAME: FUSE-N005 no-down-projection
func.func @no_down(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>)
    -> tensor<?x16xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  return %a : tensor<?x16xbf16>
}

// -----

// Only the hidden value is quantized: the act_quantize is fused, and the
// remark says why it did not become an MLP.

// CHECK: [Passed] mixed#0
// CHECK-SAME: Family=act_quantize
// CHECK: [Analysis] mixed#0
// CHECK-SAME: a larger kernel stopped at fuse.linear: FUSE-N006
// CHECK-SAME: mixed-quantization
func.func @mixed(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                 %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// CHECK: [Analysis] quantized_elsewhere#0
// CHECK-SAME: FUSE-N007 input-not-quantized-here
func.func @quantized_elsewhere(%q: tensor<?x8xi8>, %w1: tensor<16x8xi8>,
                               %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// An inverted scale: quantized with 0.5, read with 2.

// CHECK: [Analysis] inverted#0
// CHECK-SAME: a larger kernel stopped at fuse.linear: FUSE-N008 scale-mismatch
func.func @inverted(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                    %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(2.0, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// CHECK: [Analysis] styles#0
// CHECK-SAME: FUSE-N009 quantization-styles-differ
func.func @styles(%x: tensor<?x8xbf16>, %w1: tensor<16x8xi8>,
                  %w2: tensor<8x16xi8>) -> tensor<?x8xbf16> {
  %q = fuse.quantize %x scale 0.5 order divide
    : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q, %w1 scales(0.5, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %h = fuse.quantize %a scale 0.5 : (tensor<?x16xbf16>) -> tensor<?x16xi8>
  %d = fuse.linear %h, %w2 scales(0.5, 0.25)
    : (tensor<?x16xi8>, tensor<8x16xi8>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// CHECK: [Missed] blocks#0
// CHECK-SAME: FUSE-N010 members-in-different-blocks
func.func @blocks(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                  %w2: tensor<8x16xbf16>, %c: i1) -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %y = scf.if %c -> tensor<?x8xbf16> {
    %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
    %d = fuse.linear %a, %w2
      : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
    scf.yield %d : tensor<?x8xbf16>
  } else {
    scf.yield %x : tensor<?x8xbf16>
  }
  return %y : tensor<?x8xbf16>
}

// -----

// The second weight depends on the first projection.

// CHECK: [Missed] late_operand#0
// CHECK-SAME: FUSE-N011 result-used-before-operands
func.func @late_operand(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %q = fuse.linear %n, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %w2 = tensor.extract_slice %q[0, 0] [8, 8] [1, 1]
    : tensor<?x8xbf16> to tensor<8x8xbf16>
  %k = fuse.linear %n, %w2
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %q, %k : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// -----

// The same with the sum in front: the kernel is formed without the add.

// CHECK: [Passed] early_stream#1
// CHECK-SAME: Members="norm, up, act, down"
// CHECK: [Analysis] early_stream#1
// CHECK-SAME: at tensor.extract_slice: FUSE-N011 result-used-before-operands
func.func @early_stream(%x: tensor<?x8xbf16>, %w1: tensor<8x8xbf16>)
    -> tensor<?x8xbf16> {
  %s = fuse.residual_add %x, %x
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %n = fuse.rms_norm %s eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %w2 = tensor.extract_slice %s[0, 0] [8, 8] [1, 1]
    : tensor<?x8xbf16> to tensor<8x8xbf16>
  %u = fuse.linear %n, %w1
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %a = fuse.activation silu %u : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %d = fuse.linear %a, %w2
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// CHECK: [Missed] lone_norm#0
// CHECK-SAME: FUSE-N012 no-consumer
func.func @lone_norm(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %n : tensor<?x8xbf16>
}

// -----

// A value of the chain as the weight of its own linear is no kernel.

// CHECK: [Missed] own_weight#0
// CHECK-SAME: FUSE-N015 not-reversible
func.func @own_weight(%x: tensor<16x16xbf16>, %w1: tensor<16x16xbf16>)
    -> tensor<16x16xbf16> {
  %n = fuse.rms_norm %x eps 1.0e-6
    : (tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %q = fuse.linear %n, %w1
    : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %k = fuse.linear %n, %q
    : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  return %k : tensor<16x16xbf16>
}
