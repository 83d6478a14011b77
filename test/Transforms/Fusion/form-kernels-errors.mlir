// RUN: split-file %s %t
// RUN: fuse-opt %t/family.mlir --fuse-form-kernels=families=fancy \
// RUN:   -verify-diagnostics
// RUN: fuse-opt %t/rounding.mlir --fuse-form-kernels=rounding=fast \
// RUN:   -verify-diagnostics
// RUN: fuse-opt %t/site.mlir --fuse-form-kernels=disable=f#9 \
// RUN:   -verify-diagnostics

// Unknown values of options. Every error lists the known values.

//--- family.mlir

// expected-error @below {{unknown family 'fancy'; expected one of gated_mlp, mlp, norm_linear, fused_linear, norm_quantize, act_quantize}}
func.func @f() {
  return
}

//--- rounding.mlir

// expected-error @below {{unknown rounding 'fast'; expected one of exact, relaxed}}
func.func @f() {
  return
}

//--- site.mlir

// expected-error @below {{no site 'f#9' to disable; 'f' has 2 sites, "f#0" to "f#1"}}
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = fuse.activation gelu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  %1 = fuse.activation silu %0 : tensor<?x8xf32> -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}

// A site of another function is ignored.

func.func @g(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = fuse.activation gelu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
