// RUN: fuse-opt %s --fuse-select-schedules | FileCheck %s

// Forms of decode kernels on an H200 with 132 SMs, from 16 to 192 tokens: the
// rows of GEMM1 tiles, the epilogue, swap-AB, and the stages in flight.

// Deferred epilogue: each CTA has two GEMM1 tiles of 128 rows, and activates
// one while it computes the next tile.

// CHECK-LABEL: func @deferred
// CHECK: tile.schedule = #tile.schedule<tokens = 128, blocks = 128, split_k = 8, gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 8, token_stages = 5, max_in_flight = 3, l2_prefetch_stages = 8, partials = f32, tagged_partials = true, smem_epilogue = true, deferred_epilogue = true, hint = evict_first, dependent = true>
func.func @deferred(%x: tensor<128x2048xbf16>, %g: tensor<16384x2048xf8E4M3FN>,
                    %u: tensor<16384x2048xf8E4M3FN>,
                    %d: tensor<2048x16384xf8E4M3FN>) -> tensor<128x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<128x2048xbf16>, tensor<16384x2048xf8E4M3FN>,
       tensor<16384x2048xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<128x2048xbf16>
  return %y : tensor<128x2048xbf16>
}

// Up to 256 tokens are one launch if the cost model expects it to be faster
// than one launch for each product.

// CHECK-LABEL: func @middle
// CHECK: tile.schedule = #tile.schedule<tokens = 192, {{.*}} gemm1_tile_m = 128, gemm2_tile_m = 128, {{.*}} deferred_epilogue = true
func.func @middle(%x: tensor<190x2048xbf16>, %g: tensor<16384x2048xbf16>,
                  %u: tensor<16384x2048xbf16>, %d: tensor<2048x16384xbf16>)
    -> tensor<190x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<190x2048xbf16>, tensor<16384x2048xbf16>,
       tensor<16384x2048xbf16>, tensor<2048x16384xbf16>)
      -> tensor<190x2048xbf16>
  return %y : tensor<190x2048xbf16>
}

// 140 GEMM1 tiles of 128 rows on 132 CTAs. Eight CTAs have two tiles, twice the
// loads in flight, and no GEMM2 unit.

// CHECK-LABEL: func @long
// CHECK: tile.schedule = #tile.schedule<tokens = 16, blocks = 132, split_k = 8, gemm1_tile_m = 128, gemm2_tile_m = 128, {{.*}}, max_in_flight = 3,
func.func @long(%x: tensor<16x1536xbf16>, %g: tensor<8960x1536xbf16>,
                %u: tensor<8960x1536xbf16>, %d: tensor<1536x8960xbf16>)
    -> tensor<16x1536xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<16x1536xbf16>, tensor<8960x1536xbf16>, tensor<8960x1536xbf16>,
       tensor<1536x8960xbf16>) -> tensor<16x1536xbf16>
  return %y : tensor<16x1536xbf16>
}

// Swap-AB with more tokens: 112 tiles of 160 rows, one for each CTA. Only one
// stage stays in flight while CTAs publish hidden units.

// CHECK-LABEL: func @long_many
// CHECK: tile.schedule = #tile.schedule<tokens = 104, blocks = 132, split_k = 11, gemm1_tile_m = 160, gemm2_tile_m = 128, weight_stages = 8, token_stages = 4, max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 3, publish_in_flight = 1, partials = f32, tagged_partials = true, swap_ab = true,
func.func @long_many(%x: tensor<100x1536xbf16>, %g: tensor<8960x1536xbf16>,
                     %u: tensor<8960x1536xbf16>, %d: tensor<1536x8960xbf16>)
    -> tensor<100x1536xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<100x1536xbf16>, tensor<8960x1536xbf16>, tensor<8960x1536xbf16>,
       tensor<1536x8960xbf16>) -> tensor<100x1536xbf16>
  return %y : tensor<100x1536xbf16>
}

// Two stages stay in flight with up to 88 tokens, or up to 112 with many
// k-steps. With more tokens it is one, except for tiles of 128 rows.

// CHECK-LABEL: func @long_few
// CHECK: tokens = 88, {{.*}} gemm1_tile_m = 160, {{.*}} max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 7, partials
func.func @long_few(%x: tensor<88x1536xbf16>, %g: tensor<8960x1536xbf16>,
                    %u: tensor<8960x1536xbf16>, %d: tensor<1536x8960xbf16>)
    -> tensor<88x1536xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<88x1536xbf16>, tensor<8960x1536xbf16>, tensor<8960x1536xbf16>,
       tensor<1536x8960xbf16>) -> tensor<88x1536xbf16>
  return %y : tensor<88x1536xbf16>
}

