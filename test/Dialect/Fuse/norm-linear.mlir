// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @one_linear
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<32x64xbf16>
func.func @one_linear(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>) {
  // CHECK: fuse.norm_linear %[[X]] norm(rms eps 1.0e-06) linear(%[[W]]) rounding(exact) : (
  %0 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w) rounding(exact)
     : (tensor<?x64xbf16>, tensor<32x64xbf16>) -> tensor<?x32xbf16>
  return
}

// Query, key and value of an attention block. In the syntax, a bias follows its
// weight; among the operands, biases follow all weights.
// CHECK-LABEL: @qkv
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[N:.*]]: tensor<64xbf16>, %[[Q:.*]]: tensor<64x64xbf16>, %[[K:.*]]: tensor<16x64xbf16>, %[[BQ:.*]]: tensor<64xbf16>, %[[BV:.*]]: tensor<16xbf16>
func.func @qkv(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
               %wq: tensor<64x64xbf16>, %wk: tensor<16x64xbf16>,
               %bq: tensor<64xbf16>, %bv: tensor<16xbf16>) {
  // CHECK: %{{.*}}:3 = fuse.norm_linear %[[X]] norm(rms %[[N]] eps 1.0e-06) linear(%[[Q]] bias %[[BQ]], %[[K]], %[[K]] bias %[[BV]]) rounding
  %0:3 = fuse.norm_linear %x norm(rms %n eps 1.0e-6)
           linear(%wq bias %bq, %wk, %wk bias %bv) rounding(exact)
         : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>,
            tensor<16x64xbf16>, tensor<16x64xbf16>, tensor<64xbf16>,
            tensor<16xbf16>)
           -> (tensor<?x64xbf16>, tensor<?x16xbf16>, tensor<?x16xbf16>)
  return
}

// Extra results follow those of the linears, in the order of `also`.
// CHECK-LABEL: @extras
func.func @extras(%x: tensor<?x64xbf16>, %r: tensor<?x64xbf16>,
                  %w: tensor<32x64xf32>) {
  // CHECK: also([normed, stream]) rounding(exact types {normed = f32})
  // CHECK-SAME: -> (tensor<?x32xf16>, tensor<?x64xf32>, tensor<?x64xbf16>)
  %0:3 = fuse.norm_linear %x residual(%r) norm(layer eps 1.0e-5) linear(%w)
           also([normed, stream]) rounding(exact types {normed = f32})
         : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<32x64xf32>)
           -> (tensor<?x32xf16>, tensor<?x64xf32>, tensor<?x64xbf16>)
  return
}

// CHECK-LABEL: @scales
func.func @scales(%x: tensor<?x64xbf16>, %w: tensor<32x64xi8>,
                  %s: tensor<32xf32>) {
  // CHECK: channel_scales(%{{.*}}) scales(i8, input = 0.5, weight0 = 0.25, weight1 = per_channel) rounding
  %0:2 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w, %w)
           channel_scales(%s)
           scales(i8, input = 0.5, weight0 = 0.25, weight1 = per_channel)
           rounding(exact)
         : (tensor<?x64xbf16>, tensor<32x64xi8>, tensor<32x64xi8>,
            tensor<32xf32>) -> (tensor<?x32xbf16>, tensor<?x32xbf16>)
  return
}
