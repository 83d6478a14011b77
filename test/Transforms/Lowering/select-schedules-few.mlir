// RUN: fuse-opt %s --fuse-select-schedules=tokens=16 \
// RUN:   | FileCheck %s --check-prefixes=CHECK,FEW
// RUN: fuse-opt %s --fuse-select-schedules=tokens=56 \
// RUN:   | FileCheck %s --check-prefixes=CHECK,MORE

// What schedules for at most 64 tokens have that does not follow from the
// largest of three times.

// 84 half tiles of 120 blocks: three stages of each in flight are too few
// to keep memory busy, so that blocks without tiles would ask for theirs
// meanwhile.

// CHECK-LABEL: func @late_wait
// CHECK: blocks = 120, {{.*}} gemm1_tile_m = 128, {{.*}} max_in_flight = 4,
func.func @late_wait(
    %x: tensor<?x3072xbf16>, %g: tensor<5376x3072xbf16>,
    %u: tensor<5376x3072xbf16>, %d: tensor<3072x5376xbf16>)
    -> tensor<?x3072xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x3072xbf16>, tensor<5376x3072xbf16>, tensor<5376x3072xbf16>,
       tensor<3072x5376xbf16>) -> tensor<?x3072xbf16>
  return %y : tensor<?x3072xbf16>
}

// In FP8 a release that waits for more shows with more than 32 tokens.

// CHECK-LABEL: func @late_wait_few
// FEW: blocks = 120, {{.*}} gemm1_tile_m = 128, {{.*}} max_in_flight = 4,
// MORE: blocks = 120, {{.*}} gemm1_tile_m = 128, {{.*}} max_in_flight = 3,
func.func @late_wait_few(
    %x: tensor<?x3072xbf16>, %g: tensor<5376x3072xf8E4M3FN>,
    %u: tensor<5376x3072xf8E4M3FN>, %d: tensor<3072x5376xf8E4M3FN>)
    -> tensor<?x3072xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x3072xbf16>, tensor<5376x3072xf8E4M3FN>, tensor<5376x3072xf8E4M3FN>,
       tensor<3072x5376xf8E4M3FN>) -> tensor<?x3072xbf16>
  return %y : tensor<?x3072xbf16>
}

// Three stages of 100 are nearly enough.

// CHECK-LABEL: func @nearly_enough
// CHECK: gemm1_tile_m = 128, {{.*}} max_in_flight = 3,
func.func @nearly_enough(
    %x: tensor<?x1536xbf16>, %g: tensor<6400x1536xbf16>,
    %u: tensor<6400x1536xbf16>, %d: tensor<1536x6400xbf16>)
    -> tensor<?x1536xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x1536xbf16>, tensor<6400x1536xbf16>, tensor<6400x1536xbf16>,
       tensor<1536x6400xbf16>) -> tensor<?x1536xbf16>
  return %y : tensor<?x1536xbf16>
}

// 172 whole tiles are a second one for 40 of 132 blocks, 344 half ones a third
// for 80. With more than 32 tokens those are done sooner.

// CHECK-LABEL: func @second_tile
// FEW: blocks = 128, split_k = 8, weight_stages
// MORE: blocks = 128, split_k = 4, gemm1_tile_m = 128,
func.func @second_tile(
    %x: tensor<?x4096xbf16>, %g: tensor<22016x4096xf8E4M3FN>,
    %u: tensor<22016x4096xf8E4M3FN>, %d: tensor<4096x22016xf8E4M3FN>)
    -> tensor<?x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x4096xbf16>, tensor<22016x4096xf8E4M3FN>, tensor<22016x4096xf8E4M3FN>,
       tensor<4096x22016xf8E4M3FN>) -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

// 86 whole tiles with two stages in flight keep memory busy: the blocks that
// have them get what the others leave.

// CHECK-LABEL: func @more_than_share
// CHECK: blocks = 128, split_k = 4, {{(gemm2_tile_m = 128, )?}}weight_stages
func.func @more_than_share(
    %x: tensor<?x4096xbf16>, %g: tensor<11008x4096xbf16>,
    %u: tensor<11008x4096xbf16>, %d: tensor<4096x11008xbf16>)
    -> tensor<?x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x4096xbf16>, tensor<11008x4096xbf16>, tensor<11008x4096xbf16>,
       tensor<4096x11008xbf16>) -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

// Of 224 whole tiles most blocks have two.

// CHECK-LABEL: func @two_tiles
// CHECK-NOT: gemm1_tile_m
// CHECK: return
func.func @two_tiles(
    %x: tensor<?x8192xbf16>, %g: tensor<28672x8192xf8E4M3FN>,
    %u: tensor<28672x8192xf8E4M3FN>, %d: tensor<8192x28672xf8E4M3FN>)
    -> tensor<?x8192xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x8192xbf16>, tensor<28672x8192xf8E4M3FN>, tensor<28672x8192xf8E4M3FN>,
       tensor<8192x28672xf8E4M3FN>) -> tensor<?x8192xbf16>
  return %y : tensor<?x8192xbf16>
}

