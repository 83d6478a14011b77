// RUN: fuse-opt %s --fuse-select-schedules | FileCheck %s
// RUN: fuse-opt %s --fuse-select-schedules=tokens=16 \
// RUN:   | FileCheck %s --check-prefix=FEW
// RUN: fuse-opt %s --fuse-select-schedules=tokens=56 \
// RUN:   | FileCheck %s --check-prefix=IDLE
// RUN: fuse-opt %s --fuse-select-schedules="tokens=56 multiprocessors=128" \
// RUN:   | FileCheck %s --check-prefix=BUSY
// RUN: fuse-opt %s --fuse-select-schedules="tokens=56 multiprocessors=144" \
// RUN:   | FileCheck %s --check-prefix=BUSY
// RUN: fuse-opt %s --fuse-select-schedules=multiprocessors=78 \
// RUN:   | FileCheck %s --check-prefix=SMALL
// RUN: fuse-opt %s --fuse-select-schedules --remarks-filter=codegen \
// RUN:     --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// Every block has the same share of both products: 128 tiles of gate and up,
// 16 output tiles of 128 rows in 8 ranges. Hidden units are what the last
// product waits for, since a block has nearly all of its weights by then; with
// few tokens its sums come before them. Half of the ranges add up: with more
// than 32 tokens, a few blocks without work lie among the others then. Where
// there are none, or where they would be many, a fifth range of eight saves a
// column of sums for each of 56 tokens' 14.

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
// REMARK: [[@LINE+4]]:8: remark: [Passed] schedule | Category:codegen | microseconds={{.*}}, weight_bytes=100663296
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

// With more tokens a block has two tiles of 64 hidden units, which it activates
// under what comes next.

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

// One launch for up to 256 tokens, where the model thinks it faster than one
// for each product.

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

// 140 half tiles of 132 blocks: eight have two, twice as much in flight, and
// no unit of the last product.

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

// With more tokens, which are the left operand then, 112 tiles of 160 rows are
// one for each block. Only one stage is in flight while blocks release their
// hidden units.

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

// With up to 88 tokens, or many k-steps, two are; with all tokens one, but for
// tiles of 128 rows.

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

// One alone makes three stages pay with 18 k-steps, of which a fourth settles;
// with 17 there are two.

// CHECK-LABEL: func @settled
// CHECK: tokens = 128, {{.*}} gemm1_tile_m = 160, {{.*}} max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 4, publish_in_flight = 1, partials
// CHECK: tokens = 128, {{.*}} gemm1_tile_m = 128, {{.*}} max_in_flight = 2, l2_prefetch_stages = 8, publish_throttle_stages = 3, partials
func.func @settled(
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

// 172 half tiles: too many blocks would have two, and 115 have three quarters of
// a whole one, as many rows as they would with tokens on the left. All have a
// row of tokens at most. With more k-steps a fourth stage is in flight.

// CHECK-LABEL: func @quarters
// CHECK: tile.schedule = #tile.schedule<tokens = 112, blocks = 132, split_k = 8, gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 10, token_stages = 4, max_in_flight = 3, l2_prefetch_stages = 8, publish_throttle_stages = 6,
// CHECK: tile.schedule = #tile.schedule<tokens = 112, blocks = 132, split_k = 4, gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 10, token_stages = 4, max_in_flight = 4, l2_prefetch_stages = 8, partials
func.func @quarters(%x: tensor<100x2048xbf16>,
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

// With tokens on the left, gate and up may be activated in f32.

// CHECK-LABEL: func @unrounded
// CHECK: tile.schedule = #tile.schedule<tokens = 128, blocks = 128, split_k = 6, gemm1_tile_m = 160, {{.*}} partials = bf16, swap_ab = true,
func.func @unrounded(%x: tensor<128x2560xbf16>, %g: tensor<9728x2560xbf16>,
                       %u: tensor<9728x2560xbf16>, %d: tensor<2560x9728xbf16>)
    -> tensor<128x2560xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         rounding(relaxed skip [gate, up])
    : (tensor<128x2560xbf16>, tensor<9728x2560xbf16>, tensor<9728x2560xbf16>,
       tensor<2560x9728xbf16>) -> tensor<128x2560xbf16>
  return %y : tensor<128x2560xbf16>
}

// Eight k-steps are unrolled, and some blocks have two half tiles: stages of
// tokens are a power of two, the smaller one, which leaves room for weights.

// CHECK-LABEL: func @unrolled
// CHECK: tile.schedule = #tile.schedule<tokens = 72, blocks = 132, split_k = 22, gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 11, token_stages = 4, max_in_flight = 2,
func.func @unrolled(%x: tensor<72x512xbf16>, %u: tensor<22528x512xbf16>,
                    %d: tensor<512x22528xbf16>) -> tensor<72x512xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) rounding(relaxed skip [up, act])
    : (tensor<72x512xbf16>, tensor<22528x512xbf16>, tensor<512x22528xbf16>)
      -> tensor<72x512xbf16>
  return %y : tensor<72x512xbf16>
}

