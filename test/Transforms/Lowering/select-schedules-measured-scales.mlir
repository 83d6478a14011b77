// RUN: fuse-opt %s --fuse-select-schedules --remarks-filter=codegen \
// RUN:   --remark-format=emitRemark -verify-diagnostics | FileCheck %s
// RUN: fuse-opt %s --fuse-select-schedules="dispatch=true tokens=16384" \
// RUN:   | FileCheck %s --check-prefix=RANGES

// Measured scales of groups of 128: tiles have whole groups of hidden units, and
// other scales and numbers of tokens have no kernel.

// CHECK-LABEL: func @gated
// CHECK: #tile.schedule<tokens = 64, blocks = 128, split_k = 4, gemm2_tile_m = 128, weight_stages = 5, token_stages = 4, {{.*}} smem_epilogue = true
func.func @gated(%x: tensor<64x4096xbf16>, %g: tensor<12288x4096xf8E4M3FN>,
                 %u: tensor<12288x4096xf8E4M3FN>,
                 %d: tensor<4096x12288xf8E4M3FN>, %sg: tensor<96x32xf32>,
                 %su: tensor<96x32xf32>, %sd: tensor<32x96xf32>)
    -> tensor<64x4096xbf16> {
  // expected-remark-re @below {{[Passed] schedule | Category:codegen | microseconds={{.*}}, weight_bytes=150994944}}
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         channel_scales(%sg, %su, %sd)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>)
         rounding(exact)
    : (tensor<64x4096xbf16>, tensor<12288x4096xf8E4M3FN>,
       tensor<12288x4096xf8E4M3FN>, tensor<4096x12288xf8E4M3FN>,
       tensor<96x32xf32>, tensor<96x32xf32>, tensor<32x96xf32>)
      -> tensor<64x4096xbf16>
  return %y : tensor<64x4096xbf16>
}

// A host passes more tokens in several calls.

// RANGES-LABEL: func @ranges
// RANGES: #tile.dispatch<8 : {{.*}}, 128 : #tile.schedule<tokens = 128, {{[^>]*}}>>
// CHECK-LABEL: func @ranges
// CHECK: #tile.schedule<tokens = 64
func.func @ranges(%x: tensor<?x256xbf16>, %n: tensor<256xbf16>,
                  %w: tensor<256x256xf8E4M3FN>, %s: tensor<2x2xf32>)
    -> tensor<?x256xbf16> {
  // expected-remark-re @below {{[Passed] schedule}}
  %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w)
         channel_scales(%s)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>)
         rounding(exact)
    : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<2x2xf32>) -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// CHECK-LABEL: func @many
// CHECK-NOT: tile.schedule
func.func @many(%x: tensor<129x256xbf16>, %n: tensor<256xbf16>,
                  %w: tensor<256x256xf8E4M3FN>, %s: tensor<2x2xf32>)
    -> tensor<129x256xbf16> {
  // expected-remark-re @below {{[Missed] schedule | Category:codegen | Reason="FUSE-N186 measured-scale-tokens: 129 tokens are more than 128"}}
  %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w)
         channel_scales(%s)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>)
         rounding(exact)
    : (tensor<129x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<2x2xf32>) -> tensor<129x256xbf16>
  return %y : tensor<129x256xbf16>
}

// CHECK-LABEL: func @tensors
// CHECK-NOT: tile.schedule
func.func @tensors(%x: tensor<8x256xbf16>, %n: tensor<256xbf16>,
                  %w: tensor<256x256xf8E4M3FN>, %s: tensor<1xf32>)
    -> tensor<8x256xbf16> {
  // expected-remark-re @below {{[Missed] schedule | Category:codegen | Reason="FUSE-N185 scale-shapes: the op has #fuse.quant<f8E4M3FN, weights = tensor, activations = per_token>, expected f8E4M3FN, weights = block<128x128>, activations = per_group<128>, sums = block<128>, or f8E4M3FN, weights = channel, activations = per_token"}}
  %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w)
         channel_scales(%s)
         quant(f8E4M3FN, weights = tensor, activations = per_token)
         rounding(exact)
    : (tensor<8x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<1xf32>) -> tensor<8x256xbf16>
  return %y : tensor<8x256xbf16>
}
