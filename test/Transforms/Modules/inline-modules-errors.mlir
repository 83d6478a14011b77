// RUN: fuse-opt %s -split-input-file -verify-diagnostics \
// RUN:   --fuse-match-modules='patterns=((*,a))->mlp' --fuse-inline-modules

// Matching checks that bodies are there; what only inlining can see is an
// error of its own.

// expected-note @below {{symbol defined here}}
func.func private @"a#0"()
nn.model @m class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{there is a symbol 'a#0' in the module of the model, where the body of this site would go}}
    %y = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    // expected-error @below {{forward of 'a' has several blocks; expected one}}
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      cf.br ^next
    ^next:
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

nn.model @m class "M" {
  nn.module @a class "A" {
    // expected-error @below {{default of argument 0 of 'a' is not a constant of arith}}
    func.func @forward(%x: complex<f32> {fuse.default = #complex.number<:f32 1.0, 0.0> : complex<f32>})
        -> complex<f32> {
      return %x : complex<f32>
    }
  }
  func.func @forward() -> complex<f32> {
    %y = nn.call_module @a() : () -> complex<f32>
    return %y : complex<f32>
  }
}
