// Decode kernels of weights with a scale for each block of 128x128, and of
// activations with a measured scale for each group of 128, with three
// interleaving seeds.

// RUN: fuse-run %s --verify --chip=sm_90a --entry=gated --dim=1,3,16,17 \
// RUN:   | FileCheck %s -DVALUES=9472
// RUN: fuse-run %s --verify --chip=sm_90a --entry=linears --dim=1,3,16,17 \
// RUN:   | FileCheck %s -DVALUES=14208
// RUN: fuse-run %s --verify --chip=sm_90a --entry=mlp --dim=3,17 \
// RUN:   | FileCheck %s -DVALUES=5120

// CHECK: V2 scheduled on fuse emulator ok [[VALUES]] of [[VALUES]] values checked by contract, the same bits 3 times

func.func @gated(%x: tensor<?x256xbf16>, %n: tensor<256xbf16>,
                 %g: tensor<256x256xf8E4M3FN>, %u: tensor<256x256xf8E4M3FN>,
                 %d: tensor<256x256xf8E4M3FN>, %sg: tensor<2x2xf32>,
                 %su: tensor<2x2xf32>, %sd: tensor<2x2xf32>)
    -> tensor<?x256xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) then_add(%x) channel_scales(%sg, %su, %sd)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, floor = amax<1.0e-4>,
               scale_op = reciprocal, sums = block<128>)
         rounding(exact)
    : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>,
       tensor<?x256xbf16>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
      -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// The last block of outputs of the second weight is half of one.

func.func @linears(%x: tensor<?x256xbf16>, %n: tensor<256xbf16>,
                   %q: tensor<256x256xf8E4M3FN>, %k: tensor<64x256xf8E4M3FN>,
                   %v: tensor<64x256xf8E4M3FN>, %b: tensor<64xbf16>,
                   %sq: tensor<2x2xf32>, %sk: tensor<1x2xf32>,
                   %sv: tensor<1x2xf32>)
    -> (tensor<?x256xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %y:3 = fuse.norm_linear %x norm(rms %n eps 1.0e-6)
           linear(%q, %k bias %b, %v) channel_scales(%sq, %sk, %sv)
           quant(f8E4M3FN, weights = block<128x128>,
                 activations = per_group<128>, order = divide,
                 sums = block<128>)
           rounding(exact)
    : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<64x256xf8E4M3FN>, tensor<64x256xf8E4M3FN>, tensor<64xbf16>,
       tensor<2x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>)
      -> (tensor<?x256xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>)
  return %y#0, %y#1, %y#2
    : tensor<?x256xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>
}

// A tile has two groups of hidden units, and the last one has one. The product
// reaches the quantizer in f32.

func.func @mlp(%x: tensor<?x128xbf16>, %r: tensor<?x128xbf16>,
               %n: tensor<128xbf16>, %nb: tensor<128xbf16>,
               %u: tensor<384x128xf8E4M3FN>, %ub: tensor<384xbf16>,
               %d: tensor<128x384xf8E4M3FN>, %db: tensor<128xbf16>,
               %su: tensor<3x1xf32>, %sd: tensor<1x3xf32>)
    -> (tensor<?x128xbf16>, tensor<?x128xbf16>) {
  %y, %s = fuse.mlp %x residual(%r) norm(layer %n, %nb eps 1.0e-5)
             up(%u bias %ub) down(%d bias %db) act(relu) add_stream
             channel_scales(%su, %sd)
             quant(f8E4M3FN, weights = block<128x128>,
                   activations = per_group<128>, upper = 3.0,
                   sums = block<128>)
             also([stream]) rounding(exact types {act = f32})
    : (tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<128xbf16>,
       tensor<128xbf16>, tensor<384x128xf8E4M3FN>, tensor<384xbf16>,
       tensor<128x384xf8E4M3FN>, tensor<128xbf16>, tensor<3x1xf32>,
       tensor<1x3xf32>) -> (tensor<?x128xbf16>, tensor<?x128xbf16>)
  return %y, %s : tensor<?x128xbf16>, tensor<?x128xbf16>
}