// Of 144 half tiles 12 blocks would have two, for which the others wait. Three
// quarters are one for each, with one stage less in flight where there are
// more tokens ...

// CHECK-LABEL: func @three_quarters
// FEW: tokens = 16, blocks = 108, {{.*}} gemm1_tile_m = 192, {{.*}} max_in_flight = 4, l2_prefetch_stages = 8, publish_throttle_stages = 2,
// MORE: tokens = 64, blocks = 108, {{.*}} gemm1_tile_m = 192, {{.*}} max_in_flight = 3, l2_prefetch_stages = 8, partials
func.func @three_quarters(
    %x: tensor<?x2304xbf16>, %g: tensor<9216x2304xf8E4M3FN>,
    %u: tensor<9216x2304xf8E4M3FN>, %d: tensor<2304x9216xf8E4M3FN>)
    -> tensor<?x2304xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x2304xbf16>, tensor<9216x2304xf8E4M3FN>, tensor<9216x2304xf8E4M3FN>,
       tensor<2304x9216xf8E4M3FN>) -> tensor<?x2304xbf16>
  return %y : tensor<?x2304xbf16>
}

// ... but not where there are 36 k-steps, and 96 blocks for them.

// CHECK-LABEL: func @long_quarters
// CHECK: gemm1_tile_m = 192, {{.*}} max_in_flight = 4,
func.func @long_quarters(
    %x: tensor<?x2304xbf16>, %g: tensor<9216x2304xbf16>,
    %u: tensor<9216x2304xbf16>, %d: tensor<2304x9216xbf16>)
    -> tensor<?x2304xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x2304xbf16>, tensor<9216x2304xbf16>, tensor<9216x2304xbf16>,
       tensor<2304x9216xbf16>) -> tensor<?x2304xbf16>
  return %y : tensor<?x2304xbf16>
}

// Where three stages of 107 keep memory busy and there are 16 k-steps, they do.

// CHECK-LABEL: func @enough
// CHECK: gemm1_tile_m = 192, {{.*}} max_in_flight = 3,
func.func @enough(
    %x: tensor<?x2048xbf16>, %g: tensor<10256x2048xf8E4M3FN>,
    %u: tensor<10256x2048xf8E4M3FN>, %d: tensor<2048x10256xf8E4M3FN>)
    -> tensor<?x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x2048xbf16>, tensor<10256x2048xf8E4M3FN>, tensor<10256x2048xf8E4M3FN>,
       tensor<2048x10256xf8E4M3FN>) -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}

// Three blocks of 132 that have two half tiles have most of what memory brings
// until they are done, with few tokens, and in bf16 with more ...

// CHECK-LABEL: func @few_long
// FEW: blocks = 132, {{.*}} gemm1_tile_m = 128,
// MORE: blocks = 115, {{.*}} gemm1_tile_m = 192,
func.func @few_long(
    %x: tensor<?x2880xbf16>, %g: tensor<8640x2880xf8E4M3FN>,
    %u: tensor<8640x2880xf8E4M3FN>, %d: tensor<2880x8640xf8E4M3FN>)
    -> tensor<?x2880xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x2880xbf16>, tensor<8640x2880xf8E4M3FN>, tensor<8640x2880xf8E4M3FN>,
       tensor<2880x8640xf8E4M3FN>) -> tensor<?x2880xbf16>
  return %y : tensor<?x2880xbf16>
}

// CHECK-LABEL: func @few_long_bf16
// CHECK: blocks = 132, {{.*}} gemm1_tile_m = 128,
func.func @few_long_bf16(
    %x: tensor<?x2880xbf16>, %g: tensor<8640x2880xbf16>,
    %u: tensor<8640x2880xbf16>, %d: tensor<2880x8640xbf16>)
    -> tensor<?x2880xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x2880xbf16>, tensor<8640x2880xbf16>, tensor<8640x2880xbf16>,
       tensor<2880x8640xbf16>) -> tensor<?x2880xbf16>
  return %y : tensor<?x2880xbf16>
}

// ... unless they have few k-steps.

// CHECK-LABEL: func @short_long
// CHECK: gemm1_tile_m = 192,
func.func @short_long(
    %x: tensor<?x1536xbf16>, %g: tensor<8960x1536xf8E4M3FN>,
    %u: tensor<8960x1536xf8E4M3FN>, %d: tensor<1536x8960xf8E4M3FN>)
    -> tensor<?x1536xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x1536xbf16>, tensor<8960x1536xf8E4M3FN>, tensor<8960x1536xf8E4M3FN>,
       tensor<1536x8960xf8E4M3FN>) -> tensor<?x1536xbf16>
  return %y : tensor<?x1536xbf16>
}

