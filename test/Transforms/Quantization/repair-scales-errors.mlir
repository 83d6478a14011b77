// RUN: split-file %s %t
// RUN: fuse-opt %t/weights.mlir --fuse-repair-scales=unequal=refuse \
// RUN:   -verify-diagnostics
// RUN: fuse-opt %t/inputs.mlir --fuse-repair-scales=inputs=refuse \
// RUN:   -verify-diagnostics
// RUN: fuse-opt %t/unequal-option.mlir --fuse-repair-scales=unequal=guess \
// RUN:   -verify-diagnostics
// RUN: fuse-opt %t/inputs-option.mlir --fuse-repair-scales=inputs=guess \
// RUN:   -verify-diagnostics

//--- weights.mlir

func.func @refused(%q: tensor<?x8xi8>, %w: tensor<16x8xi8>)
    -> tensor<?x16xbf16> {
  %g = fuse.linear %q, %w scales(1.0, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %q, %w scales(1.0, 0.25)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  // expected-error @below {{gate has scale 5.000000e-01, up has 2.500000e-01; unequal=keep or unequal=requantize would accept them}}
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  return %p : tensor<?x16xbf16>
}

//--- inputs.mlir

func.func @refused(%x: tensor<?x8xbf16>, %w: tensor<16x8xi8>)
    -> tensor<?x16xbf16> {
  %q1 = fuse.quantize %x scale 0.5 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %g = fuse.linear %q1, %w scales(0.5, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %q2 = fuse.quantize %x scale 0.75 : (tensor<?x8xbf16>) -> tensor<?x8xi8>
  %u = fuse.linear %q2, %w scales(0.75, 0.5)
    : (tensor<?x8xi8>, tensor<16x8xi8>) -> tensor<?x16xbf16>
  // expected-error @below {{for its input gate has scale 5.000000e-01, up has 7.500000e-01; inputs=keep or inputs=largest would accept them}}
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  return %p : tensor<?x16xbf16>
}

//--- unequal-option.mlir

// expected-error @below {{unknown value 'guess' of unequal; expected one of keep, requantize, refuse}}
func.func @f() {
  return
}

//--- inputs-option.mlir

// expected-error @below {{unknown value 'guess' of inputs; expected one of keep, largest, refuse}}
func.func @f() {
  return
}
