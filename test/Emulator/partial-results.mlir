// Kernels with partial results in f32, as ranks of tensor parallelism have them
// before their sum: no rounding and no bias. Decode and prefill kernels of
// sm_90a, kernels with mma.sync, and the portable path.

// RUN: fuse-run %s --verify --chip=sm_90a --entry=gated_bf16 \
// RUN:   --dim=1,9,33,129,200 | FileCheck %s -DVALUES=47616
// RUN: fuse-run %s --verify --chip=sm_90a --entry=gated_f8 \
// RUN:   --dim=1,33,129 | FileCheck %s -DVALUES=20864
// RUN: fuse-run %s --verify --chip=sm_90a --entry=blocks_f8 --dim=1,17 \
// RUN:   | FileCheck %s -DVALUES=4608
// RUN: fuse-run %s --verify --chip=sm_90a --entry=mlp --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=20864
// RUN: fuse-run %s --verify --chip=sm_90a --entry=norm_linear --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=31296
// RUN: fuse-run %s --verify --chip=sm_90a --entry=relaxed --dim=1,33 \
// RUN:   | FileCheck %s -DVALUES=4352
// RUN: fuse-run %s --verify --chip=sm_80 --entry=gated_bf16 --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=20864
// RUN: fuse-run %s --verify --chip=sm_90a --portable --entry=mlp --dim=3 \
// RUN:   | FileCheck %s -DVALUES=384 --check-prefix=PORTABLE

// CHECK: V2 scheduled on fuse emulator ok [[VALUES]] of [[VALUES]] values checked by contract, the same bits 3 times
// PORTABLE: V2 portable on fuse emulator ok [[VALUES]] of [[VALUES]] values checked by contract, the same bits 3 times

func.func @gated_bf16(%x: tensor<?x128xbf16>, %r: tensor<?x128xbf16>,
                      %w: tensor<128xbf16>, %g: tensor<192x128xbf16>,
                      %u: tensor<192x128xbf16>, %d: tensor<128x192xbf16>)
    -> tensor<?x128xf32> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %w eps 1.0e-6) gate(%g) up(%u)
         down(%d) act(silu) rounding(exact)
       : (tensor<?x128xbf16>, tensor<?x128xbf16>, tensor<128xbf16>,
          tensor<192x128xbf16>, tensor<192x128xbf16>, tensor<128x192xbf16>)
         -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

func.func @gated_f8(%x: tensor<?x128xbf16>, %w: tensor<128xbf16>,
                    %g: tensor<192x128xf8E4M3FN>, %u: tensor<192x128xf8E4M3FN>,
                    %d: tensor<128x192xf8E4M3FN>) -> tensor<?x128xf32> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
       : (tensor<?x128xbf16>, tensor<128xbf16>, tensor<192x128xf8E4M3FN>,
          tensor<192x128xf8E4M3FN>, tensor<128x192xf8E4M3FN>)
         -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

func.func @blocks_f8(%x: tensor<?x256xbf16>, %n: tensor<256xbf16>,
                     %g: tensor<256x256xf8E4M3FN>, %u: tensor<256x256xf8E4M3FN>,
                     %d: tensor<256x256xf8E4M3FN>, %sg: tensor<2x2xf32>,
                     %su: tensor<2x2xf32>, %sd: tensor<2x2xf32>)
    -> tensor<?x256xf32> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) channel_scales(%sg, %su, %sd)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, floor = amax<1.0e-4>,
               scale_op = reciprocal, sums = block<128>)
         rounding(exact)
    : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>,
       tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
      -> tensor<?x256xf32>
  return %y : tensor<?x256xf32>
}

func.func @mlp(%x: tensor<?x128xbf16>, %u: tensor<192x128xbf16>,
               %b: tensor<192xbf16>, %d: tensor<128x192xbf16>)
    -> tensor<?x128xf32> {
  %y = fuse.mlp %x up(%u bias %b) down(%d) act(gelu) rounding(exact)
       : (tensor<?x128xbf16>, tensor<192x128xbf16>, tensor<192xbf16>,
          tensor<128x192xbf16>) -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}

// One result of two is partial.
func.func @norm_linear(%x: tensor<?x128xbf16>, %w: tensor<128xbf16>,
                       %q: tensor<128x128xbf16>, %k: tensor<64x128xbf16>)
    -> (tensor<?x128xf32>, tensor<?x64xbf16>) {
  %y:2 = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%q, %k)
           rounding(exact)
       : (tensor<?x128xbf16>, tensor<128xbf16>, tensor<128x128xbf16>,
          tensor<64x128xbf16>) -> (tensor<?x128xf32>, tensor<?x64xbf16>)
  return %y#0, %y#1 : tensor<?x128xf32>, tensor<?x64xbf16>
}

// The relaxed contract permits partial sums in bf16 only before a rounding.
func.func @relaxed(%x: tensor<?x128xbf16>, %u: tensor<192x128xbf16>,
                   %d: tensor<128x192xbf16>) -> tensor<?x128xf32> {
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) rounding(relaxed skip [act])
       : (tensor<?x128xbf16>, tensor<192x128xbf16>, tensor<128x192xbf16>)
         -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