// With 8 k-steps two half tiles wait for the norm first, and whole ones are done
// sooner than three quarters.

// CHECK-LABEL: func @unrolled_long
// CHECK: blocks = 112, split_k = 14, {{(gemm2_tile_m = 128, )?}}weight_stages
func.func @unrolled_long(
    %x: tensor<?x1024xbf16>, %g: tensor<10240x1024xf8E4M3FN>,
    %u: tensor<10240x1024xf8E4M3FN>, %d: tensor<1024x10240xf8E4M3FN>)
    -> tensor<?x1024xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x1024xbf16>, tensor<10240x1024xf8E4M3FN>, tensor<10240x1024xf8E4M3FN>,
       tensor<1024x10240xf8E4M3FN>) -> tensor<?x1024xbf16>
  return %y : tensor<?x1024xbf16>
}

// Three quarters wait in bf16. A contract that keeps gate and up in f32 has
// whole tiles where there are 16 k-steps and 29 of 161 blocks have two halves ...

// CHECK-LABEL: func @short_tiles
// CHECK: blocks = 112, split_k = 14, weight_stages
func.func @short_tiles(
    %x: tensor<?x2048xbf16>, %g: tensor<10256x2048xf8E4M3FN>,
    %u: tensor<10256x2048xf8E4M3FN>, %d: tensor<2048x10256xf8E4M3FN>)
    -> tensor<?x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(relaxed skip [gate, up])
    : (tensor<?x2048xbf16>, tensor<10256x2048xf8E4M3FN>, tensor<10256x2048xf8E4M3FN>,
       tensor<2048x10256xf8E4M3FN>) -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}

// ... and with 32, halves.

// CHECK-LABEL: func @longer_tiles
// CHECK: gemm1_tile_m = 128,
func.func @longer_tiles(
    %x: tensor<?x2048xbf16>, %g: tensor<10256x2048xbf16>,
    %u: tensor<10256x2048xbf16>, %d: tensor<2048x10256xbf16>)
    -> tensor<?x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(relaxed skip [gate, up])
    : (tensor<?x2048xbf16>, tensor<10256x2048xbf16>, tensor<10256x2048xbf16>,
       tensor<2048x10256xbf16>) -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}

// Of 142 dense tiles ten blocks would have two.

// CHECK-LABEL: func @dense
// CHECK: gemm1_tile_m = 128,
func.func @dense(
    %x: tensor<?x4544xbf16>, %u: tensor<18176x4544xbf16>,
    %d: tensor<4544x18176xbf16>) -> tensor<?x4544xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(gelu) rounding(exact)
    : (tensor<?x4544xbf16>, tensor<18176x4544xbf16>, tensor<4544x18176xbf16>)
      -> tensor<?x4544xbf16>
  return %y : tensor<?x4544xbf16>
}

// Nine k-steps are unrolled. Stages of tokens are a power of two then, where
// blocks without tiles wait as well ...

// CHECK-LABEL: func @unrolled
// FEW: blocks = 126, {{.*}} token_stages = 8,
// MORE: blocks = 126, {{.*}} weight_stages = 10, token_stages = 8,
func.func @unrolled(
    %x: tensor<?x1152xbf16>, %g: tensor<6912x1152xf8E4M3FN>,
    %u: tensor<6912x1152xf8E4M3FN>, %d: tensor<1152x6912xf8E4M3FN>)
    -> tensor<?x1152xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x1152xbf16>, tensor<6912x1152xf8E4M3FN>, tensor<6912x1152xf8E4M3FN>,
       tensor<1152x6912xf8E4M3FN>) -> tensor<?x1152xbf16>
  return %y : tensor<?x1152xbf16>
}

// ... and not where each block has one.

// CHECK-LABEL: func @one_each
// FEW: blocks = 132, {{.*}} token_stages = 8,
// MORE: blocks = 132, {{.*}} token_stages = 6,
func.func @one_each(
    %x: tensor<?x1152xbf16>, %g: tensor<8448x1152xf8E4M3FN>,
    %u: tensor<8448x1152xf8E4M3FN>, %d: tensor<1152x8448xf8E4M3FN>)
    -> tensor<?x1152xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x1152xbf16>, tensor<8448x1152xf8E4M3FN>, tensor<8448x1152xf8E4M3FN>,
       tensor<1152x8448xf8E4M3FN>) -> tensor<?x1152xbf16>
  return %y : tensor<?x1152xbf16>
}
