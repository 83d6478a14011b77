// RUN: fuse-opt %s --fuse-form-stages | FileCheck %s
// RUN: fuse-opt %s --fuse-form-stages --fuse-lower-stages > %t.lowered
// RUN: fuse-opt %s --fuse-unfuse > %t.unfused
// RUN: diff %t.unfused %t.lowered

// The layer ops of a graph are those of its fused op, in their order.

// Gate and up are one product. The second result of the rows is added to that
// of the last product.

// CHECK-LABEL: func.func @gated
// CHECK:       %[[Y:.*]]:2 = stage.graph(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5) attributes {origins = ["mlp"], site = "gated#0"}
// CHECK-NEXT:  ^bb0(%[[X:.*]]: tensor<?x64xbf16>, %[[R:.*]]: tensor<?x64xbf16>, %[[N:.*]]: tensor<64xbf16>, %[[G:.*]]: tensor<128x64xbf16>, %[[U:.*]]: tensor<128x64xbf16>, %[[D:.*]]: tensor<64x128xbf16>):
// CHECK-NEXT:    %[[ROWS:.*]]:2 = stage.rows(%[[X]], %[[R]], %[[N]]) :
// CHECK:           %[[S:.*]] = fuse.residual_add
// CHECK:           %[[M:.*]] = fuse.rms_norm %[[S]]
// CHECK:           stage.yield %[[S]], %[[M]]
// CHECK:         %[[H:.*]] = stage.product %[[ROWS]]#1 by(%[[G]], %[[U]]) :
// CHECK-NEXT:    ^bb0(%[[SG:.*]]: tensor<?x128xf32>, %[[SU:.*]]: tensor<?x128xf32>):
// CHECK-NEXT:      %[[FG:.*]] = stage.finish %[[SG]]
// CHECK-NEXT:      %[[A:.*]] = fuse.activation silu %[[FG]]
// CHECK-NEXT:      %[[FU:.*]] = stage.finish %[[SU]]
// CHECK-NEXT:      fuse.gated_mul %[[A]], %[[FU]]
// CHECK:         %[[O:.*]] = stage.product %[[H]] by(%[[D]]) with(%[[ROWS]]#0) :
// CHECK:           stage.finish
// CHECK-NEXT:      fuse.residual_add
// CHECK:         stage.yield %[[O]], %[[ROWS]]#0
// CHECK:       return %[[Y]]#0, %[[Y]]#1
func.func @gated(%x: tensor<?x64xbf16>, %r: tensor<?x64xbf16>,
                 %n: tensor<64xbf16>, %g: tensor<128x64xbf16>,
                 %u: tensor<128x64xbf16>, %d: tensor<64x128xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %y:2 = fuse.gated_mlp %x residual(%r) norm(rms %n eps 1.0e-6) gate(%g) up(%u)
           down(%d) act(silu) add_stream also([stream]) rounding(exact)
           origins(["mlp"]) site("gated#0")
       : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>,
          tensor<128x64xbf16>, tensor<128x64xbf16>, tensor<64x128xbf16>)
         -> (tensor<?x64xbf16>, tensor<?x64xbf16>)
  return %y#0, %y#1 : tensor<?x64xbf16>, tensor<?x64xbf16>
}

// Without a norm, the first product reads the operand. A rounding that a kernel
// may skip is in the contract.

// CHECK-LABEL: func.func @dense
// CHECK:       stage.graph({{.*}}) attributes {rounding = #fuse.rounding<relaxed skip [up, act]>}
// CHECK-NEXT:  ^bb0(%[[X:.*]]: tensor<?x64xf16>, %[[U:.*]]: tensor<128x64xf16>, %[[B:.*]]: tensor<128xf16>, %[[D:.*]]: tensor<64x128xf16>):
// CHECK-NEXT:    %[[H:.*]] = stage.product %[[X]] by(%[[U]]) with(%[[B]]) :
// CHECK:           %[[F:.*]] = stage.finish %{{.*}} bias(%{{.*}}) added after_rounding
// CHECK-NEXT:      %[[A:.*]] = fuse.activation gelu %[[F]]
// CHECK-NEXT:      stage.yield %[[A]]
// CHECK:         stage.product %[[H]] by(%[[D]]) :
func.func @dense(%x: tensor<?x64xf16>, %u: tensor<128x64xf16>,
                 %b: tensor<128xf16>, %d: tensor<64x128xf16>)
    -> tensor<?x64xf16> {
  %y = fuse.mlp %x up(%u bias %b) down(%d) act(gelu)
         rounding(relaxed bias after_rounding skip [up, act])
     : (tensor<?x64xf16>, tensor<128x64xf16>, tensor<128xf16>,
        tensor<64x128xf16>) -> tensor<?x64xf16>
  return %y : tensor<?x64xf16>
}

