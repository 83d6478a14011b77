// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @smallest
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[G:.*]]: tensor<128x64xbf16>, %[[U:.*]]: tensor<128x64xbf16>, %[[D:.*]]: tensor<64x128xbf16>
func.func @smallest(%x: tensor<?x64xbf16>, %wg: tensor<128x64xbf16>,
                    %wu: tensor<128x64xbf16>, %wd: tensor<64x128xbf16>) {
  // CHECK: fuse.gated_mlp %[[X]] gate(%[[G]]) up(%[[U]]) down(%[[D]]) act(silu) rounding(exact) : (
  %0 = fuse.gated_mlp %x gate(%wg) up(%wu) down(%wd) act(silu) rounding(exact)
     : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<128x64xbf16>,
        tensor<64x128xbf16>) -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @biases
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<64x64xbf16>, %[[B:.*]]: tensor<64xbf16>
func.func @biases(%x: tensor<?x64xbf16>, %w: tensor<64x64xbf16>,
                  %b: tensor<64xbf16>) {
  // CHECK: gate(%[[W]] bias %[[B]]) up(%[[W]]) down(%[[W]] bias %[[B]])
  %0 = fuse.gated_mlp %x gate(%w bias %b) up(%w) down(%w bias %b) act(gelu)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16>,
        tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16>)
       -> tensor<?x64xbf16>
  return
}

// The down projection can return another number of features than the input has.
// CHECK-LABEL: @other_output_features
func.func @other_output_features(%x: tensor<2x?x64xf16>,
                                 %w: tensor<128x64xf16>,
                                 %wd: tensor<32x128xf16>) {
  // CHECK: -> tensor<2x?x32xf32>
  %0 = fuse.gated_mlp %x gate(%w) up(%w) down(%wd) act(relu2) rounding(exact)
     : (tensor<2x?x64xf16>, tensor<128x64xf16>, tensor<128x64xf16>,
        tensor<32x128xf16>) -> tensor<2x?x32xf32>
  return
}

// CHECK-LABEL: @norm
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[N:.*]]: tensor<64xbf16>, %[[W:.*]]: tensor<64x64xbf16>
func.func @norm(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
                %w: tensor<64x64xbf16>) {
  // CHECK: fuse.gated_mlp %[[X]] norm(rms %[[N]] eps 1.0e-06) gate
  %0 = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%w) up(%w) down(%w)
         act(silu) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>,
        tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  // CHECK: norm(rms %[[N]] eps 1.0e-06 offset 1 cast after_weight)
  %1 = fuse.gated_mlp %x norm(rms %n eps 1.0e-6 offset 1 cast after_weight)
         gate(%w) up(%w) down(%w) act(silu) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>,
        tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  // CHECK: norm(rms eps 1.0e-06)
  %2 = fuse.gated_mlp %x norm(rms eps 1.0e-6) gate(%w) up(%w) down(%w)
         act(silu) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>,
        tensor<64x64xbf16>) -> tensor<?x64xbf16>
  // CHECK: norm(layer %[[N]], %[[N]] eps 1.0e-05)
  %3 = fuse.gated_mlp %x norm(layer %n, %n eps 1.0e-5) gate(%w) up(%w) down(%w)
         act(silu) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16>,
        tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
       -> tensor<?x64xbf16>
  // CHECK: norm(layer %[[N]] eps 1.0e-05)
  %4 = fuse.gated_mlp %x norm(layer %n eps 1.0e-5) gate(%w) up(%w) down(%w)
         act(silu) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>,
        tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @residuals
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[R:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<64x64xbf16>
func.func @residuals(%x: tensor<?x64xbf16>, %r: tensor<?x64xbf16>,
                     %w: tensor<64x64xbf16>) {
  // Another value is added to the result.
  // CHECK: fuse.gated_mlp %[[X]] gate({{.*}} act(silu) then_add(%[[R]]) rounding
  %0 = fuse.gated_mlp %x gate(%w) up(%w) down(%w) act(silu) then_add(%r)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>,
        tensor<64x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  // The stream is added to the result.
  // CHECK: fuse.gated_mlp %[[X]] residual(%[[R]]) gate({{.*}} act(silu) add_stream rounding
  %1 = fuse.gated_mlp %x residual(%r) gate(%w) up(%w) down(%w) act(silu)
         add_stream rounding(exact)
     : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64x64xbf16>,
        tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<?x64xbf16>
  // The stream is a second result.
  // CHECK: %{{.*}}:2 = fuse.gated_mlp %[[X]] residual(%[[R]]) gate({{.*}} also([stream]) rounding
  %2:2 = fuse.gated_mlp %x residual(%r) gate(%w) up(%w) down(%w) act(silu)
           also([stream]) rounding(exact)
     : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64x64xbf16>,
        tensor<64x64xbf16>, tensor<64x64xbf16>)
       -> (tensor<?x64xbf16>, tensor<?x64xbf16>)
  return
}

