// RUN: fuse-opt %s -split-input-file -verify-diagnostics --fuse-flatten-models
// RUN: fuse-opt %s -split-input-file --fuse-flatten-models=sites=true \
// RUN:   | FileCheck %s --implicit-check-not=nn.model

// Without bodies there is nothing to run, except the functions of sites.

// CHECK: func.func @beside
func.func @beside() {
  return
}
nn.model @m class "M" {
  // expected-error @below {{forward of 'a' is declared only; nothing to inline}}
  nn.module @a class "A" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

// -----

// expected-error @below {{model 'container' has no forward to make a function of; 'sites' keeps the functions of its sites}}
nn.model @container class "M" {
}

// -----

// expected-error @below {{forward of the model is declared only; nothing to inline}}
nn.model @declared class "M" {
  func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
}
