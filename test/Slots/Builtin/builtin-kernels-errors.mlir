// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --fuse-bind-slots=default=fuse
// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --fuse-bind-slots=default=eager

// A kernel and its eager body serve the same slots, and say why they do not
// serve another.

// expected-error @below {{slot 's' (op=rms_norm, variant=standard) takes (x, weight), got 1 arguments}}
nn.slot @s op "rms_norm" variant "standard" params {eps = 1.0e-6 : f32}
    : (tensor<?x8xf32>) -> tensor<?x8xf32> {}
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// expected-error @below {{slot 's' (op=layer_norm, variant=standard) takes (x, weight?, bias?), got 0 arguments}}
nn.slot @s op "layer_norm" variant "standard" : () -> tensor<4x8xf32> {}
func.func @f() -> tensor<4x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s() : () -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{slot 's' (op=apply_rotary_pos_emb, variant=full) has 2 results, got 1}}
nn.slot @s op "apply_rotary_pos_emb" variant "full"
    : (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x5x8xf32>,
       tensor<1x5x8xf32>) -> tensor<1x2x5x8xf32> {}
func.func @f(%x: tensor<1x2x5x8xf32>, %c: tensor<1x5x8xf32>)
    -> tensor<1x2x5x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x, %x, %c, %c)
    : (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x5x8xf32>,
       tensor<1x5x8xf32>) -> tensor<1x2x5x8xf32>
  return %y : tensor<1x2x5x8xf32>
}

// -----

// expected-error @below {{slot 's' (op=rms_norm, variant=unweighted) needs a floating-point number as param 'eps'}}
nn.slot @s op "rms_norm" variant "unweighted"
    : (tensor<?x8xf32>) -> tensor<?x8xf32> {}
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// expected-error @below {{slot 's' (op=rms_norm, variant=unweighted) needs a floating-point number as param 'eps', got 1 : i64}}
nn.slot @s op "rms_norm" variant "unweighted" params {eps = 1 : i64}
    : (tensor<?x8xf32>) -> tensor<?x8xf32> {}
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// expected-error @below {{slot 's' (op=rms_norm, variant=unweighted) has an unknown param 'epsilon'; expected one of eps}}
nn.slot @s op "rms_norm" variant "unweighted"
    params {eps = 1.0 : f32, epsilon = 1.0 : f32}
    : (tensor<?x8xf32>) -> tensor<?x8xf32> {}
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// expected-error @below {{slot 's' (op=act_and_mul, variant=silu) has an unknown param 'eps'; it takes none}}
nn.slot @s op "act_and_mul" variant "silu" params {eps = 1.0 : f32}
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32> {}
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x, %x)
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// What the op of a kernel says about its operands holds for the slot.

// expected-error @below {{'weight' must have one entry per feature (8), got 'tensor<6xf32>'}}
nn.slot @s op "rms_norm" variant "standard" params {eps = 1.0e-6 : f32}
    : (tensor<?x8xf32>, tensor<6xf32>) -> tensor<?x8xf32> {}
func.func @f(%x: tensor<?x8xf32>, %w: tensor<6xf32>) -> tensor<?x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x, %w)
    : (tensor<?x8xf32>, tensor<6xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// expected-error @below {{operand #0 must be tensor without encoding of f16, bf16 or f32 values}}
nn.slot @s op "act_and_mul" variant "silu"
    : (tensor<?x8xf64>, tensor<?x8xf64>) -> tensor<?x8xf64> {}
func.func @f(%x: tensor<?x8xf64>) -> tensor<?x8xf64> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x, %x)
    : (tensor<?x8xf64>, tensor<?x8xf64>) -> tensor<?x8xf64>
  return %y : tensor<?x8xf64>
}

// -----

// expected-error @below {{slot 's' (op=act_and_mul, variant=silu) takes and returns ranked tensors, got 'f32'}}
nn.slot @s op "act_and_mul" variant "silu" : (f32, f32) -> f32 {}
func.func @f(%x: f32) -> f32 {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x, %x) : (f32, f32) -> f32
  return %y : f32
}

// -----

// expected-error @below {{slot 's' (op=apply_rotary_pos_emb, variant=full) turns all features, but 'cos' has 4 and an argument 8; use variant 'partial'}}
nn.slot @s op "apply_rotary_pos_emb" variant "full"
    : (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x5x4xf32>,
       tensor<1x5x4xf32>) -> (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) {}
func.func @f(%x: tensor<1x2x5x8xf32>, %c: tensor<1x5x4xf32>)
    -> tensor<1x2x5x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y:2 = nn.call_slot @s(%x, %x, %c, %c)
    : (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x5x4xf32>,
       tensor<1x5x4xf32>) -> (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>)
  return %y#0 : tensor<1x2x5x8xf32>
}

// -----

// expected-error @below {{slot 's' (op=apply_rotary_pos_emb, variant=partial) needs an integer as param 'unsqueeze_dim', got "1"}}
nn.slot @s op "apply_rotary_pos_emb" variant "partial"
    params {unsqueeze_dim = "1"}
    : (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x5x4xf32>,
       tensor<1x5x4xf32>) -> (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) {}
func.func @f(%x: tensor<1x2x5x8xf32>, %c: tensor<1x5x4xf32>)
    -> tensor<1x2x5x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y:2 = nn.call_slot @s(%x, %x, %c, %c)
    : (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x5x4xf32>,
       tensor<1x5x4xf32>) -> (tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>)
  return %y#0 : tensor<1x2x5x8xf32>
}

// -----

// expected-error @below {{'ignore_index' must be an i32 like the labels, got 4294967296}}
nn.slot @s op "cross_entropy_loss" variant "causal"
    params {ignore_index = 4294967296 : i64}
    : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<f32> {}
func.func @f(%x: tensor<4x8xf32>, %l: tensor<4xi32>) -> tensor<f32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x, %l)
    : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// expected-error @below {{slot 's' (op=moe_experts, variant=standard) has param 'act' = "relu"; expected one of "silu", "gelu", "gelu_tanh"}}
nn.slot @s op "moe_experts" variant "standard" params {act = "relu"}
    : (tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xf32>, tensor<3x12x8xf32>,
       tensor<3x8x6xf32>) -> tensor<?x8xf32> {}
func.func @f(%x: tensor<?x8xf32>, %i: tensor<?x2xi64>, %r: tensor<?x2xf32>,
             %u: tensor<3x12x8xf32>, %d: tensor<3x8x6xf32>)
    -> tensor<?x8xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x, %i, %r, %u, %d)
    : (tensor<?x8xf32>, tensor<?x2xi64>, tensor<?x2xf32>, tensor<3x12x8xf32>,
       tensor<3x8x6xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
