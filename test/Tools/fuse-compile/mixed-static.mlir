// A function of portable and scheduled kernels whose type says how many tokens
// there are: their number is a value in the plan, not a size of an argument.

// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   -o %t.fuse
// RUN: fuse-artifact info %t.fuse | FileCheck %s
// RUN: fuse-artifact info --json %t.fuse | FileCheck %s --check-prefix=JSON

// CHECK-LABEL: @three_tokens
// CHECK:       workspace 384 bytes
// CHECK:       launch map_bf16_bf16
// CHECK-NEXT:  launch mlp_decode_0

// JSON: "path": "mixed"
// JSON: "tokens": [
// JSON-NEXT: 3
// JSON-NEXT: ]

func.func @three_tokens(%x: tensor<3x64xbf16>, %up: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>) -> tensor<3x64xbf16> {
  %0 = fuse.activation gelu_tanh %x : tensor<3x64xbf16> -> tensor<3x64xbf16>
  %1 = fuse.linear %0, %up
    : (tensor<3x64xbf16>, tensor<64x64xbf16>) -> tensor<3x64xbf16>
  %2 = fuse.activation silu %1 : tensor<3x64xbf16> -> tensor<3x64xbf16>
  %3 = fuse.linear %2, %down
    : (tensor<3x64xbf16>, tensor<64x64xbf16>) -> tensor<3x64xbf16>
  return %3 : tensor<3x64xbf16>
}
