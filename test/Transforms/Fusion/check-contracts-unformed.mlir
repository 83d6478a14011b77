// RUN: fuse-opt %s --fuse-check-contracts -split-input-file \
// RUN:   -verify-diagnostics --remarks-filter=fuse --remark-format=emitRemark

// Reasons come from forming kernels in a copy. This emits no remarks, because
// the kernels do not exist in the function.

// expected-error @below {{expected 1 fused site, there are 0}}
// expected-note @unknown {{not fused: forgotten#0: fuse-form-kernels would make it fuse.mlp}}
// expected-error @below {{must fuse 'mlp': 1 of 1 modules are not fused}}
// expected-note @below {{'mlp': forgotten#0: fuse-form-kernels would make it fuse.mlp}}
func.func @forgotten(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>)
    -> tensor<8x8xf32>
    attributes {fuse.expect_sites = 1, fuse.must_fuse = ["mlp"]} {
  %u = fuse.linear %x, %w
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp")
  %a = fuse.activation silu %u
    : tensor<8x8xf32> -> tensor<8x8xf32> loc("mlp")
  %d = fuse.linear %a, %w
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp")
  return %d : tensor<8x8xf32>
}

// -----

// More sites than expected are an error, too.

// expected-error @below {{expected 0 fused sites, there is 1}}
func.func @formed(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32>
    attributes {fuse.expect_sites = 0} {
  %0 = fuse.mlp %x up(%w) down(%w) act(silu) rounding(exact) site("formed#0")
    : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