// Where half tiles do not occupy the blocks, two for each would take twice as
// long as one. Tiles of 64 rows do. Of few k-steps two are in flight.

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

// Deferred tiles of a dense MLP would spill registers, and so would wide ones
// that divide activations by their scale.

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

// Widths whose tiles do not make two equal parts are activated at once.

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

// A relaxed kernel may round partial sums, and does from 33 tokens on: a block
// finds only exact ones by looking. Static tokens decide the tile.

// CHECK-LABEL: func @relaxed
// CHECK: tokens = 40, {{.*}} partials = bf16, hint
func.func @relaxed(%x: tensor<33x64xbf16>, %u: tensor<256x64xbf16>,
                   %d: tensor<64x256xbf16>) -> tensor<33x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(relaxed skip [act])
    : (tensor<33x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<33x64xbf16>
  return %y : tensor<33x64xbf16>
}

// A schedule in the text stays.

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

// Projections have no hidden layer; the input is cut into ranges.

// CHECK-LABEL: func @projections
// CHECK: fuse.norm_linear
// CHECK-SAME: tile.schedule = #tile.schedule<tokens = 64, blocks = 120, split_k = 3, gemm2_tile_m = 128,
// CHECK-NOT: staged
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

// A kernel that takes rows one by one needs enough threads, in blocks for
// whole rows.

// CHECK-LABEL: func @rows
// CHECK: fuse.norm_quantize
// CHECK-SAME: tile.schedule = #tile.row_schedule<blocks = 1056, threads = 256>
// CHECK: fuse.act_quantize
// CHECK-SAME: tile.schedule = #tile.row_schedule<blocks = 1056, threads = 256>
// CHECK: fuse.act_quantize
// CHECK-NOT: tile.schedule
// CHECK: return
// REMARK: [Missed] schedule | Category:codegen | Reason="values are quantized to i8, not f8E4M3FN or f8E5M2"
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

// What the kernel cannot do stays for the portable path, with the reason.

// CHECK-LABEL: func @declined
// CHECK-NOT: tile.schedule
// REMARK: [Missed] schedule | Category:codegen | Reason="there is no scheduled kernel for fuse.group"
// REMARK: [Missed] schedule | Category:codegen | Reason="the input is f32, not bf16"
// REMARK: [Missed] schedule | Category:codegen | Reason="the hidden width 40 is not a multiple of 16"
// REMARK: [Missed] schedule | Category:codegen | Reason="16385 tokens are more than 16384"
// REMARK: [Missed] schedule | Category:codegen | Reason="a weight has one scale per channel"
func.func @declined(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                    %a: tensor<64x64xbf16>, %f: tensor<?x64xf32>,
                    %fu: tensor<64x64xf32>, %o: tensor<40x64xbf16>,
                    %od: tensor<64x40xbf16>, %many: tensor<16385x64xbf16>,
                    %q: tensor<64x64xf8E4M3FN>, %s: tensor<64xf32>) {
  %0 = fuse.group(%g = %x : tensor<?x64xbf16>) -> (tensor<?x64xbf16>)
         rounding(exact) {
    %y = fuse.activation silu %g : tensor<?x64xbf16> -> tensor<?x64xbf16>
    fuse.yield %y : tensor<?x64xbf16>
  }
  %1 = fuse.mlp %f up(%fu) down(%fu) act(relu) rounding(exact)
    : (tensor<?x64xf32>, tensor<64x64xf32>, tensor<64x64xf32>)
      -> tensor<?x64xf32>
  %2 = fuse.mlp %x up(%o) down(%od) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<40x64xbf16>, tensor<64x40xbf16>)
      -> tensor<?x64xbf16>
  %3 = fuse.mlp %many up(%a) down(%a) act(relu) rounding(exact)
    : (tensor<16385x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<16385x64xbf16>
  %4 = fuse.mlp %x up(%q) down(%q) act(relu) channel_scales(%s)
         scales(f8E4M3FN, input = 1.0, up = per_channel, hidden = 1.0,
                down = 1.0) rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>,
       tensor<64xf32>) -> tensor<?x64xbf16>
  return
}

// Forms that the kernel does not have.

// CHECK-LABEL: func @other_forms
// CHECK-NOT: tile.schedule
// REMARK: [Missed] schedule | Category:codegen | Reason="the chain dequantizes operands before its products"
// REMARK: [Missed] schedule | Category:codegen | Reason="a bias is added after rounding"
func.func @other_forms(%x: tensor<?x64xbf16>, %q: tensor<64x64xf8E4M3FN>,
                       %w: tensor<64x64xbf16>, %b: tensor<64xbf16>) {
  %0 = fuse.mlp %x up(%q) down(%q) act(relu)
         scales(f8E4M3FN, up = 1.0, down = 1.0, form = weight_only)
         rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>)
      -> tensor<?x64xbf16>
  %1 = fuse.mlp %x up(%w bias %b) down(%w) act(relu)
         rounding(exact bias after_rounding)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16>,
       tensor<64x64xbf16>) -> tensor<?x64xbf16>
  return
}