// CHECK-LABEL: func @long_steps
// CHECK: tokens = 112, {{.*}} gemm1_tile_m = 160, {{.*}} max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 7, partials
// CHECK: tokens = 120, {{.*}} gemm1_tile_m = 160, {{.*}} max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 3, publish_in_flight = 1, partials
// CHECK: tokens = 120, {{.*}} gemm1_tile_m = 128, {{.*}} max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 7, partials
func.func @long_steps(
    %x: tensor<112x2560xbf16>, %x2: tensor<120x2560xbf16>,
    %g: tensor<9728x2560xbf16>, %u: tensor<9728x2560xbf16>,
    %d: tensor<2560x9728xbf16>, %g2: tensor<6912x2560xbf16>,
    %u2: tensor<6912x2560xbf16>, %d2: tensor<2560x6912xbf16>)
    -> (tensor<112x2560xbf16>, tensor<120x2560xbf16>, tensor<120x2560xbf16>) {
  %a = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<112x2560xbf16>, tensor<9728x2560xbf16>, tensor<9728x2560xbf16>,
       tensor<2560x9728xbf16>) -> tensor<112x2560xbf16>
  %b = fuse.gated_mlp %x2 gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<120x2560xbf16>, tensor<9728x2560xbf16>, tensor<9728x2560xbf16>,
       tensor<2560x9728xbf16>) -> tensor<120x2560xbf16>
  %c = fuse.gated_mlp %x2 gate(%g2) up(%u2) down(%d2) act(silu) rounding(exact)
    : (tensor<120x2560xbf16>, tensor<6912x2560xbf16>, tensor<6912x2560xbf16>,
       tensor<2560x6912xbf16>) -> tensor<120x2560xbf16>
  return %a, %b, %c : tensor<112x2560xbf16>, tensor<120x2560xbf16>,
                      tensor<120x2560xbf16>
}

// If only one stage stays in flight while a CTA publishes, three stages are
// faster than two at 18 k-steps already, but not at 17.

// CHECK-LABEL: func @published
// CHECK: tokens = 128, {{.*}} gemm1_tile_m = 160, {{.*}} max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 4, publish_in_flight = 1, partials
// CHECK: tokens = 128, {{.*}} gemm1_tile_m = 128, {{.*}} max_in_flight = 2, l2_prefetch_stages = 8, publish_throttle_stages = 3, partials
func.func @published(
    %x: tensor<128x2304xbf16>, %g: tensor<9216x2304xf8E4M3FN>,
    %u: tensor<9216x2304xf8E4M3FN>, %d: tensor<2304x9216xf8E4M3FN>,
    %x2: tensor<128x2064xbf16>, %g2: tensor<8208x2064xf8E4M3FN>,
    %u2: tensor<8208x2064xf8E4M3FN>, %d2: tensor<2064x8208xf8E4M3FN>)
    -> (tensor<128x2304xbf16>, tensor<128x2064xbf16>) {
  %a = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<128x2304xbf16>, tensor<9216x2304xf8E4M3FN>,
       tensor<9216x2304xf8E4M3FN>, tensor<2304x9216xf8E4M3FN>)
      -> tensor<128x2304xbf16>
  %b = fuse.gated_mlp %x2 gate(%g2) up(%u2) down(%d2) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<128x2064xbf16>, tensor<8208x2064xf8E4M3FN>,
       tensor<8208x2064xf8E4M3FN>, tensor<2064x8208xf8E4M3FN>)
      -> tensor<128x2064xbf16>
  return %a, %b : tensor<128x2304xbf16>, tensor<128x2064xbf16>
}

// 172 GEMM1 tiles of 128 rows would give too many CTAs two tiles, so tiles have
// 192 rows and 115 CTAs have one. No CTA prepares more than one row of tokens.
// A fourth stage is in flight with more k-steps.

// CHECK-LABEL: func @tile_192
// CHECK: tile.schedule = #tile.schedule<tokens = 112, blocks = 132, split_k = 8, gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 10, token_stages = 4, max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 6,
// CHECK: tile.schedule = #tile.schedule<tokens = 112, blocks = 132, split_k = 4, gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 10, token_stages = 4, max_in_flight = 4, l2_prefetch_stages = 8, partials
func.func @tile_192(%x: tensor<100x2048xbf16>,
                    %g: tensor<11008x2048xf8E4M3FN>,
                    %u: tensor<11008x2048xf8E4M3FN>,
                    %d: tensor<2048x11008xf8E4M3FN>,
                    %wide: tensor<100x4096xbf16>, %g2: tensor<11008x4096xbf16>,
                    %u2: tensor<11008x4096xbf16>, %d2: tensor<4096x11008xbf16>)
    -> (tensor<100x2048xbf16>, tensor<100x4096xbf16>) {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<100x2048xbf16>, tensor<11008x2048xf8E4M3FN>,
       tensor<11008x2048xf8E4M3FN>, tensor<2048x11008xf8E4M3FN>)
      -> tensor<100x2048xbf16>
  %z = fuse.gated_mlp %wide gate(%g2) up(%u2) down(%d2) act(silu)
         rounding(exact)
    : (tensor<100x4096xbf16>, tensor<11008x4096xbf16>,
       tensor<11008x4096xbf16>, tensor<4096x11008xbf16>)
      -> tensor<100x4096xbf16>
  return %y, %z : tensor<100x2048xbf16>, tensor<100x4096xbf16>
}

