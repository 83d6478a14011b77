// Products of stored values in mma kernels, with three interleaving seeds:
// instructions of 8-bit floats from sm_89 on, and products of f16 before.

// RUN: fuse-run %S/scheduled.mlir --verify --chip=sm_80 --entry=gated_f8 \
// RUN:   --dim=1,9,65,129 | FileCheck %s -DVALUES=26112
// RUN: fuse-run %S/scheduled.mlir --verify --chip=sm_89 --entry=gated_f8 \
// RUN:   --dim=1,9,65,129 | FileCheck %s -DVALUES=26112
// RUN: fuse-run %s --verify --chip=sm_80 --entry=mlp --dim=1,33,140 \
// RUN:   | FileCheck %s -DVALUES=25056
// RUN: fuse-run %s --verify --chip=sm_90 --entry=mlp --dim=1,33,140 \
// RUN:   | FileCheck %s -DVALUES=25056
// RUN: fuse-run %s --verify --chip=sm_80 --entry=norm_linear --dim=17 \
// RUN:   | FileCheck %s -DVALUES=3264
// RUN: fuse-run %s --verify --chip=sm_89 --entry=norm_linear --dim=17 \
// RUN:   | FileCheck %s -DVALUES=3264

// CHECK: V2 scheduled on fuse emulator ok [[VALUES]] of [[VALUES]] values checked by contract, the same bits 3 times

// Widths that are not whole k-steps, biases, f16 and division by the scale.
func.func @mlp(%x: tensor<?x144xf16>, %w: tensor<144xf16>, %b: tensor<144xf16>,
               %w1: tensor<208x144xf8E4M3FN>, %b1: tensor<208xf16>,
               %w2: tensor<144x208xf8E4M3FN>, %b2: tensor<144xf16>)
    -> tensor<?x144xf16> {
  %y = fuse.mlp %x norm(layer %w, %b eps 1.0e-5) up(%w1 bias %b1)
         down(%w2 bias %b2) act(gelu_tanh)
         scales(f8E4M3FN, input = 2.1e-2, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4, order = divide)
         rounding(exact)
       : (tensor<?x144xf16>, tensor<144xf16>, tensor<144xf16>,
          tensor<208x144xf8E4M3FN>, tensor<208xf16>, tensor<144x208xf8E4M3FN>,
          tensor<144xf16>) -> tensor<?x144xf16>
  return %y : tensor<?x144xf16>
}

// Each linear has a scale.
func.func @norm_linear(%x: tensor<?x128xbf16>, %w: tensor<128xbf16>,
                       %q: tensor<128x128xf8E4M3FN>,
                       %k: tensor<64x128xf8E4M3FN>)
    -> (tensor<?x128xbf16>, tensor<?x64xbf16>) {
  %y:2 = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%q, %k)
           scales(f8E4M3FN, input = 2.1e-2, weight0 = 1.3e-3, weight1 = 7.0e-3)
           rounding(exact)
         : (tensor<?x128xbf16>, tensor<128xbf16>, tensor<128x128xf8E4M3FN>,
            tensor<64x128xf8E4M3FN>) -> (tensor<?x128xbf16>, tensor<?x64xbf16>)
  return %y#0, %y#1 : tensor<?x128xbf16>, tensor<?x64xbf16>
}
