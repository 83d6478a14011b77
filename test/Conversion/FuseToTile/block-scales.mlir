// RUN: fuse-opt %s --convert-fuse-to-tile --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s

// Scales of tokens follow the tokens of a k-step: a stage has 8 * 132 bytes,
// rounded up to 1024. Eight warps read them, so each of these releases a stage.

// CHECK-LABEL: tile.kernel @gated_mlp_decode_0
// CHECK-SAME: !tile.buffer<f32>
// CHECK-DAG: %[[TOKENS:.*]] = tile.ring.create at(65536) consumers(8) : !tile.ring<2 x 2048>
// CHECK-DAG: tile.ring.create at(0) consumers(2) : !tile.ring<2 x 32768>

// The norm: sixteen lanes have a group of columns.

// CHECK: tile.lane_max %{{.*}} lanes(15)
// CHECK: tile.pack {{.*}} : vector<8xf8E4M3FN>

// GEMM1: the products of a k-step are summed into zeros.

// CHECK: scf.for {{.*}} iter_args
// CHECK: tile.acc.zero
// CHECK: tile.acc.fence
// CHECK-COUNT-2: tile.mma %
// CHECK: tile.acc.wait
// CHECK: tile.load {{.*}} : !tile.buffer<f32, shared> -> vector<2xf32>
// CHECK: %[[P:.*]] = arith.mulf
// CHECK: math.fma %[[P]]
// CHECK: tile.warp_sync
// CHECK: tile.ring.release %[[TOKENS]]

// Hidden units: eight lanes and eight warps have a group.

// CHECK: tile.lane_max %{{.*}} lanes(28)
// CHECK: tile.barrier
// CHECK: tile.load {{.*}} : !tile.buffer<f32, shared> -> vector<4xf32>
// CHECK: tile.pack {{.*}} : vector<2xf8E4M3FN>

func.func @gated(%x: tensor<8x128xbf16>, %n: tensor<128xbf16>,
                 %g: tensor<128x128xf8E4M3FN>, %u: tensor<128x128xf8E4M3FN>,
                 %d: tensor<128x128xf8E4M3FN>, %sg: tensor<1x1xf32>,
                 %su: tensor<1x1xf32>, %sd: tensor<1x1xf32>)
    -> tensor<8x128xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) channel_scales(%sg, %su, %sd)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>)
         rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 2, split_k = 1,
          weight_stages = 2, token_stages = 2, max_in_flight = 2,
          partials = f32, hint = normal, dependent = false>}
    : (tensor<8x128xbf16>, tensor<128xbf16>, tensor<128x128xf8E4M3FN>,
       tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN>, tensor<1x1xf32>,
       tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<8x128xbf16>
  return %y : tensor<8x128xbf16>
}

// -----

func.func @rows(%x: tensor<8x256xbf16>, %n: tensor<256xbf16>,
                  %w: tensor<256x256xf8E4M3FN>, %s: tensor<2x2xf32>)
    -> tensor<8x256xbf16> {
  // expected-error@+1 {{measured scales require gemm1_tile_m = 256, at most 128 tokens, and neither swap_ab nor deferred_epilogue}}
  %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w)
         channel_scales(%s)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>)
         rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 2, split_k = 1,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 2,
          token_stages = 2, max_in_flight = 2, partials = f32, hint = normal,
          dependent = false>}
    : (tensor<8x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<2x2xf32>) -> tensor<8x256xbf16>
  return %y : tensor<8x256xbf16>
}

// -----

func.func @memory(%x: tensor<64x256xbf16>, %n: tensor<256xbf16>,
                  %w: tensor<256x256xf8E4M3FN>, %s: tensor<2x2xf32>)
    -> tensor<64x256xbf16> {
  // expected-error@+1 {{stages and measured scales need 235536 bytes of shared memory, but there are 232448}}
  %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w)
         channel_scales(%s)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>)
         rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 64, blocks = 1, split_k = 1,
          weight_stages = 6, token_stages = 4, max_in_flight = 2,
          partials = f32, hint = normal, dependent = false>}
    : (tensor<64x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<2x2xf32>) -> tensor<64x256xbf16>
  return %y : tensor<64x256xbf16>
}

// -----

func.func @prefill(%x: tensor<128x256xbf16>, %n: tensor<256xbf16>,
                  %w: tensor<256x256xf8E4M3FN>, %s: tensor<2x2xf32>)
    -> tensor<128x256xbf16> {
  // expected-error@+1 {{prefill kernels have no measured scales}}
  %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w)
         channel_scales(%s)
         quant(f8E4M3FN, weights = block<128x128>,
               activations = per_group<128>, sums = block<128>)
         rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 128, blocks = 1, split_k = 1,
          stages = 4, group = 8, dependent = false>}
    : (tensor<128x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<2x2xf32>) -> tensor<128x256xbf16>
  return %y : tensor<128x256xbf16>
}