// Swap-AB also serves chains that activate gate and up in f32.

// CHECK-LABEL: func @swap_ab_f32
// CHECK: tile.schedule = #tile.schedule<tokens = 128, blocks = 128, split_k = 6, gemm1_tile_m = 160, {{.*}} partials = bf16, swap_ab = true,
func.func @swap_ab_f32(%x: tensor<128x2560xbf16>, %g: tensor<9728x2560xbf16>,
                         %u: tensor<9728x2560xbf16>, %d: tensor<2560x9728xbf16>)
    -> tensor<128x2560xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         rounding(relaxed skip [gate, up])
    : (tensor<128x2560xbf16>, tensor<9728x2560xbf16>, tensor<9728x2560xbf16>,
       tensor<2560x9728xbf16>) -> tensor<128x2560xbf16>
  return %y : tensor<128x2560xbf16>
}

// A loop of eight k-steps is unrolled, and some CTAs have two tiles. The number
// of token stages is then a power of two: four, which leaves shared memory for
// weights.

// CHECK-LABEL: func @unrolled
// CHECK: tile.schedule = #tile.schedule<tokens = 72, blocks = 132, split_k = 22, gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 11, token_stages = 4, max_in_flight = 2,
func.func @unrolled(%x: tensor<72x512xbf16>, %u: tensor<22528x512xbf16>,
                    %d: tensor<512x22528xbf16>) -> tensor<72x512xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) rounding(relaxed skip [up, act])
    : (tensor<72x512xbf16>, tensor<22528x512xbf16>, tensor<512x22528xbf16>)
      -> tensor<72x512xbf16>
  return %y : tensor<72x512xbf16>
}

// If tiles of 128 rows occupy too few CTAs, two of them for each CTA would take
// twice as long as one. Tiles of 64 rows occupy the CTAs. With few k-steps, two
// stages are in flight.

// CHECK-LABEL: func @narrow
// CHECK: tile.schedule = #tile.schedule<tokens = 128, {{.*}} gemm1_tile_m = 64, {{.*}} max_in_flight = 2, {{.*}} swap_ab = true,
// CHECK-NOT: deferred
// CHECK: return
func.func @narrow(%x: tensor<128x1024xbf16>, %g: tensor<3072x1024xf8E4M3FN>,
                  %u: tensor<3072x1024xf8E4M3FN>,
                  %d: tensor<1024x3072xf8E4M3FN>) -> tensor<128x1024xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<128x1024xbf16>, tensor<3072x1024xf8E4M3FN>,
       tensor<3072x1024xf8E4M3FN>, tensor<1024x3072xf8E4M3FN>)
      -> tensor<128x1024xbf16>
  return %y : tensor<128x1024xbf16>
}

// The deferred epilogue of a dense MLP would spill registers. So would a wide
// one that divides activations by their scale.

// CHECK-LABEL: func @dense
// CHECK: tile.schedule = #tile.schedule<tokens = 128,
// CHECK-NOT: deferred
// CHECK: return
func.func @dense(%x: tensor<128x1024xbf16>, %u: tensor<3072x1024xf8E4M3FN>,
                 %d: tensor<1024x3072xf8E4M3FN>) -> tensor<128x1024xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(gelu)
         scales(f8E4M3FN, input = 2.1e-2, up = 1.1e-3, hidden = 4.0e-2,
                down = 9.0e-4) rounding(exact)
    : (tensor<128x1024xbf16>, tensor<3072x1024xf8E4M3FN>,
       tensor<1024x3072xf8E4M3FN>) -> tensor<128x1024xbf16>
  return %y : tensor<128x1024xbf16>
}

// CHECK-LABEL: func @divided
// CHECK: tile.schedule = #tile.{{.*}}schedule<tokens = 192,
// CHECK-NOT: deferred
// CHECK: return
func.func @divided(%x: tensor<192x2048xbf16>, %g: tensor<16384x2048xf8E4M3FN>,
                   %u: tensor<16384x2048xf8E4M3FN>,
                   %d: tensor<2048x16384xf8E4M3FN>) -> tensor<192x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4, order = divide) rounding(exact)
    : (tensor<192x2048xbf16>, tensor<16384x2048xf8E4M3FN>,
       tensor<16384x2048xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<192x2048xbf16>
  return %y : tensor<192x2048xbf16>
}

// Widths whose tiles are not two equal parts have no deferred epilogue.

// CHECK-LABEL: func @uneven
// CHECK: tile.schedule = #tile.schedule<tokens = 128,
// CHECK-NOT: deferred
// CHECK: return
func.func @uneven(%x: tensor<128x2064xbf16>, %g: tensor<8208x2064xbf16>,
                  %u: tensor<8208x2064xbf16>, %d: tensor<2064x8208xbf16>)
    -> tensor<128x2064xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<128x2064xbf16>, tensor<8208x2064xbf16>, tensor<8208x2064xbf16>,
       tensor<2064x8208xbf16>) -> tensor<128x2064xbf16>
  return %y : tensor<128x2064xbf16>
}
