// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @quantize
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>
func.func @quantize(%x: tensor<?x64xbf16>) {
  // CHECK: fuse.quantize %[[X]] scale 0.021 : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  %0 = fuse.quantize %x scale 2.1e-2
    : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  // CHECK: fuse.quantize %[[X]] scale 0.021 : (tensor<?x64xbf16>) -> tensor<?x64xf8E5M2>
  %1 = fuse.quantize %x scale 2.1e-2
    : (tensor<?x64xbf16>) -> tensor<?x64xf8E5M2>
  // CHECK: fuse.quantize %[[X]] scale 0.021 order divide : (tensor<?x64xbf16>) -> tensor<?x64xi8>
  %2 = fuse.quantize %x scale 2.1e-2 order divide
    : (tensor<?x64xbf16>) -> tensor<?x64xi8>
  return
}

// CHECK-LABEL: @quantize_channels
// CHECK-SAME: %[[W:.*]]: tensor<32x64xbf16>, %[[S:.*]]: tensor<32xf32>
func.func @quantize_channels(%w: tensor<32x64xbf16>, %s: tensor<32xf32>) {
  // CHECK: fuse.quantize %[[W]] channel_scale(%[[S]]) : (
  %0 = fuse.quantize %w channel_scale(%s)
    : (tensor<32x64xbf16>, tensor<32xf32>) -> tensor<32x64xf8E5M2>
  // CHECK: fuse.quantize %[[W]] channel_scale(%[[S]]) order divide : (
  %1 = fuse.quantize %w channel_scale(%s) order divide
    : (tensor<32x64xbf16>, tensor<32xf32>) -> tensor<32x64xi8>
  return
}

// CHECK-LABEL: @dequantize
// CHECK-SAME: %[[Q:.*]]: tensor<?x64xf8E4M3FN>, %[[W:.*]]: tensor<32x64xi8>, %[[S:.*]]: tensor<32xf32>
func.func @dequantize(%q: tensor<?x64xf8E4M3FN>, %w: tensor<32x64xi8>,
                      %s: tensor<32xf32>) {
  // CHECK: fuse.dequantize %[[Q]] scale 0.021 : (tensor<?x64xf8E4M3FN>) -> tensor<?x64xbf16>
  %0 = fuse.dequantize %q scale 2.1e-2
    : (tensor<?x64xf8E4M3FN>) -> tensor<?x64xbf16>
  // CHECK: fuse.dequantize %[[W]] channel_scale(%[[S]]) : (
  %1 = fuse.dequantize %w channel_scale(%s)
    : (tensor<32x64xi8>, tensor<32xf32>) -> tensor<32x64xbf16>
  return
}

// A vector has only dimension 0.
// CHECK-LABEL: @vector
func.func @vector(%x: tensor<64xf32>, %s: tensor<64xf32>) {
  // CHECK: (tensor<64xf32>, tensor<64xf32>) -> tensor<64xi8>
  %0 = fuse.quantize %x channel_scale(%s)
    : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xi8>
  return
}

// The second result has the scales: one per token, or a single one.
// CHECK-LABEL: @dynamic
// CHECK-SAME: %[[X:.*]]: tensor<2x?x64xbf16>
func.func @dynamic(%x: tensor<2x?x64xbf16>) {
  // CHECK: fuse.dynamic_quantize per_token %[[X]] : (tensor<2x?x64xbf16>) -> (tensor<2x?x64xf8E4M3FN>, tensor<2x?xf32>)
  %q, %s = fuse.dynamic_quantize per_token %x
    : (tensor<2x?x64xbf16>) -> (tensor<2x?x64xf8E4M3FN>, tensor<2x?xf32>)
  // CHECK: fuse.dynamic_quantize per_tensor %[[X]] : (tensor<2x?x64xbf16>) -> (tensor<2x?x64xi8>, tensor<1xf32>)
  %p, %t = fuse.dynamic_quantize per_tensor %x
    : (tensor<2x?x64xbf16>) -> (tensor<2x?x64xi8>, tensor<1xf32>)
  return
}
