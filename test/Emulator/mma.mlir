// Kernels with cp.async, ldmatrix and mma.sync, for GPUs without kernels of
// their own, with three interleaving seeds.

// RUN: fuse-run %s --verify --chip=sm_80 --entry=gated --dim=1,9,65,129 \
// RUN:   | FileCheck %s -DVALUES=26112
// RUN: fuse-run %s --verify --chip=sm_80 --entry=gated_f16 --dim=33 \
// RUN:   | FileCheck %s -DVALUES=4224
// RUN: fuse-run %s --verify --chip=sm_86 --entry=mlp --dim=1,33 \
// RUN:   | FileCheck %s -DVALUES=4352
// RUN: fuse-run %s --verify --chip=sm_90 --entry=norm_linear --dim=33 \
// RUN:   | FileCheck %s -DVALUES=6336
// RUN: fuse-run %s --verify --chip=sm_80 --entry=stream --dim=24,140 \
// RUN:   | FileCheck %s -DVALUES=13120
// RUN: fuse-run %S/scheduled.mlir --verify --chip=sm_89 --entry=batched_rows \
// RUN:   --dim=1,5 | FileCheck %s -DVALUES=576

// CHECK: V2 scheduled on fuse emulator ok [[VALUES]] of [[VALUES]] values checked by contract, the same bits 3 times

func.func @gated(%x: tensor<?x128xbf16>, %w: tensor<128xbf16>,
                 %g: tensor<192x128xbf16>, %u: tensor<192x128xbf16>,
                 %d: tensor<128x192xbf16>) -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) then_add(%x) rounding(exact)
       : (tensor<?x128xbf16>, tensor<128xbf16>, tensor<192x128xbf16>,
          tensor<192x128xbf16>, tensor<128x192xbf16>, tensor<?x128xbf16>)
         -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

func.func @gated_f16(%x: tensor<?x128xf16>, %w: tensor<128xf16>,
                     %g: tensor<176x128xf16>, %u: tensor<176x128xf16>,
                     %d: tensor<128x176xf16>) -> tensor<?x128xf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(gelu_tanh) rounding(exact)
       : (tensor<?x128xf16>, tensor<128xf16>, tensor<176x128xf16>,
          tensor<176x128xf16>, tensor<128x176xf16>) -> tensor<?x128xf16>
  return %y : tensor<?x128xf16>
}

// Two neighboring outputs of a thread, biases, a LayerNorm.
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

// Widths that are not whole k-steps, and a residual that the stream keeps.
func.func @stream(%x: tensor<?x80xbf16>, %r: tensor<?x80xbf16>,
                  %w: tensor<80xbf16>, %g: tensor<144x80xbf16>,
                  %u: tensor<144x80xbf16>, %d: tensor<80x144xbf16>)
    -> tensor<?x80xbf16> {
  %y = fuse.gated_mlp %x residual(%r) norm(rms %w eps 1.0e-6)
         gate(%g) up(%u) down(%d) act(silu) add_stream rounding(exact)
       : (tensor<?x80xbf16>, tensor<?x80xbf16>, tensor<80xbf16>,
          tensor<144x80xbf16>, tensor<144x80xbf16>, tensor<80x144xbf16>)
         -> tensor<?x80xbf16>
  return %y : tensor<?x80xbf16>
}
