// RUN: fuse-opt %s --fuse-select-schedules | FileCheck %s

// Whole tiles of 32 k-steps: blocks that are behind have a stage more on their
// way.

// CHECK-LABEL: func @even
// CHECK: tokens = 16, blocks = 128, {{.*}} max_in_flight = 2, straggler_in_flight = 3, l2_prefetch_stages = 8
func.func @even(%x: tensor<16x2048xbf16>, %n: tensor<2048xbf16>,
    %g: tensor<16384x2048xbf16>, %u: tensor<16384x2048xbf16>,
    %d: tensor<2048x16384xbf16>) -> tensor<16x2048xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
    : (tensor<16x2048xbf16>, tensor<2048xbf16>, tensor<16384x2048xbf16>,
       tensor<16384x2048xbf16>, tensor<2048x16384xbf16>) -> tensor<16x2048xbf16>
  return %y : tensor<16x2048xbf16>
}

// Those without tiles of the first product count stages of the last one.

// CHECK-LABEL: func @late
// CHECK: tokens = 8, blocks = 128, {{.*}} max_in_flight = 2, straggler_in_flight = 3, l2_prefetch_stages = 8
func.func @late(%x: tensor<1x4096xbf16>, %n: tensor<4096xbf16>,
    %g: tensor<12288x4096xbf16>, %u: tensor<12288x4096xbf16>,
    %d: tensor<4096x12288xbf16>) -> tensor<1x4096xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
    : (tensor<1x4096xbf16>, tensor<4096xbf16>, tensor<12288x4096xbf16>,
       tensor<12288x4096xbf16>, tensor<4096x12288xbf16>) -> tensor<1x4096xbf16>
  return %y : tensor<1x4096xbf16>
}

// A k-step less.

// CHECK-LABEL: func @short
// CHECK: tokens = 16, {{.*}} max_in_flight = 2, l2_prefetch_stages = 8
func.func @short(%x: tensor<16x1984xbf16>, %n: tensor<1984xbf16>,
    %g: tensor<16384x1984xbf16>, %u: tensor<16384x1984xbf16>,
    %d: tensor<1984x16384xbf16>) -> tensor<16x1984xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
    : (tensor<16x1984xbf16>, tensor<1984xbf16>, tensor<16384x1984xbf16>,
       tensor<16384x1984xbf16>, tensor<1984x16384xbf16>) -> tensor<16x1984xbf16>
  return %y : tensor<16x1984xbf16>
}

// More tokens.

// CHECK-LABEL: func @many
// CHECK: tokens = 24, {{.*}} max_in_flight = 2, l2_prefetch_stages = 8
func.func @many(%x: tensor<24x2048xbf16>, %n: tensor<2048xbf16>,
    %g: tensor<16384x2048xbf16>, %u: tensor<16384x2048xbf16>,
    %d: tensor<2048x16384xbf16>) -> tensor<24x2048xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
    : (tensor<24x2048xbf16>, tensor<2048xbf16>, tensor<16384x2048xbf16>,
       tensor<16384x2048xbf16>, tensor<2048x16384xbf16>) -> tensor<24x2048xbf16>
  return %y : tensor<24x2048xbf16>
}

// Half tiles.

// CHECK-LABEL: func @halves
// CHECK: gemm1_tile_m = 128, {{.*}} max_in_flight = 3, l2_prefetch_stages = 8
func.func @halves(%x: tensor<16x3072xbf16>, %n: tensor<3072xbf16>,
    %g: tensor<8192x3072xbf16>, %u: tensor<8192x3072xbf16>,
    %d: tensor<3072x8192xbf16>) -> tensor<16x3072xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
    : (tensor<16x3072xbf16>, tensor<3072xbf16>, tensor<8192x3072xbf16>,
       tensor<8192x3072xbf16>, tensor<3072x8192xbf16>) -> tensor<16x3072xbf16>
  return %y : tensor<16x3072xbf16>
}

// Some blocks have two tiles.

// CHECK-LABEL: func @uneven
// CHECK: tokens = 16, {{.*}} max_in_flight = 2, l2_prefetch_stages = 8
func.func @uneven(%x: tensor<16x8192xbf16>, %n: tensor<8192xbf16>,
    %g: tensor<28672x8192xbf16>, %u: tensor<28672x8192xbf16>,
    %d: tensor<8192x28672xbf16>) -> tensor<16x8192xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
    : (tensor<16x8192xbf16>, tensor<8192xbf16>, tensor<28672x8192xbf16>,
       tensor<28672x8192xbf16>, tensor<8192x28672xbf16>) -> tensor<16x8192xbf16>
  return %y : tensor<16x8192xbf16>
}
