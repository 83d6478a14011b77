// RUN: fuse-run %s --verify --chip=sm_90a --entry=gated_bf16 \
// RUN:   --dim=1,9,33,65,129,200 | FileCheck %s -DVALUES=55936
// RUN: fuse-run %s --verify --chip=sm_90a --entry=gated_f8 \
// RUN:   --dim=1,9,33,65,129,200 | FileCheck %s -DVALUES=55936
// RUN: fuse-run %s --verify --chip=sm_90a --entry=mlp --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=20864
// RUN: fuse-run %s --verify --chip=sm_90a --entry=norm_linear --dim=1,33,129 \
// RUN:   | FileCheck %s -DVALUES=31296

// Kernels of the scheduled path, decode and prefill, in three orders of their
// threads and copies: at once, as late as possible, and at random.

// CHECK: V2 scheduled on fuse emulator ok [[VALUES]] of [[VALUES]] values checked by contract, the same bits 3 times

// As imported: the norm's weight is a parameter, which is not packed.
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
