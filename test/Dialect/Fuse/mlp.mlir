// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @smallest
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[U:.*]]: tensor<256x64xf32>, %[[D:.*]]: tensor<64x256xf32>
func.func @smallest(%x: tensor<?x64xf32>, %w1: tensor<256x64xf32>,
                    %w2: tensor<64x256xf32>) {
  // CHECK: fuse.mlp %[[X]] up(%[[U]]) down(%[[D]]) act(relu) rounding(exact) : (
  %0 = fuse.mlp %x up(%w1) down(%w2) act(relu) rounding(exact)
     : (tensor<?x64xf32>, tensor<256x64xf32>, tensor<64x256xf32>)
       -> tensor<?x64xf32>
  return
}

// The block of GPT-2 and its successors: norm, MLP with biases, residual add.
// CHECK-LABEL: @layer_norm_block
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[N:.*]]: tensor<64xbf16>
func.func @layer_norm_block(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
                            %w1: tensor<256x64xbf16>, %b1: tensor<256xbf16>,
                            %w2: tensor<64x256xbf16>) {
  // CHECK: fuse.mlp %[[X]] norm(layer %[[N]], %[[N]] eps 1.0e-05) up(%{{.*}} bias %{{.*}}) down(%{{.*}} bias %[[N]]) act(gelu) then_add(%[[X]]) rounding(relaxed skip [normed, act]) : (
  %0 = fuse.mlp %x norm(layer %n, %n eps 1.0e-5) up(%w1 bias %b1)
         down(%w2 bias %n) act(gelu) then_add(%x)
         rounding(relaxed skip [normed, act])
       : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16>,
          tensor<256x64xbf16>, tensor<256xbf16>, tensor<64x256xbf16>,
          tensor<64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @stream
func.func @stream(%x: tensor<?x64xbf16>, %r: tensor<?x64xf32>,
                  %w: tensor<64x64xbf16>) {
  // CHECK: residual(%{{.*}}) up({{.*}} add_stream also([stream]) rounding(exact types {stream = f32, down = f32})
  // CHECK-SAME: -> (tensor<?x64xbf16>, tensor<?x64xf32>)
  %0:2 = fuse.mlp %x residual(%r) norm(rms eps 1.0e-6) up(%w) down(%w)
           act(relu2) add_stream also([stream])
           rounding(exact types {stream = f32, down = f32})
       : (tensor<?x64xbf16>, tensor<?x64xf32>, tensor<64x64xbf16>,
          tensor<64x64xbf16>) -> (tensor<?x64xbf16>, tensor<?x64xf32>)
  return
}

// CHECK-LABEL: @scales
func.func @scales(%x: tensor<?x64xbf16>, %w: tensor<64x64xf8E5M2>,
                  %s: tensor<64xf32>) {
  // CHECK: channel_scales(%{{.*}}) scales(f8E4M3FN, input = 1.0, up = per_channel, hidden = 2.0, down = 4.0) rounding
  %0 = fuse.mlp %x up(%w) down(%w) act(quick_gelu) channel_scales(%s)
         scales(f8E4M3FN, input = 1.0, up = per_channel, hidden = 2.0,
                down = 4.0)
         rounding(exact)
       : (tensor<?x64xbf16>, tensor<64x64xf8E5M2>, tensor<64x64xf8E5M2>,
          tensor<64xf32>) -> tensor<?x64xbf16>
  return
}

// In the qdq form, activations and weights can have different storage types.
// CHECK-LABEL: @qdq_mixed_storage
func.func @qdq_mixed_storage(%x: tensor<?x64xbf16>, %w: tensor<64x64xi8>) {
  // CHECK: scales(f8E5M2, input = 1.0, up = 2.0, hidden = 3.0, down = 4.0, form = qdq)
  %0 = fuse.mlp %x up(%w) down(%w) act(silu)
         scales(f8E5M2, input = 1.0, up = 2.0, hidden = 3.0, down = 4.0,
                form = qdq)
         rounding(exact)
       : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>)
         -> tensor<?x64xbf16>
  return
}
