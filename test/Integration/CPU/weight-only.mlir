// RUN: fuse-run %s --verify --dim=0,1,3,17 | FileCheck %s

// Stored weights with activations in floating point, biases after rounding,
// and scales that are measured: fused and unfused give the same bits, and the
// reference agrees.

// CHECK-NOT: FAILED
// CHECK-COUNT-3: bit-equal
// CHECK-NOT: FAILED

func.func @e4m3(%x: tensor<?x20xbf16>, %nw: tensor<20xbf16>,
                %g: tensor<37x20xf8E4M3FN>, %u: tensor<37x20xf8E4M3FN>,
                %d: tensor<20x37xf8E4M3FN>, %s: tensor<37xf32>)
    -> tensor<?x20xbf16> {
  %y = fuse.gated_mlp %x norm(rms %nw eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(gelu_tanh) channel_scales(%s)
         scales(f8E4M3FN, gate = 1.3e-3, up = per_channel, down = 9.0e-4,
                form = weight_only)
         rounding(exact)
     : (tensor<?x20xbf16>, tensor<20xbf16>, tensor<37x20xf8E4M3FN>,
        tensor<37x20xf8E4M3FN>, tensor<20x37xf8E4M3FN>, tensor<37xf32>)
       -> tensor<?x20xbf16>
  return %y : tensor<?x20xbf16>
}

func.func @i8_bias_after(%x: tensor<?x20xf16>, %u: tensor<37x20xi8>,
                         %bu: tensor<37xf16>, %d: tensor<20x37xi8>,
                         %bd: tensor<20xf16>) -> tensor<?x20xf16> {
  %y = fuse.mlp %x up(%u bias %bu) down(%d bias %bd) act(gelu) then_add(%x)
         scales(i8, up = 1.1e-3, down = 9.0e-4, form = weight_only)
         rounding(exact bias after_rounding)
     : (tensor<?x20xf16>, tensor<37x20xi8>, tensor<37xf16>, tensor<20x37xi8>,
        tensor<20xf16>, tensor<?x20xf16>) -> tensor<?x20xf16>
  return %y : tensor<?x20xf16>
}

// The act_quantize is fused, the measured scale in front of it is not.

func.func @dynamic(%x: tensor<?x20xbf16>, %w: tensor<37x20xf8E4M3FN>)
    -> tensor<?x37xf8E4M3FN> {
  %q, %s = fuse.dynamic_quantize per_token %x
    : (tensor<?x20xbf16>) -> (tensor<?x20xf8E4M3FN>, tensor<?xf32>)
  %y = fuse.linear %q, %w dynamic_scale(%s) scales(dynamic, 1.0e-3)
    : (tensor<?x20xf8E4M3FN>, tensor<37x20xf8E4M3FN>, tensor<?xf32>)
      -> tensor<?x37xbf16>
  %h = fuse.act_quantize %y act(silu)
         scales(f8E4M3FN, hidden = 0.04) rounding(exact)
     : (tensor<?x37xbf16>) -> tensor<?x37xf8E4M3FN>
  return %h : tensor<?x37xf8E4M3FN>
}
