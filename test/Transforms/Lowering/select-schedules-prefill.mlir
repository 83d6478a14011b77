// RUN: fuse-opt %s --fuse-select-schedules | FileCheck %s

// Forms of prefill kernels on an H200 with 132 SMs: split-K, uneven split-K,
// stream-K, clusters, and one launch or two.

// 512 tokens are one launch for both products: 512 GEMM1 tiles, four for each
// of 128 CTAs, and 128 units of GEMM2 in 4 K-slices.

// CHECK-LABEL: func @split_k
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 128, split_k = 4, stages = 4, group = 16, launches = 1, dependent = true>
func.func @split_k(%x: tensor<512x2048xbf16>, %g: tensor<16384x2048xf8E4M3FN>,
                   %u: tensor<16384x2048xf8E4M3FN>,
                   %d: tensor<2048x16384xf8E4M3FN>) -> tensor<512x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<512x2048xbf16>, tensor<16384x2048xf8E4M3FN>,
       tensor<16384x2048xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<512x2048xbf16>
  return %y : tensor<512x2048xbf16>
}

// If each CTA has one tile of GEMM2, both products are one launch, here with
// six GEMM1 tiles for each of 128 CTAs.

// CHECK-LABEL: func @one_tile
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 1024, blocks = 128, split_k = 1, stages = 4, group = 16, launches = 1, dependent = true>
func.func @one_tile(%x: tensor<1024x4096xbf16>, %g: tensor<12288x4096xbf16>,
                    %u: tensor<12288x4096xbf16>, %d: tensor<4096x12288xbf16>)
    -> tensor<1024x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<1024x4096xbf16>, tensor<12288x4096xbf16>,
       tensor<12288x4096xbf16>, tensor<4096x12288xbf16>)
      -> tensor<1024x4096xbf16>
  return %y : tensor<1024x4096xbf16>
}

// Uneven split-K: of 192 GEMM1 tiles, 60 of 132 CTAs have one more, so the
// other CTAs have longer K-slices.

// CHECK-LABEL: func @uneven_split_k
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 132, split_k = 4, stages = 4, group = 16, launches = 1, uneven_split_k = true, dependent = true>
func.func @uneven_split_k(%x: tensor<256x4096xbf16>, %g: tensor<12288x4096xbf16>,
                          %u: tensor<12288x4096xbf16>, %d: tensor<4096x12288xbf16>)
    -> tensor<256x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<256x4096xbf16>, tensor<12288x4096xbf16>,
       tensor<12288x4096xbf16>, tensor<4096x12288xbf16>)
      -> tensor<256x4096xbf16>
  return %y : tensor<256x4096xbf16>
}

// 32 GEMM2 tiles of narrow weights would be one for few CTAs, and the others
// would wait. Uneven split-K gives all CTAs a K-slice.

// CHECK-LABEL: func @few_narrow_tiles
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 1024, blocks = 132, split_k = 4, stages = 4, group = 16, launches = 1, uneven_split_k = true, dependent = true>
func.func @few_narrow_tiles(%x: tensor<1024x1024xbf16>, %g: tensor<3072x1024xbf16>,
                            %u: tensor<3072x1024xbf16>, %d: tensor<1024x3072xbf16>)
    -> tensor<1024x1024xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<1024x1024xbf16>, tensor<3072x1024xbf16>,
       tensor<3072x1024xbf16>, tensor<1024x3072xbf16>)
      -> tensor<1024x1024xbf16>
  return %y : tensor<1024x1024xbf16>
}

// Stream-K: CTAs with three or four tiles each wait little, and equal shares are faster.

// CHECK-LABEL: func @stream_k
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 132, split_k = 1, stages = 4, group = 16, launches = 1, stream_k = true, dependent = true>
func.func @stream_k(%x: tensor<256x8192xbf16>,
                    %g: tensor<28672x8192xbf16>,
                    %u: tensor<28672x8192xbf16>,
                    %d: tensor<8192x28672xbf16>)
    -> tensor<256x8192xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<256x8192xbf16>, tensor<28672x8192xbf16>,
       tensor<28672x8192xbf16>, tensor<8192x28672xbf16>)
      -> tensor<256x8192xbf16>
  return %y : tensor<256x8192xbf16>
}

// Six token tiles of 16 weight tiles are 96 units. These are too many for
// K-slices and too few for the CTAs, so stream-K divides them evenly.

// CHECK-LABEL: func @stream_k_few_units
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 768, blocks = 132, split_k = 1, stages = 4, group = 16, launches = 1, stream_k = true, dependent = true>
func.func @stream_k_few_units(%x: tensor<768x4096xbf16>, %g: tensor<12288x4096xbf16>,
                              %u: tensor<12288x4096xbf16>, %d: tensor<4096x12288xbf16>)
    -> tensor<768x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<768x4096xbf16>, tensor<12288x4096xbf16>,
       tensor<12288x4096xbf16>, tensor<4096x12288xbf16>)
      -> tensor<768x4096xbf16>
  return %y : tensor<768x4096xbf16>
}

