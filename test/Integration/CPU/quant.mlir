// RUN: fuse-run %s --verify --dim=0,1,3 | FileCheck %s
// RUN: fuse-run %s --verify --chip=sm_90a --dim=0,17 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=GPU
// RUN: fuse-run %s --verify --chip=sm_80 --dim=3 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=GPU

// Weights with scales per block or output channel, and activations whose
// scales are measured per group or token: fused and unfused give the same bits,
// and generated code gives what the contract allows.

// CHECK-NOT: FAILED
// CHECK-COUNT-4: bit-equal
// CHECK-NOT: FAILED

// GPU-NOT: FAILED
// GPU-COUNT-4: V2 portable on fuse emulator ok {{.*}} values checked by contract, the same bits 2 times
// GPU-NOT: FAILED

// The last blocks of outputs have 4 and 2 of 8 rows.

func.func @block(%x: tensor<?x32xbf16>, %n: tensor<32xbf16>,
                 %g: tensor<24x32xf8E4M3FN>, %u: tensor<24x32xf8E4M3FN>,
                 %d: tensor<20x24xf8E4M3FN>, %b: tensor<20xbf16>,
                 %sg: tensor<3x4xf32>, %su: tensor<3x4xf32>,
                 %sd: tensor<3x3xf32>) -> tensor<?x20xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u)
         down(%d bias %b) act(silu) channel_scales(%sg, %su, %sd)
         quant(f8E4M3FN, weights = block<8x8>, activations = per_group<8>,
               floor = amax<1.0e-4>, scale_op = reciprocal, sums = block<8>)
         rounding(exact bias after_rounding)
    : (tensor<?x32xbf16>, tensor<32xbf16>, tensor<24x32xf8E4M3FN>,
       tensor<24x32xf8E4M3FN>, tensor<20x24xf8E4M3FN>, tensor<20xbf16>,
       tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x3xf32>) -> tensor<?x20xbf16>
  return %y : tensor<?x20xbf16>
}

// The hidden value reaches the quantizer in f32.

func.func @channel(%x: tensor<2x?x20xf16>, %r: tensor<2x?x20xf16>,
                   %n: tensor<20xf16>, %b: tensor<20xf16>,
                   %u: tensor<37x20xf8E4M3FN>, %d: tensor<20x37xf8E4M3FN>,
                   %su: tensor<37xf32>, %sd: tensor<20xf32>)
    -> tensor<2x?x20xf16> {
  %y = fuse.mlp %x residual(%r) norm(layer %n, %b eps 1.0e-5) up(%u) down(%d)
         act(gelu) add_stream channel_scales(%su, %sd)
         quant(f8E4M3FN, weights = channel, activations = per_token,
               floor = amax<1.0e-10>, order = divide)
         rounding(exact types {act = f32})
    : (tensor<2x?x20xf16>, tensor<2x?x20xf16>, tensor<20xf16>, tensor<20xf16>,
       tensor<37x20xf8E4M3FN>, tensor<20x37xf8E4M3FN>, tensor<37xf32>,
       tensor<20xf32>) -> tensor<2x?x20xf16>
  return %y : tensor<2x?x20xf16>
}

// An upper limit, integers, and one scale per weight.

func.func @integers(%x: tensor<?x24xf32>, %n: tensor<24xf32>,
                    %a: tensor<5x24xi8>, %b: tensor<3x24xi8>,
                    %s: tensor<1xf32>, %t: tensor<1xf32>)
    -> (tensor<?x5xf32>, tensor<?x3xf32>) {
  %p, %q = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%a, %b)
             channel_scales(%s, %t)
             quant(i8, weights = tensor, activations = per_token, upper = 1.5)
             rounding(exact)
    : (tensor<?x24xf32>, tensor<24xf32>, tensor<5x24xi8>, tensor<3x24xi8>,
       tensor<1xf32>, tensor<1xf32>) -> (tensor<?x5xf32>, tensor<?x3xf32>)
  return %p, %q : tensor<?x5xf32>, tensor<?x3xf32>
}

// Blocks of 32 inputs in groups of 16, and a last block of a sum that is
// shorter.

func.func @subgroups(%x: tensor<?x48xbf16>, %n: tensor<48xbf16>,
                     %w: tensor<7x48xf8E5M2>, %s: tensor<1x2xf32>)
    -> tensor<?x7xbf16> {
  %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w)
         channel_scales(%s)
         quant(f8E5M2, weights = block<32x32>, activations = per_group<16>,
               sums = block<16>)
         rounding(exact)
    : (tensor<?x48xbf16>, tensor<48xbf16>, tensor<7x48xf8E5M2>,
       tensor<1x2xf32>) -> tensor<?x7xbf16>
  return %y : tensor<?x7xbf16>
}
