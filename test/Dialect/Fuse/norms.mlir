// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @rms_norm
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<64xbf16>
func.func @rms_norm(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>) {
  // CHECK: fuse.rms_norm %[[X]] weight(%[[W]]) eps 1.0e-06 :
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  return
}

// Epsilon prints as the shortest number that parses back to the same f64.
// CHECK-LABEL: @eps
func.func @eps(%x: tensor<?x64xbf16>) {
  // CHECK: eps 1.0e-05 :
  %0 = fuse.rms_norm %x eps 1.0e-5 : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  // CHECK: eps 9.999999747378752e-06 :
  %1 = fuse.rms_norm %x eps 9.9999997473787516e-06
    : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  // CHECK: eps 0.25 :
  %2 = fuse.rms_norm %x eps 0.25 : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  // CHECK: eps 0.0 :
  %3 = fuse.rms_norm %x eps 0.0 : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @rms_norm_without_weight
func.func @rms_norm_without_weight(%x: tensor<?x64xbf16>) {
  // CHECK: fuse.rms_norm %{{.*}} eps 1.0e-06 : (tensor<?x64xbf16>)
  %0 = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @rms_norm_with_offset
func.func @rms_norm_with_offset(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>) {
  // CHECK: eps 1.0e-06 offset 1 cast after_weight : {{.*}} -> tensor<?x64xf32>
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6 offset 1 cast after_weight
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xf32>
  return
}

// Default values are not printed.
// CHECK-LABEL: @rms_norm_defaults
func.func @rms_norm_defaults(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>) {
  // CHECK: eps 1.0e-06 :
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6 offset 0 cast before_weight
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  return
}

// The type of a weight can differ from that of the input, as in Qwen3-Next.
// CHECK-LABEL: @rms_norm_mixed_types
func.func @rms_norm_mixed_types(%x: tensor<?x64xbf16>, %w: tensor<64xf32>) {
  // CHECK: (tensor<?x64xbf16>, tensor<64xf32>) -> tensor<?x64xf16>
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x64xbf16>, tensor<64xf32>) -> tensor<?x64xf16>
  return
}

// CHECK-LABEL: @rms_norm_ranks
func.func @rms_norm_ranks(%x: tensor<64xf32>, %y: tensor<2x?x3x64xf32>,
                          %z: tensor<0x64xf32>) {
  // CHECK: (tensor<64xf32>) -> tensor<64xf32>
  %0 = fuse.rms_norm %x eps 1.0e-6 : (tensor<64xf32>) -> tensor<64xf32>
  // CHECK: (tensor<2x?x3x64xf32>) -> tensor<2x?x3x64xf32>
  %1 = fuse.rms_norm %y eps 1.0e-6
    : (tensor<2x?x3x64xf32>) -> tensor<2x?x3x64xf32>
  // CHECK: (tensor<0x64xf32>) -> tensor<0x64xf32>
  %2 = fuse.rms_norm %z eps 1.0e-6 : (tensor<0x64xf32>) -> tensor<0x64xf32>
  return
}

// CHECK-LABEL: @layer_norm
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[W:.*]]: tensor<64xf32>, %[[B:.*]]: tensor<64xf32>
func.func @layer_norm(%x: tensor<?x64xf32>, %w: tensor<64xf32>,
                      %b: tensor<64xf32>) {
  // CHECK: fuse.layer_norm %[[X]] weight(%[[W]]) bias(%[[B]]) eps 1.0e-05 :
  %0 = fuse.layer_norm %x weight(%w) bias(%b) eps 1.0e-5
    : (tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  // CHECK: fuse.layer_norm %[[X]] weight(%[[W]]) eps 1.0e-05 :
  %1 = fuse.layer_norm %x weight(%w) eps 1.0e-5
    : (tensor<?x64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
  // CHECK: fuse.layer_norm %[[X]] eps 1.0e-05 :
  %2 = fuse.layer_norm %x eps 1.0e-5 : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}

// CHECK-LABEL: @norm_with_discardable_attribute
func.func @norm_with_discardable_attribute(%x: tensor<?x64xf32>) {
  // CHECK: fuse.rms_norm %{{.*}} eps 1.0e-06 {note = "kept"} :
  %0 = fuse.rms_norm %x eps 1.0e-6 {note = "kept"}
    : (tensor<?x64xf32>) -> tensor<?x64xf32>
  return
}
