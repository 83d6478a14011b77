// REQUIRES: ptxas
// RUN: fuse-opt %s --fuse-hopper-pipeline --fuse-emit-ptx=output=%t.ptx \
// RUN:   -o /dev/null
// RUN: ptxas -arch=sm_90a -v %t.ptx -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --implicit-check-not=C75

// A warpgroup holds the sums of a tile and the rounded ones of the tile
// before. No kernel spills, and ptxas serializes no wgmma (C7510 and its like).

// CHECK-COUNT-14: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CHECK-NOT: bytes stack frame

func.func @f8(%x: tensor<512x2048xbf16>, %w: tensor<2048xbf16>,
              %g: tensor<16384x2048xf8E4M3FN>, %u: tensor<16384x2048xf8E4M3FN>,
              %d: tensor<2048x16384xf8E4M3FN>) -> tensor<512x2048xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(gelu_tanh) scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3,
                               up = 1.1e-3, hidden = 4.0e-2, down = 9.0e-4)
         rounding(exact)
    : (tensor<512x2048xbf16>, tensor<2048xbf16>, tensor<16384x2048xf8E4M3FN>,
       tensor<16384x2048xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<512x2048xbf16>
  return %y : tensor<512x2048xbf16>
}

// Few k-steps: loops over them are not unrolled.

func.func @short(%x: tensor<256x1024xbf16>, %g: tensor<3072x1024xf8E4M3FN>,
                 %u: tensor<3072x1024xf8E4M3FN>,
                 %d: tensor<1024x3072xf8E4M3FN>) -> tensor<256x1024xbf16> {
  %y = fuse.gated_mlp %x norm(rms eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                          hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<256x1024xbf16>, tensor<3072x1024xf8E4M3FN>,
       tensor<3072x1024xf8E4M3FN>, tensor<1024x3072xf8E4M3FN>)
      -> tensor<256x1024xbf16>
  return %y : tensor<256x1024xbf16>
}

// Everything that a kernel can have.

func.func @dense(%x: tensor<300x784xbf16>, %r: tensor<300x784xbf16>,
                 %w: tensor<784xbf16>, %b: tensor<784xbf16>,
                 %u: tensor<2000x784xbf16>, %ub: tensor<2000xbf16>,
                 %d: tensor<784x2000xbf16>, %db: tensor<784xbf16>)
    -> tensor<300x784xbf16> {
  %y = fuse.mlp %x residual(%r) norm(layer %w, %b eps 1.0e-5) up(%u bias %ub)
         down(%d bias %db) act(gelu) add_stream rounding(exact)
    : (tensor<300x784xbf16>, tensor<300x784xbf16>, tensor<784xbf16>,
       tensor<784xbf16>, tensor<2000x784xbf16>, tensor<2000xbf16>,
       tensor<784x2000xbf16>, tensor<784xbf16>) -> tensor<300x784xbf16>
  return %y : tensor<300x784xbf16>
}

// Ragged tiles of a dense MLP in 8 bits.

func.func @ragged(%x: tensor<512x1024xbf16>, %u: tensor<3088x1024xf8E4M3FN>,
                %d: tensor<1024x3088xf8E4M3FN>) -> tensor<512x1024xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu)
         scales(f8E4M3FN, input = 2.1e-2, up = 1.1e-3, hidden = 4.0e-2,
                down = 9.0e-4) rounding(exact)
    : (tensor<512x1024xbf16>, tensor<3088x1024xf8E4M3FN>,
       tensor<1024x3088xf8E4M3FN>) -> tensor<512x1024xbf16>
  return %y : tensor<512x1024xbf16>
}

// Even shares of single blocks, which serve all numbers of tokens.

func.func @even(%x: tensor<?x4096xbf16>, %g: tensor<12288x4096xf8E4M3FN>,
                %u: tensor<12288x4096xf8E4M3FN>,
                %d: tensor<4096x12288xf8E4M3FN>) -> tensor<?x4096xbf16> {
  %y = fuse.gated_mlp %x norm(rms eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                          hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 16384, blocks = 132,
          split_k = 1, stages = 4, group = 16, launches = 1, stream_k = true,
          dependent = true>}
    : (tensor<?x4096xbf16>, tensor<12288x4096xf8E4M3FN>,
       tensor<12288x4096xf8E4M3FN>, tensor<4096x12288xf8E4M3FN>)
      -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

// Pairs, whose outputs wait with their biases added.

func.func @pairs(%x: tensor<4096x1024xbf16>, %u: tensor<3072x1024xbf16>,
                 %ub: tensor<3072xbf16>, %d: tensor<1024x3072xbf16>,
                 %db: tensor<1024xbf16>) -> tensor<4096x1024xbf16> {
  %y = fuse.mlp %x up(%u bias %ub) down(%d bias %db) act(gelu_tanh)
         rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 4096, blocks = 132,
          split_k = 1, stages = 4, group = 16, cluster = 2, launches = 1,
          stream_k = true, dependent = true>}
    : (tensor<4096x1024xbf16>, tensor<3072x1024xbf16>, tensor<3072xbf16>,
       tensor<1024x3072xbf16>, tensor<1024xbf16>) -> tensor<4096x1024xbf16>
  return %y : tensor<4096x1024xbf16>
}
