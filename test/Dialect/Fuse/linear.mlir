// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @linear
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<128x64xbf16>, %[[B:.*]]: tensor<128xbf16>
func.func @linear(%x: tensor<?x64xbf16>, %w: tensor<128x64xbf16>,
                  %b: tensor<128xbf16>) {
  // CHECK: fuse.linear %[[X]], %[[W]] : (
  %0 = fuse.linear %x, %w
    : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xbf16>
  // CHECK: fuse.linear %[[X]], %[[W]] bias(%[[B]]) : (
  %1 = fuse.linear %x, %w bias(%b)
    : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<128xbf16>)
      -> tensor<?x128xbf16>
  return
}

// The sum is rounded to the element type of the result.
// CHECK-LABEL: @result_type
func.func @result_type(%x: tensor<?x64xbf16>, %w: tensor<128x64xbf16>,
                       %b: tensor<128xf32>) {
  // CHECK: -> tensor<?x128xf32>
  %0 = fuse.linear %x, %w bias(%b)
    : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<128xf32>)
      -> tensor<?x128xf32>
  return
}

// CHECK-LABEL: @ranks
func.func @ranks(%x: tensor<64xf16>, %y: tensor<2x?x64xf16>,
                 %z: tensor<0x64xf16>, %w: tensor<1x64xf16>) {
  // CHECK: -> tensor<1xf16>
  %0 = fuse.linear %x, %w : (tensor<64xf16>, tensor<1x64xf16>) -> tensor<1xf16>
  // CHECK: -> tensor<2x?x1xf16>
  %1 = fuse.linear %y, %w
    : (tensor<2x?x64xf16>, tensor<1x64xf16>) -> tensor<2x?x1xf16>
  // CHECK: -> tensor<0x1xf16>
  %2 = fuse.linear %z, %w
    : (tensor<0x64xf16>, tensor<1x64xf16>) -> tensor<0x1xf16>
  return
}

// CHECK-LABEL: @scales
func.func @scales(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>) {
  // CHECK: fuse.linear %{{.*}}, %{{.*}} scales(0.021, 0.0013) : (
  %0 = fuse.linear %x, %w scales(2.1e-2, 1.3e-3)
    : (tensor<?x64xi8>, tensor<128x64xi8>) -> tensor<?x128xbf16>
  return
}

// Activations and weights can have different 8-bit float types.
// CHECK-LABEL: @mixed_8_bit_floats
func.func @mixed_8_bit_floats(%x: tensor<?x64xf8E4M3FN>,
                              %w: tensor<128x64xf8E5M2>) {
  // CHECK: scales(1.0, 2.0) : (tensor<?x64xf8E4M3FN>, tensor<128x64xf8E5M2>)
  %0 = fuse.linear %x, %w scales(1.0, 2.0)
    : (tensor<?x64xf8E4M3FN>, tensor<128x64xf8E5M2>) -> tensor<?x128xf16>
  return
}

// CHECK-LABEL: @channel_scale
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf8E4M3FN>, %[[W:.*]]: tensor<128x64xf8E4M3FN>, %[[B:.*]]: tensor<128xbf16>, %[[S:.*]]: tensor<128xf32>
func.func @channel_scale(%x: tensor<?x64xf8E4M3FN>,
                         %w: tensor<128x64xf8E4M3FN>, %b: tensor<128xbf16>,
                         %s: tensor<128xf32>) {
  // CHECK: fuse.linear %[[X]], %[[W]] bias(%[[B]]) channel_scale(%[[S]]) scales(0.021, per_channel) : (
  %0 = fuse.linear %x, %w bias(%b) channel_scale(%s) scales(2.1e-2, per_channel)
    : (tensor<?x64xf8E4M3FN>, tensor<128x64xf8E4M3FN>, tensor<128xbf16>,
       tensor<128xf32>) -> tensor<?x128xbf16>
  return
}

// The largest and the smallest scale: both are normal in f32, and so are
// their reciprocals.
// CHECK-LABEL: @extreme_scales
func.func @extreme_scales(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>) {
  // CHECK: scales(8.507059173023462e+37, 1.1754943508222875e-38)
  %0 = fuse.linear %x, %w scales(0x47D0000000000000, 0x3810000000000000)
    : (tensor<?x64xi8>, tensor<128x64xi8>) -> tensor<?x128xf32>
  return
}

// The bias is added to the rounded sum.
// CHECK-LABEL: @bias_after_rounding
func.func @bias_after_rounding(%x: tensor<?x64xbf16>, %w: tensor<128x64xbf16>,
                               %b: tensor<128xbf16>) {
  // CHECK: bias(%{{.*}}) added after_rounding : (
  %0 = fuse.linear %x, %w bias(%b) added after_rounding
    : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<128xbf16>)
      -> tensor<?x128xbf16>
  // CHECK: bias(%{{.*}}) : (
  %1 = fuse.linear %x, %w bias(%b) added before_rounding
    : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<128xbf16>)
      -> tensor<?x128xbf16>
  return
}

// CHECK-LABEL: @dynamic_scale
func.func @dynamic_scale(%x: tensor<?x64xi8>, %w: tensor<128x64xi8>,
                         %s: tensor<?xf32>, %t: tensor<1xf32>,
                         %c: tensor<128xf32>) {
  // CHECK: dynamic_scale(%{{.*}}) scales(dynamic, 0.0013) : (
  %0 = fuse.linear %x, %w dynamic_scale(%s) scales(dynamic, 1.3e-3)
    : (tensor<?x64xi8>, tensor<128x64xi8>, tensor<?xf32>) -> tensor<?x128xbf16>
  // CHECK: channel_scale(%{{.*}}) dynamic_scale(%{{.*}}) scales(dynamic, per_channel) : (
  %1 = fuse.linear %x, %w channel_scale(%c) dynamic_scale(%t)
         scales(dynamic, per_channel)
    : (tensor<?x64xi8>, tensor<128x64xi8>, tensor<128xf32>, tensor<1xf32>)
      -> tensor<?x128xbf16>
  return
}
