// RUN: fuse-opt %s --fuse-select-schedules="dispatch=true tokens=16384" \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --fuse-select-schedules="dispatch=true tokens=50" \
// RUN:   | FileCheck %s --check-prefix=FEW
// RUN: fuse-opt %s --fuse-select-schedules="dispatch=true tokens=16384" \
// RUN:     --remarks-filter=codegen --remark-format=emitRemark \
// RUN:     -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Ranges of tokens with a schedule each, up to the most tokens. The last product
// is cut into fewer parts as there are more tokens.

// CHECK-LABEL: func @every_number
// CHECK:       tile.schedule = #tile.dispatch<8 : #tile.schedule<tokens = 8,
// CHECK-SAME:  16 : #tile.schedule<tokens = 16,
// CHECK-SAME:  32 : #tile.schedule<tokens = 32,
// CHECK-SAME:  64 : #tile.schedule<tokens = 64,
// CHECK-SAME:  128 : #tile.schedule<tokens = 128,
// CHECK-SAME:  #tile.prefill_schedule<tokens = 256, blocks = 128, split_k = 8,
// CHECK-SAME:  640 : #tile.prefill_schedule<tokens = 640, blocks = 128, split_k = 3,
// CHECK-SAME:  896 : #tile.prefill_schedule<tokens = 896, {{[^>]*}} stream_k = true,
// CHECK-SAME:  1024 : #tile.prefill_schedule<tokens = 1024, blocks = 128, split_k = 2,
// CHECK-SAME:  16384 : #tile.prefill_schedule<tokens = 16384, blocks = 132, split_k = 1,

// Fewer tokens have fewer ranges, and the last one ends where they do.

// FEW-LABEL:   func @every_number
// FEW:         #tile.dispatch<8 : {{.*}} 32 : #tile.schedule<tokens = 32, {{.*}}, 50 : #tile.schedule<tokens = 56,
// FEW-NOT:     prefill_schedule
// REMARK: [[@LINE+4]]:8: remark: [Passed] schedule | Category:codegen | ranges={{[0-9]+}}, tokens=16384, weight_bytes=100663296
func.func @every_number(
    %x: tensor<?x2048xbf16>, %g: tensor<16384x2048xf8E4M3FN>,
    %u: tensor<16384x2048xf8E4M3FN>, %d: tensor<2048x16384xf8E4M3FN>) -> tensor<?x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 2.1e-2, gate = 1.3e-3, up = 1.1e-3,
                hidden = 4.0e-2, down = 9.0e-4) rounding(exact)
    : (tensor<?x2048xbf16>, tensor<16384x2048xf8E4M3FN>,
       tensor<16384x2048xf8E4M3FN>, tensor<2048x16384xf8E4M3FN>)
      -> tensor<?x2048xbf16>
  return %y : tensor<?x2048xbf16>
}

// Ranges of unequal length have a range of tokens of their own: with three token
// tiles, blocks are as busy with equal ones.

// CHECK-LABEL: func @unequal
// CHECK:       256 : #tile.prefill_schedule<tokens = 256, blocks = 132, split_k = 4, stages = 4, group = 16, launches = 1, uneven_split_k = true,
// CHECK-SAME:  512 : #tile.prefill_schedule<tokens = 512, blocks = 132, split_k = 2, stages = 4, group = 16, launches = 1, dependent = true>

// Eight token tiles and sixteen tiles of weights are one for each of 128 blocks.
// That alone is a range: with more tokens, shares are dealt out evenly again.

// CHECK-SAME:  896 : #tile.prefill_schedule<tokens = 896, {{[^>]*}} stream_k = true,
// CHECK-SAME:  1024 : #tile.prefill_schedule<tokens = 1024, blocks = 128, split_k = 1, stages = 4, group = 16, launches = 1, dependent = true>
// CHECK-SAME:  16384 : #tile.prefill_schedule<tokens = 16384, {{[^>]*}} stream_k = true,
func.func @unequal(%x: tensor<?x4096xbf16>, %g: tensor<12288x4096xbf16>,
                   %u: tensor<12288x4096xbf16>, %d: tensor<4096x12288xbf16>)
    -> tensor<?x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x4096xbf16>, tensor<12288x4096xbf16>,
       tensor<12288x4096xbf16>, tensor<4096x12288xbf16>)
      -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

// Where outputs are too many for the blocks of a kernel that reads weights once,
// the others serve few tokens too; and elements of no matrix are more than 32
// bits count.

// FEW-LABEL:   func @wide
// CHECK-LABEL: func @wide
// CHECK:       tile.schedule = #tile.dispatch<14128 : #tile.prefill_schedule<tokens = 14128,
func.func @wide(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
                %w: tensor<152000x64xbf16>) -> tensor<?x152000xbf16> {
  %y = fuse.norm_linear %x norm(rms %n eps 1.0e-6) linear(%w) rounding(exact)
    : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<152000x64xbf16>)
      -> tensor<?x152000xbf16>
  return %y : tensor<?x152000xbf16>
}

// A number that is known has one schedule, and so has an op with a schedule in
// its text.

// CHECK-LABEL: func @one
// CHECK-NOT:   dispatch
// CHECK:       tile.schedule = #tile.schedule<tokens = 8,
// CHECK-NOT:   dispatch
// CHECK:       tile.schedule = #tile.schedule<tokens = 40,
// CHECK-NOT:   dispatch
func.func @one(%x: tensor<3x64xbf16>, %z: tensor<?x64xbf16>,
               %u: tensor<256x64xbf16>, %d: tensor<64x256xbf16>)
    -> (tensor<3x64xbf16>, tensor<?x64xbf16>) {
  %0 = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<3x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<3x64xbf16>
  %1 = fuse.mlp %z up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 40, blocks = 2, split_k = 1,
          weight_stages = 2, token_stages = 2, max_in_flight = 0, partials = f32,
          hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %0, %1 : tensor<3x64xbf16>, tensor<?x64xbf16>
}
