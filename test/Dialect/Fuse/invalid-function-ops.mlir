// RUN: fuse-opt %s -split-input-file -verify-diagnostics

func.func @rotary_empty(%x: tensor<2x3x5x0xf32>, %c: tensor<2x5x4xf32>) {
  // expected-error @below {{feature dimension of 'x' must not be empty, got 'tensor<2x3x5x0xf32>'}}
  %0 = fuse.rotary %x cos(%c) sin(%c)
    : (tensor<2x3x5x0xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32>)
      -> tensor<2x3x5x0xf32>
  return
}

// -----

func.func @rotary_dynamic(%x: tensor<2x3x5x8xf32>, %c: tensor<2x5x?xf32>) {
  // expected-error @below {{feature dimension of 'cos' must be static, got 'tensor<2x5x?xf32>'}}
  %0 = fuse.rotary %x cos(%c) sin(%c)
    : (tensor<2x3x5x8xf32>, tensor<2x5x?xf32>, tensor<2x5x?xf32>)
      -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @rotary_shapes(%x: tensor<2x3x5x8xf32>, %c: tensor<2x5x8xf32>,
                         %s: tensor<2x5x6xf32>) {
  // expected-error @below {{'cos' and 'sin' must have the same shape, got 'tensor<2x5x8xf32>' and 'tensor<2x5x6xf32>'}}
  %0 = fuse.rotary %x cos(%c) sin(%s)
    : (tensor<2x3x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x6xf32>)
      -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @rotary_types(%x: tensor<2x3x5x8xf32>, %c: tensor<2x5x8xf32>,
                        %s: tensor<2x5x8xf16>) {
  // expected-error @below {{'cos' and 'sin' must have the same element type, got 'f32' and 'f16'}}
  %0 = fuse.rotary %x cos(%c) sin(%s)
    : (tensor<2x3x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf16>)
      -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @rotary_result(%x: tensor<2x3x5x8xf32>, %c: tensor<2x5x8xf32>) {
  // expected-error @below {{'x' and 'y' must have the same shape, got 'tensor<2x3x5x8xf32>' and 'tensor<2x3x5x4xf32>'}}
  %0 = fuse.rotary %x cos(%c) sin(%c)
    : (tensor<2x3x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>)
      -> tensor<2x3x5x4xf32>
  return
}

// -----

func.func @rotary_rank(%x: tensor<2x3x5x8xf32>, %c: tensor<5x8xf32>) {
  // expected-error @below {{'cos' must have all dimensions of 'x' except 'heads', got 'tensor<2x3x5x8xf32>' and 'tensor<5x8xf32>'}}
  %0 = fuse.rotary %x cos(%c) sin(%c)
    : (tensor<2x3x5x8xf32>, tensor<5x8xf32>, tensor<5x8xf32>)
      -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @rotary_heads(%x: tensor<2x3x5x8xf32>, %c: tensor<2x5x8xf32>) {
  // expected-error @below {{'heads' must be a dimension of 'x' before the last, which is 3, got 3}}
  %0 = fuse.rotary %x cos(%c) sin(%c) heads 3
    : (tensor<2x3x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>)
      -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @rotary_negative_heads(%x: tensor<2x3x5x8xf32>,
                                 %c: tensor<2x5x8xf32>) {
  // expected-error @below {{'heads' must be a dimension of 'x' before the last, which is 3, got -1}}
  %0 = fuse.rotary %x cos(%c) sin(%c) heads -1
    : (tensor<2x3x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>)
      -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @rotary_odd(%x: tensor<2x3x5x8xf32>, %c: tensor<2x5x7xf32>) {
  // expected-error @below {{'cos' must have an even number of features, got 7}}
  %0 = fuse.rotary %x cos(%c) sin(%c)
    : (tensor<2x3x5x8xf32>, tensor<2x5x7xf32>, tensor<2x5x7xf32>)
      -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @rotary_wide(%x: tensor<2x3x5x8xf32>, %c: tensor<2x5x16xf32>) {
  // expected-error @below {{'cos' has 16 features, 'x' has 8}}
  %0 = fuse.rotary %x cos(%c) sin(%c)
    : (tensor<2x3x5x8xf32>, tensor<2x5x16xf32>, tensor<2x5x16xf32>)
      -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @rotary_positions(%x: tensor<2x3x5x8xf32>, %c: tensor<2x3x8xf32>) {
  // expected-error @below {{dimension 1 of 'cos' must be 1 or equal dimension 2 of 'x', got 3 and 5}}
  %0 = fuse.rotary %x cos(%c) sin(%c)
    : (tensor<2x3x5x8xf32>, tensor<2x3x8xf32>, tensor<2x3x8xf32>)
      -> tensor<2x3x5x8xf32>
  return
}

// -----

func.func @loss_vocabulary(%x: tensor<4x?xf32>, %l: tensor<4xi64>) {
  // expected-error @below {{feature dimension of 'logits' must be static, got 'tensor<4x?xf32>'}}
  %0 = fuse.cross_entropy %x, %l mean
    : (tensor<4x?xf32>, tensor<4xi64>) -> tensor<f32>
  return
}

// -----

func.func @loss_labels(%x: tensor<4x10xf32>, %l: tensor<5xi64>) {
  // expected-error @below {{'labels' must have the dimensions of 'logits' except the last, and at least one, got 'tensor<4x10xf32>' and 'tensor<5xi64>'}}
  %0 = fuse.cross_entropy %x, %l mean
    : (tensor<4x10xf32>, tensor<5xi64>) -> tensor<f32>
  return
}

// -----

func.func @loss_one_label(%x: tensor<10xf32>, %l: tensor<i64>) {
  // expected-error @below {{'labels' must have the dimensions of 'logits' except the last, and at least one, got 'tensor<10xf32>' and 'tensor<i64>'}}
  %0 = fuse.cross_entropy %x, %l mean
    : (tensor<10xf32>, tensor<i64>) -> tensor<f32>
  return
}

// -----

func.func @loss_ignored(%x: tensor<4x10xf32>, %l: tensor<4xi32>) {
  // expected-error @below {{'ignore_index' must be an i32 like the labels, got 2147483648}}
  %0 = fuse.cross_entropy %x, %l mean ignore_index 2147483648
    : (tensor<4x10xf32>, tensor<4xi32>) -> tensor<f32>
  return
}

// -----

func.func @loss_items(%x: tensor<4x10xf32>, %l: tensor<4xi64>,
                      %n: tensor<1xi64>) {
  // expected-error @below {{'items' must be one number, got 'tensor<1xi64>'}}
  %0 = fuse.cross_entropy %x, %l items(%n) sum
    : (tensor<4x10xf32>, tensor<4xi64>, tensor<1xi64>) -> tensor<f32>
  return
}

// -----

func.func @loss_mean_of_items(%x: tensor<4x10xf32>, %l: tensor<4xi64>,
                              %n: tensor<i64>) {
  // expected-error @below {{supports 'items' only with 'sum'}}
  %0 = fuse.cross_entropy %x, %l items(%n) mean
    : (tensor<4x10xf32>, tensor<4xi64>, tensor<i64>) -> tensor<f32>
  return
}

// -----

func.func @loss_result(%x: tensor<4x10xf32>, %l: tensor<4xi64>) {
  // expected-error @below {{'loss' must be one number, got 'tensor<4xf32>'}}
  %0 = fuse.cross_entropy %x, %l mean
    : (tensor<4x10xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @loss_reduction(%x: tensor<4x10xf32>, %l: tensor<4xi64>) {
  // expected-error @below {{unknown reduction 'none'; expected one of mean, sum}}
  %0 = fuse.cross_entropy %x, %l none
    : (tensor<4x10xf32>, tensor<4xi64>) -> tensor<f32>
  return
}

// -----

func.func @moe_rank(%x: tensor<1x4x8xf32>, %i: tensor<4x2xi64>,
                    %r: tensor<4x2xf32>, %u: tensor<3x12x8xf32>,
                    %d: tensor<3x8x6xf32>) {
  // expected-error @below {{'x' must be a [token, feature] matrix, got 'tensor<1x4x8xf32>'}}
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<1x4x8xf32>, tensor<4x2xi64>, tensor<4x2xf32>,
       tensor<3x12x8xf32>, tensor<3x8x6xf32>) -> tensor<1x4x8xf32>
  return
}

// -----

func.func @moe_result(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>,
                      %r: tensor<4x2xf32>, %u: tensor<3x12x8xf32>,
                      %d: tensor<3x8x6xf32>) {
  // expected-error @below {{'x' and 'y' must have the same shape, got 'tensor<4x8xf32>' and 'tensor<4x6xf32>'}}
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x2xf32>,
       tensor<3x12x8xf32>, tensor<3x8x6xf32>) -> tensor<4x6xf32>
  return
}

// -----

func.func @moe_tokens(%x: tensor<4x8xf32>, %i: tensor<5x2xi64>,
                      %r: tensor<5x2xf32>, %u: tensor<3x12x8xf32>,
                      %d: tensor<3x8x6xf32>) {
  // expected-error @below {{'index' must be a matrix with a row per token, got 'tensor<4x8xf32>' and 'tensor<5x2xi64>'}}
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<4x8xf32>, tensor<5x2xi64>, tensor<5x2xf32>,
       tensor<3x12x8xf32>, tensor<3x8x6xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @moe_choices(%x: tensor<4x8xf32>, %i: tensor<4x?xi64>,
                       %r: tensor<4x?xf32>, %u: tensor<3x12x8xf32>,
                       %d: tensor<3x8x6xf32>) {
  // expected-error @below {{feature dimension of 'index' must be static, got 'tensor<4x?xi64>'}}
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<4x8xf32>, tensor<4x?xi64>, tensor<4x?xf32>,
       tensor<3x12x8xf32>, tensor<3x8x6xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @moe_factors(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>,
                       %r: tensor<4x3xf32>, %u: tensor<3x12x8xf32>,
                       %d: tensor<3x8x6xf32>) {
  // expected-error @below {{'index' and 'weights' must have the same shape, got 'tensor<4x2xi64>' and 'tensor<4x3xf32>'}}
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x3xf32>,
       tensor<3x12x8xf32>, tensor<3x8x6xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @moe_types(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>,
                     %r: tensor<4x2xf32>, %u: tensor<3x12x8xf16>,
                     %d: tensor<3x8x6xf32>) {
  // expected-error @below {{'x' and 'gate_up' must have the same element type, got 'f32' and 'f16'}}
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x2xf32>,
       tensor<3x12x8xf16>, tensor<3x8x6xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @moe_down(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>,
                    %r: tensor<4x2xf32>, %u: tensor<3x12x8xf32>,
                    %d: tensor<3x6x8xf32>) {
  // expected-error @below {{'down' must be a static [expert, 8, hidden] tensor, got 'tensor<3x6x8xf32>'}}
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x2xf32>,
       tensor<3x12x8xf32>, tensor<3x6x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @moe_gate_up(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>,
                       %r: tensor<4x2xf32>, %u: tensor<3x6x8xf32>,
                       %d: tensor<3x8x6xf32>) {
  // expected-error @below {{'gate_up' must be 'tensor<3x12x8xf32>' to match 'down', got 'tensor<3x6x8xf32>'}}
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x2xf32>,
       tensor<3x6x8xf32>, tensor<3x8x6xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @moe_no_expert(%x: tensor<4x8xf32>, %i: tensor<4x2xi64>,
                         %r: tensor<4x2xf32>, %u: tensor<0x12x8xf32>,
                         %d: tensor<0x8x6xf32>) {
  // expected-error @below {{needs at least one expert, got 'tensor<0x12x8xf32>'}}
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<4x8xf32>, tensor<4x2xi64>, tensor<4x2xf32>,
       tensor<0x12x8xf32>, tensor<0x8x6xf32>) -> tensor<4x8xf32>
  return
}
