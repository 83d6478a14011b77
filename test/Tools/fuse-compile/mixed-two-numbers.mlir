// A plan has ranges of one number of tokens. An op with another one, here the
// product of two sizes, has the kernels for the most tokens, and a remark.

// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   --tokens=16 -o %t.fuse --remarks 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: fuse-artifact info %t.fuse | FileCheck %s
// RUN: fuse-artifact info --json %t.fuse | FileCheck %s --check-prefix=JSON

// REMARK: remark: Missed [codegen] ranges: {{.*}}another one: the kernels for up to 16 serve all of it

// CHECK:      tokens at most 16
// CHECK:      tokens 1 to 8
// CHECK:      launch [[FEW:mlp_decode_[0-9]+]]
// CHECK:      launch [[MANY:mlp_decode_[0-9]+]]
// CHECK-NEXT: tokens 9 to 16
// CHECK:      launch [[MANY]]
// CHECK:      launch [[MANY]]

// JSON:      "symbols": [
// JSON:      "tokens": [
// JSON-NEXT:   "s0",
// JSON-NEXT:   [
// JSON-NEXT:     "mul",
// JSON-NEXT:     "s1",
// JSON-NEXT:     3
func.func @numbers(%x: tensor<?x64xbf16>, %y: tensor<?x3x64xbf16>,
    %up: tensor<64x64xbf16>, %down: tensor<64x64xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %0 = fuse.linear %x, %up
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %1 = fuse.activation silu %0 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %2 = fuse.linear %1, %down
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %flat = tensor.collapse_shape %y [[0, 1], [2]]
    : tensor<?x3x64xbf16> into tensor<?x64xbf16>
  %3 = fuse.linear %flat, %up
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %4 = fuse.activation silu %3 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %5 = fuse.linear %4, %down
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  return %2, %5 : tensor<?x64xbf16>, tensor<?x64xbf16>
}
