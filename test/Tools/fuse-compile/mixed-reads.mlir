// Two launches read what a portable kernel made, and another kernel runs in
// between: it must not write to the same buffer.

// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   --tokens=64 -o %t.fuse
// RUN: fuse-artifact info --json %t.fuse | FileCheck %s

// CHECK:      "tensor": 0
// CHECK:      "workspace": [[READ:[0-9]+]]
// CHECK:      "kernel": "map_bf16_bf16"
// CHECK:      "workspace": [[READ]]
// CHECK:      "kernel": "mlp_decode_{{[0-9]+}}"
// CHECK-NOT:  "workspace": [[READ]]
// CHECK:      "kernel": "map_bf16_bf16_0"
// CHECK:      "workspace": [[READ]]
// CHECK:      "kernel": "norm_quantize_rows_0"
func.func @reads(%x: tensor<?x64xbf16>, %up: tensor<64x64xbf16>,
    %down: tensor<64x64xbf16>, %norm: tensor<64xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x64xf8E4M3FN>) {
  %0 = fuse.activation gelu_tanh %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %1 = fuse.linear %0, %up
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %2 = fuse.activation silu %1 : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %3 = fuse.linear %2, %down
    : (tensor<?x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  %4 = fuse.residual_add %3, %3
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %5 = fuse.rms_norm %0 weight(%norm) eps 1.0e-6
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  %6 = fuse.quantize %5 scale 0.5
    : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  %7 = arith.negf %4 : tensor<?x64xbf16>
  return %7, %6 : tensor<?x64xbf16>, tensor<?x64xf8E4M3FN>
}