// 192 tiles of the first product are one more for 60 of 132 blocks, so that
// ranges of the other blocks are longer.

// CHECK-LABEL: func @unequal
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 132, split_k = 4, stages = 4, group = 16, launches = 1, uneven_split_k = true, dependent = true>
func.func @unequal(%x: tensor<256x4096xbf16>, %g: tensor<12288x4096xbf16>,
                   %u: tensor<12288x4096xbf16>, %d: tensor<4096x12288xbf16>)
    -> tensor<256x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<256x4096xbf16>, tensor<12288x4096xbf16>,
       tensor<12288x4096xbf16>, tensor<4096x12288xbf16>)
      -> tensor<256x4096xbf16>
  return %y : tensor<256x4096xbf16>
}

// With three or four tiles each, blocks wait for little, and even shares are
// faster.

// CHECK-LABEL: func @little_to_wait_for
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 132, split_k = 1, stages = 4, group = 16, launches = 1, stream_k = true, dependent = true>
func.func @little_to_wait_for(%x: tensor<256x8192xbf16>,
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

// Six token tiles of sixteen tiles of weights would be 96 units, too many for
// ranges and few for blocks, so that they are dealt out evenly. Ragged tiles have
// no registers for that.

// CHECK-LABEL: func @even
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 768, blocks = 132, split_k = 1, stages = 4, group = 16, launches = 1, stream_k = true, dependent = true>
func.func @even(%x: tensor<768x4096xbf16>, %g: tensor<12288x4096xbf16>,
                %u: tensor<12288x4096xbf16>, %d: tensor<4096x12288xbf16>)
    -> tensor<768x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<768x4096xbf16>, tensor<12288x4096xbf16>,
       tensor<12288x4096xbf16>, tensor<4096x12288xbf16>)
      -> tensor<768x4096xbf16>
  return %y : tensor<768x4096xbf16>
}

// All tokens go round the weights together where L2 keeps them: 16.8 MB, but not
// the 33.6 MB above. With this number of token tiles, pairs of blocks share weights.

// CHECK-LABEL: func @in_l2
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 4096, blocks = 132, split_k = 1, stages = 4, group = 16, cluster = 2, launches = 1, stream_k = true, dependent = true>
func.func @in_l2(%x: tensor<4096x2048xbf16>, %g: tensor<16384x2048xbf16>,
                 %u: tensor<16384x2048xbf16>, %d: tensor<2048x16384xbf16>)
    -> tensor<4096x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<4096x2048xbf16>, tensor<16384x2048xbf16>,
       tensor<16384x2048xbf16>, tensor<2048x16384xbf16>)
      -> tensor<4096x2048xbf16>
  return %y : tensor<4096x2048xbf16>
}

// An odd number of token tiles would leave a block of a pair without tokens, and
// so would many numbers that are not known.

// CHECK-LABEL: func @odd
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 3968, blocks = 132, split_k = 1, stages = 4, group = 32, launches = 1, stream_k = true, dependent = true>
func.func @odd(%x: tensor<3968x2048xbf16>, %g: tensor<16384x2048xbf16>,
               %u: tensor<16384x2048xbf16>, %d: tensor<2048x16384xbf16>)
    -> tensor<3968x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<3968x2048xbf16>, tensor<16384x2048xbf16>,
       tensor<16384x2048xbf16>, tensor<2048x16384xbf16>)
      -> tensor<3968x2048xbf16>
  return %y : tensor<3968x2048xbf16>
}

// Eight token tiles have to gain more by even shares than they would: they took
// 5 % longer.

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

// Where each block has one tile of the last product, it has it in the launch of
// the first: here six tiles before, in 128 blocks.

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

// Few blocks would have one of 32 tiles with narrow weights, and the others wait.

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

// More than 256 tokens take a kernel for both products: 128 units of the last
// one in 4 ranges, and 512 tiles of the first one, which are four for each of 128
// blocks.

// CHECK-LABEL: func @many
// CHECK: tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 128, split_k = 4, stages = 4, group = 16, launches = 1, dependent = true>
// REMARK: [[@LINE+4]]:8: remark: [Passed] schedule | Category:codegen | microseconds={{.*}}, weight_bytes=100663296
func.func @many(%x: tensor<512x2048xbf16>, %g: tensor<16384x2048xf8E4M3FN>,
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

// The bounds of ragged tiles take the registers that a dense MLP in 8 bits would
// need for both products in one launch.

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
