// RUN: fuse-run %s --verify --dim=0,1,3 | FileCheck %s
// RUN: fuse-run %s --verify --chip=sm_90a --dim=0,17 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=GPU
// RUN: fuse-run %s --verify --chip=sm_80 --dim=3 --orders=2 \
// RUN:   | FileCheck %s --check-prefix=GPU

// Weights of 4 bits: fused and unfused give the same bits, and generated code
// gives what the contract allows.

// CHECK-NOT: FAILED
// CHECK-COUNT-6: bit-equal
// CHECK-NOT: FAILED

// GPU-NOT: FAILED
// GPU-COUNT-6: V2 portable on fuse emulator ok {{.*}} values checked by contract, the same bits 2 times
// GPU-NOT: FAILED

func.func @awq(%x: tensor<?x16xf16>, %n: tensor<16xf16>, %g: tensor<24x8xi8>,
               %u: tensor<24x8xi8>, %d: tensor<20x12xi8>, %b: tensor<20xf16>,
               %sg: tensor<24x2xf16>, %zg: tensor<24x2xi8>,
               %su: tensor<24x2xf16>, %zu: tensor<24x2xi8>,
               %sd: tensor<20x3xf16>, %zd: tensor<20x3xi8>)
    -> tensor<?x20xf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u)
         down(%d bias %b) act(silu) channel_scales(%sg, %zg, %su, %zu, %sd, %zd)
         quant(ui4, weights = group<8, f16>, zero_points = group,
               activations = none)
         rounding(exact bias after_rounding)
    : (tensor<?x16xf16>, tensor<16xf16>, tensor<24x8xi8>, tensor<24x8xi8>,
       tensor<20x12xi8>, tensor<20xf16>, tensor<24x2xf16>, tensor<24x2xi8>,
       tensor<24x2xf16>, tensor<24x2xi8>, tensor<20x3xf16>, tensor<20x3xi8>)
      -> tensor<?x20xf16>
  return %y : tensor<?x20xf16>
}

func.func @nvfp4(%x: tensor<2x?x32xbf16>, %r: tensor<2x?x32xbf16>,
                 %n: tensor<32xbf16>, %q: tensor<20x16xi8>,
                 %k: tensor<4x16xi8>, %sq: tensor<20x2xf8E4M3FN>,
                 %tq: tensor<1xf32>, %sk: tensor<4x2xf8E4M3FN>,
                 %tk: tensor<1xf32>)
    -> (tensor<2x?x20xbf16>, tensor<2x?x4xbf16>) {
  %y:2 = fuse.norm_linear %x residual(%r) norm(rms %n eps 1.0e-6)
           linear(%q, %k) channel_scales(%sq, %tq, %sk, %tk)
           quant(f4E2M1FN, weights = group<16, f8E4M3FN>,
                 tensor_scale = multiply, activations = none)
           rounding(exact)
    : (tensor<2x?x32xbf16>, tensor<2x?x32xbf16>, tensor<32xbf16>,
       tensor<20x16xi8>, tensor<4x16xi8>, tensor<20x2xf8E4M3FN>, tensor<1xf32>,
       tensor<4x2xf8E4M3FN>, tensor<1xf32>)
      -> (tensor<2x?x20xbf16>, tensor<2x?x4xbf16>)
  return %y#0, %y#1 : tensor<2x?x20xbf16>, tensor<2x?x4xbf16>
}

// Panels of CPU kernels have more columns than the linears have outputs.

func.func @mxfp4(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
                 %g: tensor<96x32xi8>, %u: tensor<96x32xi8>,
                 %d: tensor<20x48xi8>, %b: tensor<20xbf16>,
                 %sg: tensor<96x2xi8>, %su: tensor<96x2xi8>,
                 %sd: tensor<20x3xi8>) -> tensor<?x20xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u)
         down(%d bias %b) act(silu) channel_scales(%sg, %su, %sd)
         quant(f4E2M1FN, weights = group<32, f8E8M0FNU>, activations = none)
         rounding(exact)
    : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<96x32xi8>, tensor<96x32xi8>,
       tensor<20x48xi8>, tensor<20xbf16>, tensor<96x2xi8>, tensor<96x2xi8>,
       tensor<20x3xi8>) -> tensor<?x20xbf16>
  return %y : tensor<?x20xbf16>
}

func.func @float(%x: tensor<?x48xf32>, %u: tensor<24x24xi8>,
                 %d: tensor<48x12xi8>, %su: tensor<24x2xbf16>,
                 %zu: tensor<24x2xi8>, %sd: tensor<48x1xbf16>,
                 %zd: tensor<48x1xi8>) -> tensor<?x48xf32> {
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) then_add(%x)
         channel_scales(%su, %zu, %sd, %zd)
         quant(ui4, weights = group<24, bf16>, zero_points = group,
               activations = none)
         rounding(exact)
    : (tensor<?x48xf32>, tensor<24x24xi8>, tensor<48x12xi8>, tensor<?x48xf32>,
       tensor<24x2xbf16>, tensor<24x2xi8>, tensor<48x1xbf16>, tensor<48x1xi8>)
      -> tensor<?x48xf32>
  return %y : tensor<?x48xf32>
}

// Two contracts: the kernel reads real weights.

func.func @signed(%x: tensor<?x16xbf16>, %u: tensor<24x8xi8>,
                  %d: tensor<16x12xi8>, %su: tensor<24x1xbf16>,
                  %sd: tensor<16x1xbf16>) -> tensor<?x16xbf16> {
  %wu = fuse.dequantize_weight %u scales(%su)
          quant(i4, weights = group<16, bf16>, activations = none)
    : (tensor<24x8xi8>, tensor<24x1xbf16>) -> tensor<24x16xbf16>
  %up = fuse.linear %x, %wu
    : (tensor<?x16xbf16>, tensor<24x16xbf16>) -> tensor<?x24xbf16>
  %a = fuse.activation gelu %up : tensor<?x24xbf16> -> tensor<?x24xbf16>
  %wd = fuse.dequantize_weight %d scales(%sd)
          quant(i4, weights = group<24, bf16>, activations = none)
    : (tensor<16x12xi8>, tensor<16x1xbf16>) -> tensor<16x24xbf16>
  %y = fuse.linear %a, %wd
    : (tensor<?x24xbf16>, tensor<16x24xbf16>) -> tensor<?x16xbf16>
  return %y : tensor<?x16xbf16>
}

// An output projection and its residual add.

func.func @projection(%x: tensor<?x32xbf16>, %q: tensor<20x16xi8>,
                      %s: tensor<20x2xf8E4M3FN>, %t: tensor<1xf32>,
                      %r: tensor<?x20xbf16>) -> tensor<?x20xbf16> {
  %y = fuse.fused_linear %x linear(%q) then_add(%r) channel_scales(%s, %t)
         quant(f4E2M1FN, weights = group<16, f8E4M3FN>, tensor_scale = divide,
               activations = none)
         rounding(exact)
    : (tensor<?x32xbf16>, tensor<20x16xi8>, tensor<?x20xbf16>,
       tensor<20x2xf8E4M3FN>, tensor<1xf32>) -> tensor<?x20xbf16>
  return %y : tensor<?x20xbf16>
}
