// REQUIRES: ptxas
// RUN: fuse-opt %s --fuse-hopper-pipeline=tokens=64 \
// RUN:   --fuse-emit-ptx=output=%t.ptx -o /dev/null
// RUN: ptxas -arch=sm_90a -v %t.ptx -o /dev/null 2>&1 | FileCheck %s

// Up to 64 tokens, scales of blocks need a second set of accumulators. No kernel
// spills, and ptxas serializes no wgmma.

// CHECK-NOT: C75
// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: C75
// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: C75
// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: C75

func.func @gated(%x: tensor<?x4096xbf16>, %n: tensor<4096xbf16>,
                 %g: tensor<12288x4096xf8E4M3FN>,
                 %u: tensor<12288x4096xf8E4M3FN>,
                 %d: tensor<4096x12288xf8E4M3FN>, %sg: tensor<96x32xf32>,
                 %su: tensor<96x32xf32>, %sd: tensor<32x96xf32>)
    -> tensor<?x4096xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) then_add(%x) channel_scales(%sg, %su, %sd)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>)
         rounding(exact)
    : (tensor<?x4096xbf16>, tensor<4096xbf16>, tensor<12288x4096xf8E4M3FN>,
       tensor<12288x4096xf8E4M3FN>, tensor<4096x12288xf8E4M3FN>,
       tensor<?x4096xbf16>, tensor<96x32xf32>, tensor<96x32xf32>,
       tensor<32x96xf32>) -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

func.func @dense(%x: tensor<?x2560xbf16>, %u: tensor<9728x2560xf8E4M3FN>,
                 %d: tensor<2560x9728xf8E4M3FN>, %su: tensor<76x20xf32>,
                 %sd: tensor<20x76xf32>) -> tensor<?x2560xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(gelu_tanh) channel_scales(%su, %sd)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>)
         rounding(exact)
    : (tensor<?x2560xbf16>, tensor<9728x2560xf8E4M3FN>,
       tensor<2560x9728xf8E4M3FN>, tensor<76x20xf32>, tensor<20x76xf32>)
      -> tensor<?x2560xbf16>
  return %y : tensor<?x2560xbf16>
}

func.func @tokens(%x: tensor<?x4096xbf16>, %n: tensor<4096xbf16>,
                  %g: tensor<12288x4096xf8E4M3FN>,
                  %u: tensor<12288x4096xf8E4M3FN>,
                  %d: tensor<4096x12288xf8E4M3FN>, %sg: tensor<12288xf32>,
                  %su: tensor<12288xf32>, %sd: tensor<4096xf32>)
    -> tensor<?x4096xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) then_add(%x) channel_scales(%sg, %su, %sd)
         quant(f8E4M3FN, weights = channel, activations = per_token,
               order = divide)
         rounding(exact)
    : (tensor<?x4096xbf16>, tensor<4096xbf16>, tensor<12288x4096xf8E4M3FN>,
       tensor<12288x4096xf8E4M3FN>, tensor<4096x12288xf8E4M3FN>,
       tensor<?x4096xbf16>, tensor<12288xf32>, tensor<12288xf32>,
       tensor<4096xf32>) -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}
