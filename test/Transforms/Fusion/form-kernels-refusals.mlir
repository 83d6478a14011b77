// RUN: fuse-opt %s --fuse-form-kernels -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -split-input-file -o /dev/null

// Refusals that do not depend on quantization, in the order of their ids. Every
// remark names the site, the op that failed the predicate, and a suggestion.

func.func @not_linear(%x: tensor<?x16xbf16>, %w: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Missed] not_linear#0{{.*}}At=fuse.activation{{.*}}FUSE-N001 activation-input-not-linear{{.*}}Suggestion="check that the projection was raised to fuse.linear"}}
  %a = fuse.activation silu %x : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

func.func @other_user(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                      %w2: tensor<8x16xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x16xbf16>) {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Missed] other_user#0{{.*}}At=func.return{{.*}}FUSE-N002 intermediate-has-other-users}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d, %u : tensor<?x8xbf16>, tensor<?x16xbf16>
}

// -----

func.func @partner(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                   %w2: tensor<8x16xbf16>, %u: tensor<?x16xbf16>)
    -> tensor<?x8xbf16> {
  %g = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Missed] partner#0{{.*}}At=fuse.gated_mul{{.*}}FUSE-N003 gate-partner-not-linear}}
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = fuse.linear %p, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

func.func @two_inputs(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>,
                      %w1: tensor<16x8xbf16>, %w2: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %g = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Missed] two_inputs#0{{.*}}At=fuse.linear{{.*}}FUSE-N004 gate-and-up-inputs-differ}}
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

func.func @no_down(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>)
    -> tensor<?x16xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Missed] no_down#0{{.*}}At=func.return{{.*}}FUSE-N005 no-down-projection}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  return %a : tensor<?x16xbf16>
}

// -----

func.func @blocks(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                  %w2: tensor<8x16xbf16>, %c: i1) -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %y = scf.if %c -> tensor<?x8xbf16> {
    // expected-remark-re @below {{[Missed] blocks#0{{.*}}FUSE-N010 members-in-different-blocks}}
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

func.func @late_operand(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  // expected-remark-re @below {{[Missed] late_operand#0{{.*}}FUSE-N011 result-used-before-operands}}
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

// An add before the norm is used before the operands exist. The kernel forms
// without the add.

func.func @early_stream(%x: tensor<?x8xbf16>, %w1: tensor<8x8xbf16>)
    -> tensor<?x8xbf16> {
  %s = fuse.residual_add %x, %x
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  // expected-remark-re @below {{[Passed] early_stream#1{{.*}}Members="norm, up, act, down"}}
  // expected-remark-re @below {{[Analysis] early_stream#1{{.*}}at tensor.extract_slice: FUSE-N011 result-used-before-operands}}
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

func.func @lone_norm(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  // expected-remark-re @below {{[Missed] lone_norm#0{{.*}}FUSE-N012 no-consumer}}
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %n : tensor<?x8xbf16>
}

// -----

// A result of the chain is the weight of one of its linears.

func.func @own_weight(%x: tensor<16x16xbf16>, %w1: tensor<16x16xbf16>)
    -> tensor<16x16xbf16> {
  // expected-remark-re @below {{[Missed] own_weight#0{{.*}}FUSE-N015 not-reversible}}
  %n = fuse.rms_norm %x eps 1.0e-6
    : (tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %q = fuse.linear %n, %w1
    : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %k = fuse.linear %n, %q
    : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  return %k : tensor<16x16xbf16>
}

// -----

// All biases of a kernel are added in the same place, which is part of its
// contract.

// CHECK-LABEL: func @after
// CHECK: fuse.mlp
// CHECK-SAME: rounding(exact bias after_rounding)
func.func @after(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>,
                 %b: tensor<8xbf16>) -> tensor<?x8xbf16> {
  // expected-remark @below {{[Passed] after#0}}
  %u = fuse.linear %x, %w bias(%b) added after_rounding
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %a = fuse.activation silu %u : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %d = fuse.linear %a, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>)
    -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

func.func @both(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>,
                %b: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w bias(%b) added after_rounding
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  // expected-remark-re @below {{[Missed] both#0{{.*}}At=fuse.linear{{.*}}FUSE-N022 bias-places-differ}}
  %a = fuse.activation silu %u : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %d = fuse.linear %a, %w bias(%b)
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// -----

// Each rank would add the bias of the down projection.

func.func @bias_before_sum(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                           %w2: tensor<8x16xbf16>, %b: tensor<8xbf16>)
    -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  // expected-remark-re @below {{[Missed] bias_before_sum#0{{.*}}At=fuse.all_reduce{{.*}}FUSE-N193 bias-before-reduction{{.*}}Suggestion="move the bias to 'bias' of fuse.all_reduce"}}
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w2 bias(%b)
    : (tensor<?x16xbf16>, tensor<8x16xbf16>, tensor<8xbf16>)
      -> tensor<?x8xf32>
  %y = fuse.all_reduce %d group("tp", 2) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}
