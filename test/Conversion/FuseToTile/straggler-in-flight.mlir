// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse \
// RUN:   | FileCheck %s

// Four blocks with a tile of one k-step each, and eight units of two stages. A
// block that trails by half a stage has three stages in flight instead of two.

func.func @behind(%x: tensor<?x64xbf16>, %u: tensor<1024x64xbf16>,
                  %d: tensor<256x1024xbf16>) -> tensor<?x256xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 8, split_k = 4,
          gemm2_tile_m = 128, weight_stages = 4, token_stages = 4, max_in_flight = 2,
          straggler_in_flight = 3, partials = f32, tagged_partials = true, hint = evict_first,
          dependent = true>}
    : (tensor<?x64xbf16>, tensor<1024x64xbf16>, tensor<256x1024xbf16>)
      -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// Four stages of the first and 16 of the last product are counted in a launch.
// What a block has seen at the first stage of the last one is of the first.

// CHECK:         role "stream"
// CHECK:           scf.for %[[USE:.*]] = %c0_i32 to %{{.*}} step %c1_i32 iter_args(%[[SEEN:.*]] = %c0_i64, %[[OWN:.*]] = %c0_i32)
// CHECK:             %[[REST2:.*]] = arith.remui %[[SEEN]], %c16_i64
// CHECK:             %[[ALL2:.*]] = arith.trunci %[[REST2]] : i64 to i32
// CHECK:             %[[LEAST2:.*]] = arith.addi %[[OWN]], %c4_i32
// CHECK:             %[[BEHIND2:.*]] = arith.cmpi ult, %[[LEAST2]], %[[ALL2]]
// CHECK:             %[[LAST:.*]] = arith.cmpi ult, %[[TILES:.*]], %[[USE]]
// CHECK:             %[[REST1:.*]] = arith.remui %[[SEEN]], %c4_i64
// CHECK:             %[[ALL1:.*]] = arith.trunci %[[REST1]] : i64 to i32
// CHECK:             %[[LEAST1:.*]] = arith.addi %[[OWN]], %c2_i32
// CHECK:             %[[BEHIND1:.*]] = arith.cmpi ult, %[[LEAST1]], %[[ALL1]]
// CHECK:             %[[BEHIND:.*]] = arith.select %[[LAST]], %[[BEHIND2]], %[[BEHIND1]]
// CHECK:             %[[FIRST:.*]] = arith.cmpi ult, %[[USE]], %[[TILES]]
// CHECK:             %[[INDEX:.*]] = arith.select %[[FIRST]], %c21_i32, %c22_i32
// CHECK:             %[[WORD:.*]] = tile.semaphore %{{.*}}[%[[INDEX]]]
// CHECK:             %[[COUNT:.*]] = tile.semaphore.count %[[WORD]]
// CHECK:             %[[MOST:.*]] = arith.select %[[BEHIND]], %c3_i32, %c2_i32
// CHECK:             scf.if
// CHECK-NEXT:          %[[BEFORE:.*]] = arith.subi %[[USE]], %[[MOST]]
// CHECK-NEXT:          tile.ring.wait %{{.*}}[%[[BEFORE]]]
// CHECK:             tile.ring.acquire %{{.*}}[%[[USE]]]
// CHECK:             scf.yield %[[COUNT]], %
