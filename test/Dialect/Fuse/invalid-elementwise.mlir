// RUN: fuse-opt %s -split-input-file -verify-diagnostics

func.func @activation_shape(%x: tensor<4x64xf32>) {
  // expected-error @below {{'x' and 'y' must have the same shape, got 'tensor<4x64xf32>' and 'tensor<5x64xf32>'}}
  %0 = fuse.activation silu %x : tensor<4x64xf32> -> tensor<5x64xf32>
  return
}

// -----

func.func @gated_mul_operands(%x: tensor<?x64xf32>, %y: tensor<?x32xf32>) {
  // expected-error @below {{'lhs' and 'rhs' must have the same shape, got 'tensor<?x64xf32>' and 'tensor<?x32xf32>'}}
  %0 = fuse.gated_mul %x, %y
    : (tensor<?x64xf32>, tensor<?x32xf32>) -> tensor<?x64xf32>
  return
}

// -----

// Layer ops do not broadcast.
func.func @no_broadcast(%x: tensor<4x64xf32>, %y: tensor<64xf32>) {
  // expected-error @below {{'lhs' and 'rhs' must have the same shape, got 'tensor<4x64xf32>' and 'tensor<64xf32>'}}
  %0 = fuse.residual_add %x, %y
    : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return
}

// -----

func.func @residual_add_result(%x: tensor<?x64xf32>) {
  // expected-error @below {{'lhs' and 'y' must have the same shape, got 'tensor<?x64xf32>' and 'tensor<?x65xf32>'}}
  %0 = fuse.residual_add %x, %x
    : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x65xf32>
  return
}