// Eight token tiles need a larger predicted gain for stream-K, which took 5 %
// longer on an H200.

// CHECK-LABEL: func @eight_tiles
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 1024, blocks = 128, split_k = 2, stages = 4, group = 16, launches = 1, dependent = true>
func.func @eight_tiles(%x: tensor<1024x2048xbf16>, %g: tensor<16384x2048xbf16>,
                       %u: tensor<16384x2048xbf16>, %d: tensor<2048x16384xbf16>)
    -> tensor<1024x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<1024x2048xbf16>, tensor<16384x2048xbf16>,
       tensor<16384x2048xbf16>, tensor<2048x16384xbf16>)
      -> tensor<1024x2048xbf16>
  return %y : tensor<1024x2048xbf16>
}

// One group has all token tiles if L2 holds their rows, here 16.8 MB. With this
// number of token tiles, pairs of CTAs share weights in a cluster.

// CHECK-LABEL: func @cluster
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 4096, blocks = 132, split_k = 1, stages = 4, group = 16, cluster = 2, launches = 1, stream_k = true, dependent = true>
func.func @cluster(%x: tensor<4096x2048xbf16>, %g: tensor<16384x2048xbf16>,
                   %u: tensor<16384x2048xbf16>, %d: tensor<2048x16384xbf16>)
    -> tensor<4096x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<4096x2048xbf16>, tensor<16384x2048xbf16>,
       tensor<16384x2048xbf16>, tensor<2048x16384xbf16>)
      -> tensor<4096x2048xbf16>
  return %y : tensor<4096x2048xbf16>
}

// An odd number of token tiles would leave one CTA of a pair without tokens, so
// there is no cluster.

// CHECK-LABEL: func @odd_token_tiles
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 3968, blocks = 132, split_k = 1, stages = 4, group = 32, launches = 1, stream_k = true, dependent = true>
func.func @odd_token_tiles(%x: tensor<3968x2048xbf16>, %g: tensor<16384x2048xbf16>,
                           %u: tensor<16384x2048xbf16>, %d: tensor<2048x16384xbf16>)
    -> tensor<3968x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<3968x2048xbf16>, tensor<16384x2048xbf16>,
       tensor<16384x2048xbf16>, tensor<2048x16384xbf16>)
      -> tensor<3968x2048xbf16>
  return %y : tensor<3968x2048xbf16>
}

// Ragged tiles need registers for their bounds, which a dense MLP in 8 bits
// needs for both products in one launch. A gated MLP may have one launch or
// two.

// CHECK-LABEL: func @ragged
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 768, blocks = 132, {{[a-z0-9_ =,]*}}group = 16, {{(launches = 1, )?}}dependent = true>
func.func @ragged(%x: tensor<768x4096xbf16>, %g: tensor<12304x4096xbf16>,
                  %u: tensor<12304x4096xbf16>, %d: tensor<4096x12304xbf16>)
    -> tensor<768x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<768x4096xbf16>, tensor<12304x4096xbf16>,
       tensor<12304x4096xbf16>, tensor<4096x12304xbf16>)
      -> tensor<768x4096xbf16>
  return %y : tensor<768x4096xbf16>
}

// CHECK-LABEL: func @dense_whole
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 512, {{.*}}launches = 1, {{.*}}dependent = true>
func.func @dense_whole(%x: tensor<512x1024xbf16>, %u: tensor<3072x1024xf8E4M3FN>,
                %d: tensor<1024x3072xf8E4M3FN>) -> tensor<512x1024xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu)
         scales(f8E4M3FN, input = 2.1e-2, up = 1.1e-3, hidden = 4.0e-2,
                down = 9.0e-4) rounding(exact)
    : (tensor<512x1024xbf16>, tensor<3072x1024xf8E4M3FN>,
       tensor<1024x3072xf8E4M3FN>) -> tensor<512x1024xbf16>
  return %y : tensor<512x1024xbf16>
}

// CHECK-LABEL: func @dense_ragged
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 512,
// CHECK-NOT: launches = 1
// CHECK-SAME: dependent = true>
func.func @dense_ragged(%x: tensor<512x1024xbf16>, %u: tensor<3088x1024xf8E4M3FN>,
                %d: tensor<1024x3088xf8E4M3FN>) -> tensor<512x1024xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu)
         scales(f8E4M3FN, input = 2.1e-2, up = 1.1e-3, hidden = 4.0e-2,
                down = 9.0e-4) rounding(exact)
    : (tensor<512x1024xbf16>, tensor<3088x1024xf8E4M3FN>,
       tensor<1024x3088xf8E4M3FN>) -> tensor<512x1024xbf16>
  return %y : tensor<512x1024xbf16>
}
