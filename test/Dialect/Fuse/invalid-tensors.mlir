// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// Rules for all tensors, tested with one op.

func.func @rank_0(%x: tensor<f32>) {
  // expected-error @below {{'fuse.activation' op 'x' needs a feature dimension, got 'tensor<f32>'}}
  %0 = fuse.activation silu %x : tensor<f32> -> tensor<f32>
  return
}

// -----

func.func @dynamic_features(%x: tensor<4x?xf32>) {
  // expected-error @below {{feature dimension of 'x' must be static, got 'tensor<4x?xf32>'}}
  %0 = fuse.activation silu %x : tensor<4x?xf32> -> tensor<4x?xf32>
  return
}

// -----

// A dynamic dimension is compatible with any size, but features are static.
func.func @dynamic_features_of_result(%x: tensor<4x64xf32>) {
  // expected-error @below {{feature dimension of 'y' must be static, got 'tensor<4x?xf32>'}}
  %0 = fuse.activation silu %x : tensor<4x64xf32> -> tensor<4x?xf32>
  return
}

// -----

func.func @no_features(%x: tensor<4x0xf32>) {
  // expected-error @below {{feature dimension of 'x' must not be empty, got 'tensor<4x0xf32>'}}
  %0 = fuse.activation silu %x : tensor<4x0xf32> -> tensor<4x0xf32>
  return
}

// -----

func.func @too_many_elements(%x: tensor<9223372036854775807x64xf32>) {
  // expected-error @below {{'x' has more than 281474976710656 elements, got 'tensor<9223372036854775807x64xf32>'}}
  %0 = fuse.activation silu %x
    : tensor<9223372036854775807x64xf32> -> tensor<9223372036854775807x64xf32>
  return
}

// -----

// The product of the sizes overflows 64 bits to a small number.
func.func @overflowing_elements(%x: tensor<4294967296x4294967296x64xf32>) {
  // expected-error @below {{'x' has more than 281474976710656 elements}}
  %0 = fuse.activation silu %x
    : tensor<4294967296x4294967296x64xf32>
      -> tensor<4294967296x4294967296x64xf32>
  return
}

// -----

func.func @element_type(%x: tensor<4x64xf64>) {
  // expected-error @below {{operand #0 must be tensor without encoding of f16, bf16 or f32 values, but got 'tensor<4x64xf64>'}}
  %0 = fuse.activation silu %x : tensor<4x64xf64> -> tensor<4x64xf64>
  return
}

// -----

func.func @unranked(%x: tensor<*xf32>) {
  // expected-error @below {{invalid kind of type specified: expected builtin.tensor, but found 'tensor<*xf32>'}}
  %0 = fuse.activation silu %x : tensor<*xf32> -> tensor<*xf32>
  return
}

// -----

func.func @encoding(%x: tensor<4x64xf32, "blocked">) {
  // expected-error @below {{operand #0 must be tensor without encoding of f16, bf16 or f32 values, but got 'tensor<4x64xf32, "blocked">'}}
  %0 = fuse.activation silu %x : tensor<4x64xf32, "blocked"> -> tensor<4x64xf32>
  return
}

// -----

func.func @memref(%x: memref<4x64xf32>) {
  // expected-error @below {{invalid kind of type specified: expected builtin.tensor, but found 'memref<4x64xf32>'}}
  %0 = fuse.activation silu %x : memref<4x64xf32> -> memref<4x64xf32>
  return
}
