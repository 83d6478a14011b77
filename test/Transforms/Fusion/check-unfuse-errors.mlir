// RUN: split-file %s %t
// RUN: fuse-opt %t/rounding.mlir --fuse-check-unfuse=rounding=fast \
// RUN:   -verify-diagnostics
// RUN: fuse-opt %t/family.mlir --fuse-check-unfuse=families=fancy \
// RUN:   -verify-diagnostics
// RUN: fuse-opt %t/function.mlir --fuse-check-unfuse=disable=mpl#0 \
// RUN:   -verify-diagnostics

//--- rounding.mlir

// expected-error @below {{unknown rounding 'fast'; expected one of exact, relaxed}}
func.func @mlp() {
  return
}

//--- family.mlir

// expected-error @below {{unknown family 'fancy'; expected one of gated_mlp, mlp, norm_linear, fused_linear, norm_quantize, act_quantize}}
func.func @mlp() {
  return
}

//--- function.mlir

// expected-error @below {{no site 'mpl#0' to disable; there is no function 'mpl'}}
module {
  func.func @mlp() {
    return
  }
}
