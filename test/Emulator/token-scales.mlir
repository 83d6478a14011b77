// Decode kernels of weights with a scale for each output channel, and of
// activations with a measured scale for each token, with three interleaving
// seeds. The scale of hidden units needs the units of all blocks.

// RUN: fuse-run %s --verify --chip=sm_90a --entry=gated --dim=1,3,16,17 \
// RUN:   | FileCheck %s -DVALUES=9472
// RUN: fuse-run %s --verify --chip=sm_90a --entry=linears --dim=1,3,16,17 \
// RUN:   | FileCheck %s -DVALUES=14208
// RUN: fuse-run %s --verify --chip=sm_90a --entry=mlp --dim=3,65 \
// RUN:   | FileCheck %s -DVALUES=19584

// CHECK: V2 scheduled on fuse emulator ok [[VALUES]] of [[VALUES]] values checked by contract, the same bits 3 times

func.func @gated(%x: tensor<?x256xbf16>, %n: tensor<256xbf16>,
                 %g: tensor<256x256xf8E4M3FN>, %u: tensor<256x256xf8E4M3FN>,
                 %d: tensor<256x256xf8E4M3FN>, %sg: tensor<256xf32>,
                 %su: tensor<256xf32>, %sd: tensor<256xf32>)
    -> tensor<?x256xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) then_add(%x) channel_scales(%sg, %su, %sd)
         quant(f8E4M3FN, weights = channel, activations = per_token,
               floor = amax<1.0e-10>, order = divide)
         rounding(exact)
    : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>,
       tensor<?x256xbf16>, tensor<256xf32>, tensor<256xf32>, tensor<256xf32>)
      -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

func.func @linears(%x: tensor<?x256xbf16>, %n: tensor<256xbf16>,
                   %q: tensor<256x256xf8E4M3FN>, %k: tensor<64x256xf8E4M3FN>,
                   %v: tensor<64x256xf8E4M3FN>, %b: tensor<64xbf16>,
                   %sq: tensor<256xf32>, %sk: tensor<64xf32>,
                   %sv: tensor<64xf32>)
    -> (tensor<?x256xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %y:3 = fuse.norm_linear %x norm(rms %n eps 1.0e-6)
           linear(%q, %k bias %b, %v) channel_scales(%sq, %sk, %sv)
           quant(f8E4M3FN, weights = channel, activations = per_token,
                 upper = 2.5)
           rounding(exact)
    : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<64x256xf8E4M3FN>, tensor<64x256xf8E4M3FN>, tensor<64xbf16>,
       tensor<256xf32>, tensor<64xf32>, tensor<64xf32>)
      -> (tensor<?x256xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>)
  return %y#0, %y#1, %y#2
    : tensor<?x256xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>
}

// Widths that end inside of a k-step and of a tile. The hidden value reaches the
// quantizer in f32.

func.func @mlp(%x: tensor<?x144xbf16>, %r: tensor<?x144xbf16>,
               %n: tensor<144xbf16>, %nb: tensor<144xbf16>,
               %u: tensor<336x144xf8E4M3FN>, %ub: tensor<336xbf16>,
               %d: tensor<144x336xf8E4M3FN>, %db: tensor<144xbf16>,
               %su: tensor<336xf32>, %sd: tensor<144xf32>)
    -> (tensor<?x144xbf16>, tensor<?x144xbf16>) {
  %y, %s = fuse.mlp %x residual(%r) norm(layer %n, %nb eps 1.0e-5)
             up(%u bias %ub) down(%d bias %db) act(relu) add_stream
             channel_scales(%su, %sd)
             quant(f8E4M3FN, weights = channel, activations = per_token,
                   scale_op = reciprocal)
             also([stream]) rounding(exact types {act = f32})
    : (tensor<?x144xbf16>, tensor<?x144xbf16>, tensor<144xbf16>,
       tensor<144xbf16>, tensor<336x144xf8E4M3FN>, tensor<336xbf16>,
       tensor<144x336xf8E4M3FN>, tensor<144xbf16>, tensor<336xf32>,
       tensor<144xf32>) -> (tensor<?x144xbf16>, tensor<?x144xbf16>)
  return %y, %s : tensor<?x144xbf16>, tensor<?x144xbf16>
}
