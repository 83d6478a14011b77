// RUN: fuse-opt %s --fuse-select-schedules | FileCheck %s
// RUN: fuse-opt %s --fuse-select-schedules=tokens=16 | FileCheck %s --check-prefix=FEW
// RUN: fuse-opt %s --fuse-select-schedules=tokens=56 | FileCheck %s --check-prefix=IDLE
// RUN: fuse-opt %s --fuse-select-schedules="tokens=56 multiprocessors=128" | FileCheck %s --check-prefix=BUSY
// RUN: fuse-opt %s --fuse-select-schedules="tokens=56 multiprocessors=144" | FileCheck %s --check-prefix=BUSY
// RUN: fuse-opt %s --fuse-select-schedules=multiprocessors=78 | FileCheck %s --check-prefix=SMALL

// Schedules of each kind of fused op, for the tokens and SMs of the options.
// Other files have the forms of decode and prefill kernels, ranges of tokens,
// tables and refusals.

// All CTAs have the same share of both products: 128 tiles of gate and up, and
// 16 output tiles of 128 rows in 8 K-slices. Half of the K-slices reduce. With
// 56 tokens, a fifth reducer is faster if no CTA is idle, or if many are.

// CHECK-LABEL: func @wide
// CHECK: tile.schedule = #tile.schedule<tokens = 64, blocks = 132, split_k = 8, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4, max_in_flight = 2, l2_prefetch_stages = 8, publish_throttle_stages = 3, reducers = 4, partials = f32, tagged_partials = true, smem_epilogue = true, hint = evict_first, dependent = true>
// FEW-LABEL: func @wide
// FEW: tokens = 16, blocks = 128, split_k = 8, gemm2_tile_m = 128, weight_stages = 6, token_stages = 8, max_in_flight = 2, l2_prefetch_stages = 8, reducers = 4, partials = f32
// IDLE-LABEL: func @wide
// IDLE: tokens = 56, blocks = 132, split_k = 8, {{.*}}, reducers = 4,
// BUSY-LABEL: func @wide
// BUSY: tokens = 56, blocks = 128, split_k = 8, {{.*}}, reducers = 5,
// SMALL-LABEL: func @wide
// SMALL: blocks = 72, split_k = 9
func.func @wide(%x: tensor<?x2048xbf16>, %g: tensor<16384x2048xf8E4M3FN>,
                %u: tensor<16384x2048xf8E4M3FN>,
                %d: tensor<2048x16384xf8E4M3FN>) -> tensor<?x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x2048xbf16>, tensor<16384x2048xf8E4M3FN>,
       tensor<16384x2048xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}

// A relaxed kernel may round partial sums. It does from 33 tokens on: with
// fewer, polling tagged exact sums is faster. The tile is chosen for the static
// number of tokens.

// CHECK-LABEL: func @relaxed
// CHECK: tokens = 40, {{.*}} partials = bf16, hint
func.func @relaxed(%x: tensor<33x64xbf16>, %u: tensor<256x64xbf16>,
                   %d: tensor<64x256xbf16>) -> tensor<33x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(relaxed skip [act])
    : (tensor<33x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<33x64xbf16>
  return %y : tensor<33x64xbf16>
}

// A schedule in the text is kept.

// CHECK-LABEL: func @kept
// CHECK: tile.schedule = #tile.schedule<tokens = 40, blocks = 2, split_k = 1,
func.func @kept(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 40, blocks = 2, split_k = 1,
          weight_stages = 2, token_stages = 2, max_in_flight = 0, partials = f32,
          hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Projections have no hidden layer. Their input is split into K-slices.

// CHECK-LABEL: func @projections
// CHECK: fuse.norm_linear
// CHECK-SAME: tile.schedule = #tile.schedule<tokens = 64, blocks = 120, split_k = 3, gemm2_tile_m = 128,
// CHECK-NOT: smem_epilogue
// CHECK: return
func.func @projections(%x: tensor<?x4096xbf16>, %w: tensor<4096xbf16>,
                       %q: tensor<4096x4096xbf16>, %k: tensor<1024x4096xbf16>)
    -> (tensor<?x4096xbf16>, tensor<?x1024xbf16>) {
  %y:2 = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%q, %k)
           rounding(exact)
    : (tensor<?x4096xbf16>, tensor<4096xbf16>, tensor<4096x4096xbf16>,
       tensor<1024x4096xbf16>) -> (tensor<?x4096xbf16>, tensor<?x1024xbf16>)
  return %y#0, %y#1 : tensor<?x4096xbf16>, tensor<?x1024xbf16>
}

// A kernel of rows needs enough threads, in CTAs that have whole rows. Values
// in i8 are for the portable path.

// CHECK-LABEL: func @rows
// CHECK: fuse.norm_quantize
// CHECK-SAME: tile.schedule = #tile.row_schedule<blocks = 1056, threads = 256>
// CHECK: fuse.act_quantize
// CHECK-SAME: tile.schedule = #tile.row_schedule<blocks = 1056, threads = 256>
// CHECK: fuse.act_quantize
// CHECK-NOT: tile.schedule
// CHECK: return
func.func @rows(%x: tensor<?x4096xbf16>, %w: tensor<4096xbf16>)
    -> (tensor<?x4096xf8E4M3FN>, tensor<?x4096xf8E4M3FN>, tensor<?x4096xi8>) {
  %0 = fuse.norm_quantize %x norm(rms %w eps 1.0e-6)
         scales(f8E4M3FN, input = 1.0) rounding(exact)
    : (tensor<?x4096xbf16>, tensor<4096xbf16>) -> tensor<?x4096xf8E4M3FN>
  %1 = fuse.act_quantize %x act(silu) scales(f8E4M3FN, hidden = 1.0)
         rounding(exact) : (tensor<?x4096xbf16>) -> tensor<?x4096xf8E4M3FN>
  %2 = fuse.act_quantize %x act(silu) scales(i8, hidden = 1.0)
         rounding(exact) : (tensor<?x4096xbf16>) -> tensor<?x4096xi8>
  return %0, %1, %2
    : tensor<?x4096xf8E4M3FN>, tensor<?x4096xf8E4M3FN>, tensor<?x4096xi8>
}
