// RUN: fuse-opt %s --verify-roundtrip

func.func @norms(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                 %b: tensor<64xbf16>) {
  %0 = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %1 = fuse.rms_norm %x weight(%w) eps 1.0e-6
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  %2 = fuse.rms_norm %x weight(%w) eps 1.0e-6 offset 1 cast after_weight
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xf32>
  %3 = fuse.layer_norm %x eps 1.0e-5
    : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %4 = fuse.layer_norm %x weight(%w) bias(%b) eps 1.0e-5
    : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16>)
      -> tensor<?x64xbf16>
  return
}

func.func @linear(%x: tensor<2x?x64xbf16>, %w: tensor<128x64xbf16>,
                  %b: tensor<128xbf16>, %xq: tensor<?x64xf8E4M3FN>,
                  %wq: tensor<128x64xf8E5M2>, %s: tensor<128xf32>) {
  %0 = fuse.linear %x, %w
    : (tensor<2x?x64xbf16>, tensor<128x64xbf16>) -> tensor<2x?x128xbf16>
  %1 = fuse.linear %x, %w bias(%b)
    : (tensor<2x?x64xbf16>, tensor<128x64xbf16>, tensor<128xbf16>)
      -> tensor<2x?x128xf32>
  %2 = fuse.linear %xq, %wq scales(2.1e-2, 1.3e-3)
    : (tensor<?x64xf8E4M3FN>, tensor<128x64xf8E5M2>) -> tensor<?x128xbf16>
  %3 = fuse.linear %xq, %wq bias(%b) channel_scale(%s)
         scales(2.1e-2, per_channel)
    : (tensor<?x64xf8E4M3FN>, tensor<128x64xf8E5M2>, tensor<128xbf16>,
       tensor<128xf32>) -> tensor<?x128xbf16>
  return
}

func.func @elementwise(%x: tensor<?x64xbf16>, %y: tensor<?x64xbf16>) {
  %0 = fuse.activation silu %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %1 = fuse.activation gelu %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %2 = fuse.activation gelu_tanh %x : tensor<?x64xbf16> -> tensor<?x64xf32>
  %3 = fuse.activation relu %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %4 = fuse.activation relu2 %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %5 = fuse.activation quick_gelu %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %6 = fuse.gated_mul %0, %y
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  %7 = fuse.residual_add %x, %y
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

func.func @quantization(%x: tensor<?x64xbf16>, %w: tensor<32x64xbf16>,
                        %s: tensor<32xf32>) {
  %0 = fuse.quantize %x scale 2.1e-2
    : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  %1 = fuse.quantize %x scale 2.1e-2 order divide
    : (tensor<?x64xbf16>) -> tensor<?x64xi8>
  %2 = fuse.quantize %w channel_scale(%s)
    : (tensor<32x64xbf16>, tensor<32xf32>) -> tensor<32x64xf8E5M2>
  %3 = fuse.dequantize %0 scale 2.1e-2
    : (tensor<?x64xf8E4M3FN>) -> tensor<?x64xbf16>
  %4 = fuse.dequantize %2 channel_scale(%s)
    : (tensor<32x64xf8E5M2>, tensor<32xf32>) -> tensor<32x64xbf16>
  return
}

func.func @gated_mlp(%x: tensor<?x64xbf16>, %r: tensor<?x64xbf16>,
                     %w: tensor<64xbf16>, %wg: tensor<128x64xf8E4M3FN>,
                     %wd: tensor<64x128xf8E4M3FN>, %s: tensor<128xf32>,
                     %b: tensor<128xbf16>) {
  %0:2 = fuse.gated_mlp %x residual(%r) norm(rms %w eps 1.0e-6)
           gate(%wg) up(%wg bias %b) down(%wd) act(gelu_tanh) add_stream
           channel_scales(%s) also([stream])
           scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = per_channel,
                  hidden = 4.0e-2, down = 9.0e-4)
           rounding(exact types {act = f32})
           origins(["model.layers.0.mlp"]) site("block#0")
           provenance(places = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10],
                      commuted = [product])
         : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>,
            tensor<128x64xf8E4M3FN>, tensor<128x64xf8E4M3FN>,
            tensor<128xbf16>, tensor<64x128xf8E4M3FN>, tensor<128xf32>)
           -> (tensor<?x64xbf16>, tensor<?x64xbf16>)
  return
}

func.func @mlp(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
               %w1: tensor<256x64xbf16>, %b1: tensor<256xbf16>,
               %w2: tensor<64x256xbf16>) {
  %0 = fuse.mlp %x norm(layer %w, %w eps 1.0e-5) up(%w1 bias %b1)
         down(%w2 bias %w) act(gelu) then_add(%x)
         rounding(relaxed skip [normed, act])
       : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16>,
          tensor<256x64xbf16>, tensor<256xbf16>, tensor<64x256xbf16>,
          tensor<64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

func.func @norm_linear(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                       %wq: tensor<64x64xbf16>, %wk: tensor<16x64xbf16>) {
  %0:3 = fuse.norm_linear %x norm(rms %w eps 1.0e-6)
           linear(%wq bias %w, %wk) also([normed]) rounding(exact)
         : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>,
            tensor<16x64xbf16>, tensor<64xbf16>)
           -> (tensor<?x64xbf16>, tensor<?x16xbf16>, tensor<?x64xbf16>)
  return
}

func.func @producers(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>) {
  %0:2 = fuse.norm_quantize %x residual(%x) norm(rms %w eps 1.0e-6)
           also([stream]) scales(f8E4M3FN, input = 2.1e-2) rounding(exact)
         : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>)
           -> (tensor<?x64xf8E4M3FN>, tensor<?x64xbf16>)
  %1 = fuse.act_quantize %x times(%x) act(silu)
         scales(i8, hidden = 4.0e-2, order = divide) rounding(exact)
       : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xi8>
  return
}

func.func @group(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  %0 = fuse.group(%a = %x : tensor<?x64xbf16>) -> tensor<?x64xbf16>
         rounding(exact) site("group#0") {
    %1 = fuse.activation silu %a : tensor<?x64xbf16> -> tensor<?x64xbf16>
    fuse.yield %1 : tensor<?x64xbf16>
  }
  return %0 : tensor<?x64xbf16>
}
