// Decode and prefill kernels of the scheduled path, with three interleaving
// seeds: asynchronous operations complete at once, as late as possible, and at
// random times.

// RUN: fuse-run %s --verify --chip=sm_90a --entry=gated_bf16 \
// RUN:   --dim=1,9,33,65,129,200 | FileCheck %s -DVALUES=55936
// RUN: fuse-run %s --verify --chip=sm_90a --entry=gated_f8 \
// RUN:   --dim=1,9,33,65,129,200 | FileCheck %s -DVALUES=55936
// RUN: fuse-run %s --verify --chip=sm_90a --entry=mlp --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=20864
// RUN: fuse-run %s --verify --chip=sm_90a --entry=norm_linear --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=31296
// RUN: fuse-run %s --verify --chip=sm_90a --entry=batched --dim=1,5,33 \
// RUN:   | FileCheck %s -DVALUES=2496
// RUN: fuse-run %s --verify --chip=sm_90a --entry=batches --dim=2,3 \
// RUN:   | FileCheck %s -DVALUES=832
// RUN: fuse-run %s --verify --chip=sm_90a --entry=batch \
// RUN:   | FileCheck %s -DVALUES=288
// RUN: fuse-run %s --verify --chip=sm_90a --entry=token \
// RUN:   | FileCheck %s -DVALUES=32
// RUN: fuse-run %s --verify --chip=sm_90a --entry=batched_rows --dim=1,5 \
// RUN:   | FileCheck %s -DVALUES=576
// RUN: fuse-run %s --verify --chip=sm_90a --entry=relaxed --dim=1,33 \
// RUN:   | FileCheck %s -DVALUES=8704

// CHECK: V2 scheduled on fuse emulator ok [[VALUES]] of [[VALUES]] values checked by contract, the same bits 3 times

// The weight of the norm is a parameter, as in imported modules. It is not
// packed.
func.func @gated_bf16(%x: tensor<?x128xbf16>,
                      %w: tensor<128xbf16> {fuse.parameter = "norm.weight"},
                      %g: tensor<192x128xbf16>, %u: tensor<192x128xbf16>,
                      %d: tensor<128x192xbf16>) -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) then_add(%x) rounding(exact)
       : (tensor<?x128xbf16>, tensor<128xbf16>, tensor<192x128xbf16>,
          tensor<192x128xbf16>, tensor<128x192xbf16>, tensor<?x128xbf16>)
         -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

func.func @gated_f8(%x: tensor<?x128xbf16>, %w: tensor<128xbf16>,
                    %g: tensor<192x128xf8E4M3FN>, %u: tensor<192x128xf8E4M3FN>,
                    %d: tensor<128x192xf8E4M3FN>) -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
       : (tensor<?x128xbf16>, tensor<128xbf16>, tensor<192x128xf8E4M3FN>,
          tensor<192x128xf8E4M3FN>, tensor<128x192xf8E4M3FN>)
         -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

func.func @mlp(%x: tensor<?x128xbf16>, %w: tensor<128xbf16>,
               %b: tensor<128xbf16>, %w1: tensor<192x128xbf16>,
               %b1: tensor<192xbf16>, %w2: tensor<128x192xbf16>,
               %b2: tensor<128xbf16>) -> tensor<?x128xbf16> {
  %y = fuse.mlp %x norm(layer %w, %b eps 1.0e-5) up(%w1 bias %b1)
         down(%w2 bias %b2) act(gelu_tanh) rounding(exact)
       : (tensor<?x128xbf16>, tensor<128xbf16>, tensor<128xbf16>,
          tensor<192x128xbf16>, tensor<192xbf16>, tensor<128x192xbf16>,
          tensor<128xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

func.func @norm_linear(%x: tensor<?x128xbf16>, %w: tensor<128xbf16>,
                       %q: tensor<128x128xbf16>, %k: tensor<64x128xbf16>)
    -> (tensor<?x128xbf16>, tensor<?x64xbf16>) {
  %y:2 = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%q, %k)
           rounding(exact)
         : (tensor<?x128xbf16>, tensor<128xbf16>, tensor<128x128xbf16>,
            tensor<64x128xbf16>) -> (tensor<?x128xbf16>, tensor<?x64xbf16>)
  return %y#0, %y#1 : tensor<?x128xbf16>, tensor<?x64xbf16>
}

// Each row is a token, for any number of leading dimensions.
func.func @batched(%x: tensor<2x?x64xbf16>, %q: tensor<32x64xbf16>)
    -> tensor<2x?x32xbf16> {
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
       : (tensor<2x?x64xbf16>, tensor<32x64xbf16>) -> tensor<2x?x32xbf16>
  return %y : tensor<2x?x32xbf16>
}

func.func @batches(%x: tensor<?x?x2x64xbf16>, %q: tensor<32x64xbf16>)
    -> tensor<?x?x2x32xbf16> {
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
       : (tensor<?x?x2x64xbf16>, tensor<32x64xbf16>) -> tensor<?x?x2x32xbf16>
  return %y : tensor<?x?x2x32xbf16>
}

func.func @batch(%x: tensor<1x9x64xbf16>, %q: tensor<32x64xbf16>)
    -> tensor<1x9x32xbf16> {
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
       : (tensor<1x9x64xbf16>, tensor<32x64xbf16>) -> tensor<1x9x32xbf16>
  return %y : tensor<1x9x32xbf16>
}

func.func @token(%x: tensor<64xbf16>, %q: tensor<32x64xbf16>)
    -> tensor<32xbf16> {
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
       : (tensor<64xbf16>, tensor<32x64xbf16>) -> tensor<32xbf16>
  return %y : tensor<32xbf16>
}

func.func @batched_rows(%x: tensor<2x?x48xbf16>) -> tensor<2x?x48xf8E4M3FN> {
  %y = fuse.norm_quantize %x norm(rms eps 1.0e-6)
         scales(f8E4M3FN, input = 0.5) rounding(exact)
       : (tensor<2x?x48xbf16>) -> tensor<2x?x48xf8E4M3FN>
  return %y : tensor<2x?x48xf8E4M3FN>
}

// From 33 tokens on, partial sums of GEMM2 are rounded to bf16.
func.func @relaxed(%x: tensor<?x256xbf16>, %up: tensor<256x256xbf16>,
                   %down: tensor<256x256xbf16>) -> tensor<?x256xbf16> {
  %y = fuse.mlp %x up(%up) down(%down) act(relu) rounding(relaxed)
       : (tensor<?x256xbf16>, tensor<256x256xbf16>, tensor<256x256xbf16>)
         -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}