// CHECK-LABEL: @scales
// CHECK-SAME: %[[S:[^ ]+]]: tensor<64xf32>
func.func @scales(%x: tensor<?x64xbf16>, %w: tensor<64x64xf8E4M3FN>,
                  %s: tensor<64xf32>) {
  // CHECK: scales(f8E4M3FN, input = 0.021, gate = 0.0013, up = 0.0011, hidden = 0.04, down = 9.0e-04) rounding
  %0 = fuse.gated_mlp %x gate(%w) up(%w) down(%w) act(gelu_tanh)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>,
        tensor<64x64xf8E4M3FN>) -> tensor<?x64xbf16>
  // CHECK: channel_scales(%[[S]], %[[S]]) scales(f8E4M3FN, {{.*}} up = per_channel, {{.*}} down = per_channel) rounding
  %1 = fuse.gated_mlp %x gate(%w) up(%w) down(%w) act(gelu_tanh)
         channel_scales(%s, %s)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = per_channel,
                hidden = 4.0e-2, down = per_channel)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>,
        tensor<64x64xf8E4M3FN>, tensor<64xf32>, tensor<64xf32>)
       -> tensor<?x64xbf16>
  return
}

// CHECK-LABEL: @qdq
func.func @qdq(%x: tensor<?x64xbf16>, %w: tensor<64x64xi8>) {
  // CHECK: scales(i8, {{.*}}, order = divide, form = qdq) rounding(exact types {dequantized = f32})
  %0 = fuse.gated_mlp %x gate(%w) up(%w) down(%w) act(silu)
         scales(i8, input = 0.5, gate = 0.5, up = 0.5, hidden = 0.5, down = 0.5,
                order = divide, form = qdq)
         rounding(exact types {dequantized = f32})
     : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>,
        tensor<64x64xi8>) -> tensor<?x64xbf16>
  return
}

// All clauses, in the order in which they are printed.
// CHECK-LABEL: @everything
func.func @everything(%x: tensor<?x64xbf16>, %r: tensor<?x64xbf16>,
                      %n: tensor<64xbf16>, %wg: tensor<128x64xf8E4M3FN>,
                      %wd: tensor<64x128xf8E4M3FN>, %s: tensor<128xf32>,
                      %b: tensor<128xbf16>) {
  // CHECK: fuse.gated_mlp
  // CHECK-SAME: residual(
  // CHECK-SAME: norm(
  // CHECK-SAME: gate(
  // CHECK-SAME: up(
  // CHECK-SAME: down(
  // CHECK-SAME: act(gelu_tanh)
  // CHECK-SAME: add_stream
  // CHECK-SAME: channel_scales(
  // CHECK-SAME: also([stream])
  // CHECK-SAME: scales(
  // CHECK-SAME: rounding(exact types {act = f32})
  // CHECK-SAME: origins(["model.layers.0.mlp"])
  // CHECK-SAME: site("block#0")
  // CHECK-SAME: provenance(places = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10], commuted = [product])
  // CHECK-SAME: {note}
  %0:2 = fuse.gated_mlp %x residual(%r) norm(rms %n eps 1.0e-6)
           gate(%wg) up(%wg bias %b) down(%wd) act(gelu_tanh) add_stream
           channel_scales(%s) also([stream])
           scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = per_channel,
                  hidden = 4.0e-2, down = 9.0e-4)
           rounding(exact types {act = f32})
           origins(["model.layers.0.mlp"]) site("block#0")
           provenance(places = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10],
                      commuted = [product])
           {note}
         : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>,
            tensor<128x64xf8E4M3FN>, tensor<128x64xf8E4M3FN>,
            tensor<128xbf16>, tensor<64x128xf8E4M3FN>, tensor<128xf32>)
           -> (tensor<?x64xbf16>, tensor<?x64xbf16>)
  return
}

// Only weights are stored, so activations have no scales.
// CHECK-LABEL: @weight_only
func.func @weight_only(%x: tensor<?x64xbf16>, %g: tensor<128x64xf8E4M3FN>,
                       %d: tensor<64x128xf8E4M3FN>, %s: tensor<128xf32>,
                       %b: tensor<64xbf16>) {
  // CHECK: act(silu) channel_scales(%{{[a-z0-9]+}})
  // CHECK-SAME: scales(f8E4M3FN, gate = 0.1, up = per_channel, down = 0.2, form = weight_only) rounding(exact bias after_rounding)
  %0 = fuse.gated_mlp %x gate(%g) up(%g) down(%d bias %b) act(silu)
         channel_scales(%s)
         scales(f8E4M3FN, gate = 0.1, up = per_channel, down = 0.2,
                form = weight_only) rounding(exact bias after_rounding)
     : (tensor<?x64xbf16>, tensor<128x64xf8E4M3FN>, tensor<128x64xf8E4M3FN>,
        tensor<64x128xf8E4M3FN>, tensor<64xbf16>, tensor<128xf32>)
       -> tensor<?x64xbf16>
  return
}