// Static quantization is elementwise: the hidden units are quantized in the
// epilogue, the input in the rows.

// CHECK-LABEL: func.func @static
// CHECK:       stage.rows
// CHECK:         fuse.rms_norm
// CHECK:         fuse.quantize
// CHECK:       %[[H:.*]] = stage.product {{.*}} -> tensor<?x128xf8E4M3FN>
// CHECK:         stage.finish %{{.*}} scales(0.5, 0.25)
// CHECK-NEXT:    fuse.activation relu
// CHECK-NEXT:    fuse.quantize
// CHECK:       stage.product %[[H]]
// CHECK-NOT:   stage.rows
func.func @static(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
                  %u: tensor<128x64xf8E4M3FN>, %d: tensor<64x128xf8E4M3FN>)
    -> tensor<?x64xbf16> {
  %y = fuse.mlp %x norm(rms %n eps 1.0e-6) up(%u) down(%d) act(relu)
         scales(f8E4M3FN, input = 0.5, up = 0.25, hidden = 0.5, down = 0.25)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<128x64xf8E4M3FN>,
        tensor<64x128xf8E4M3FN>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// A scale of a token needs all of its hidden units, so that a second stage of
// rows quantizes them.

// CHECK-LABEL: func.func @tokens
// CHECK:       %[[Q:.*]]:2 = stage.rows
// CHECK:         fuse.dynamic_quantize per_token
// CHECK:       %[[H:.*]] = stage.product %[[Q]]#0 {{.*}} -> tensor<?x128xbf16>
// CHECK:       %[[P:.*]]:2 = stage.rows(%[[H]]) :
// CHECK:         fuse.dynamic_quantize per_token
// CHECK:       stage.product %[[P]]#0 by(%{{.*}}) with(%{{.*}}, %[[P]]#1)
func.func @tokens(%x: tensor<?x64xbf16>, %u: tensor<128x64xf8E4M3FN>,
                  %d: tensor<64x128xf8E4M3FN>, %su: tensor<128xf32>,
                  %sd: tensor<64xf32>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) channel_scales(%su, %sd)
         quant(f8E4M3FN, weights = channel, activations = per_token)
         rounding(exact)
     : (tensor<?x64xbf16>, tensor<128x64xf8E4M3FN>, tensor<64x128xf8E4M3FN>,
        tensor<128xf32>, tensor<64xf32>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Three projections are one product with three results.

// CHECK-LABEL: func.func @projections
// CHECK:       %[[N:.*]] = stage.rows
// CHECK:       %[[Q:.*]]:3 = stage.product %[[N]] by(%{{.*}}, %{{.*}}, %{{.*}}) with(%{{.*}}) :
// CHECK:         stage.finish %{{.*}} bias
// CHECK-NEXT:    stage.finish %{{[a-z0-9]+}} :
// CHECK-NEXT:    stage.finish %{{[a-z0-9]+}} :
// CHECK:       stage.yield %[[Q]]#0, %[[Q]]#1, %[[Q]]#2, %[[N]]
func.func @projections(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                       %b: tensor<64xbf16>, %q: tensor<64x64xbf16>,
                       %k: tensor<16x64xbf16>, %c: tensor<64xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x16xbf16>, tensor<?x16xbf16>,
        tensor<?x64xbf16>) {
  %y:4 = fuse.norm_linear %x norm(layer %w, %b eps 1.0e-5)
           linear(%q bias %c, %k, %k) also([normed]) rounding(exact)
       : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16>,
          tensor<64x64xbf16>, tensor<16x64xbf16>, tensor<16x64xbf16>,
          tensor<64xbf16>)
         -> (tensor<?x64xbf16>, tensor<?x16xbf16>, tensor<?x16xbf16>,
             tensor<?x64xbf16>)
  return %y#0, %y#1, %y#2, %y#3 : tensor<?x64xbf16>, tensor<?x16xbf16>,
    tensor<?x16xbf16>, tensor<?x64xbf16>
}

// A linear without a norm is one product.

// CHECK-LABEL: func.func @linear
// CHECK:       ^bb0(%[[X:.*]]: tensor<?x64xbf16>, %[[W:.*]]: tensor<32x64xbf16>, %[[S:.*]]: tensor<?x32xbf16>):
// CHECK-NEXT:    stage.product %[[X]] by(%[[W]]) with(%[[S]]) :
// CHECK:           stage.finish
// CHECK-NEXT:      fuse.residual_add
func.func @linear(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>,
                  %s: tensor<?x32xbf16>) -> tensor<?x32xbf16> {
  %y = fuse.fused_linear %x linear(%w) then_add(%s) rounding(exact)
     : (tensor<?x64xbf16>, tensor<32x64xbf16>, tensor<?x32xbf16>)
       -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
