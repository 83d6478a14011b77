// RUN: fuse-opt %s -split-input-file -verify-diagnostics \
// RUN:   --fuse-form-kernels --fuse-check-contracts

// Contracts of functions. Paths are the names in locations.

func.func @kept(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32>
    attributes {fuse.expect_sites = 1, fuse.must_fuse = ["mlp", "mlp.act"]} {
  %u = fuse.linear %x, %w
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp")
  %a = fuse.activation silu %u
    : tensor<8x8xf32> -> tensor<8x8xf32> loc("mlp.act")
  %d = fuse.linear %a, %w
    : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("mlp")
  return %d : tensor<8x8xf32>
}

// -----

// expected-error @below {{expected 1 fused site, there are 0}}
// expected-note @unknown {{not fused: broken#0: FUSE-N001 activation-input-not-linear}}
// expected-error @below {{must fuse 'mlp': 1 of 1 modules are not fused}}
// expected-note @below {{'mlp': broken#0: FUSE-N001 activation-input-not-linear: the activation does not read the result of a linear}}
func.func @broken(%x: tensor<8x8xf32>) -> tensor<8x8xf32>
    attributes {fuse.expect_sites = 1, fuse.must_fuse = ["mlp"]} {
  %a = fuse.activation silu %x
    : tensor<8x8xf32> -> tensor<8x8xf32> loc("mlp")
  return %a : tensor<8x8xf32>
}

// -----

// expected-error @below {{'fuse.expect_sites' must be a number of sites, got "two"}}
func.func @count() attributes {fuse.expect_sites = "two"} {
  return
}

// -----

// expected-error @below {{'fuse.must_fuse' must be an array of path globs, got "mlp"}}
func.func @paths() attributes {fuse.must_fuse = "mlp"} {
  return
}

// -----

// expected-error @below {{path glob 'a..b': has an empty segment}}
func.func @glob() attributes {fuse.must_fuse = ["a..b"]} {
  return
}

// -----

// expected-error @below {{has a fusion contract but is neither a model nor a function}}
module attributes {fuse.expect_sites = 1} {
}
