// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse | FileCheck %s

// Tokens on the left of the first product: a block has 96 rows, three groups of
// 32, which may begin anywhere in a run of four, so that a stage comes in two
// pieces of each half of a run, of sizes that depend on the block. Each
// warpgroup multiplies its 64 tokens by all rows. Which groups are pairs, whose
// hidden units are one access, depends on the block too. A warp arrives for
// each range that its tile has units of.

// CHECK-LABEL: tile.kernel @gated_mlp_decode_0
// CHECK:         tile.ring.create at(40960) consumers(2) : !tile.ring<4 x 16384>
// CHECK:         tile.ring.create at(0) consumers(2) : !tile.ring<4 x 10240>
// What loads weights:
// CHECK:         %[[BYTES:.*]] = arith.select %{{.*}}, %c12288_i32, %c16384_i32 : i32
// CHECK:         %[[STAGE:.*]] = tile.ring.acquire %{{.*}}[%{{.*}}] bytes(%[[BYTES]]) : !tile.ring<4 x 16384>
// CHECK-COUNT-4: tile.copy %{{.*}}[%{{.*}}] to %[[STAGE]] piece(%{{.*}}, %{{.*}}) evict_first
// CHECK-NOT:     piece
// CHECK:         tile.copy %{{.*}} to %[[STAGE]] evict_first
// What multiplies:
// CHECK:         tile.view %{{.*}} : !tile.stage<10240> -> !tile.shared<64x64xbf16, swizzle 128>
// CHECK:         tile.view %{{.*}} : !tile.stage<16384> -> !tile.shared<96x64xbf16, swizzle 128>
// CHECK:         tile.mma {{.*}} !tile.acc<64x96xf32>
// CHECK:         tile.acc.values {{.*}} !tile.acc<64x96xf32>
// Rows of the second warpgroup behind the last token:
// CHECK:         arith.cmpi ult, %{{.*}}, %c80_i32
// CHECK:         scf.if
// CHECK:           tile.store {{.*}} : vector<4xbf16>, !tile.buffer<bf16>
// CHECK:           tile.store {{.*}} : vector<8xbf16>, !tile.buffer<bf16>
// CHECK:         } else {
// CHECK:           tile.store {{.*}} : vector<8xbf16>, !tile.buffer<bf16>
// CHECK:           tile.store {{.*}} : vector<4xbf16>, !tile.buffer<bf16>
// CHECK:         tile.fence_async
// CHECK-NEXT:    tile.warp_sync
// CHECK:         scf.if
// CHECK:           tile.semaphore.arrive
func.func @swapped(%x: tensor<?x256xbf16>, %g: tensor<384x256xbf16>,
                   %u: tensor<384x256xbf16>, %d: tensor<128x384xbf16>)
    -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 80, blocks = 8, split_k = 2,
          gemm1_tile_m = 96, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 3, partials = f32, swap_ab = true, hint = evict_first,
          dependent = true>}
    : (tensor<?x256xbf16>, tensor<384x256xbf16>, tensor<384x256xbf16>,
       tensor<128x384xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// Groups of a dense MLP have eight neighboring hidden units for each thread.
// With 256 rows a stage is filled by both products, which take two k-steps of
// 128 rows of the last one.

// CHECK-LABEL: tile.kernel @mlp_decode_0
// CHECK-NOT:     bytes(%
// CHECK:         tile.mma {{.*}} !tile.acc<64x256xf32>
// CHECK-COUNT-16: tile.store {{.*}} : vector<8xbf16>, !tile.buffer<bf16>
func.func @dense(%x: tensor<?x128xbf16>, %u: tensor<512x128xbf16>,
                 %d: tensor<128x512xbf16>) -> tensor<?x128xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 128, blocks = 4, split_k = 2,
          gemm2_tile_m = 128, weight_stages = 3, token_stages = 4, max_in_flight = 2,
          partials = f32, swap_ab = true, hint = evict_first,
          dependent = true>}
    : (tensor<?x128xbf16>, tensor<512x128xbf16>, tensor<128x512xbf16>)
      -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// Behind the first three stages of the last product, whose first product has
// four k-steps, two are requested with one in flight instead of three.

// CHECK-LABEL: tile.kernel @gated_mlp_decode_1
// CHECK:         scf.for %[[USE:.*]] = %c0_i32 to
// CHECK:           %[[THIRD:.*]] = arith.subi %[[USE]], %c3_i32
// CHECK-NEXT:      tile.ring.wait %{{.*}}[%[[THIRD]]]
// CHECK:           %[[BEHIND:.*]] = arith.subi %[[USE]], %c7_i32
// CHECK-NEXT:      %[[SETTLES:.*]] = arith.cmpi ult, %[[BEHIND]], %c2_i32
// CHECK-NEXT:      %[[EXISTS:.*]] = arith.cmpi ugt, %[[USE]], %c0_i32
// CHECK-NEXT:      %[[WAITS:.*]] = arith.andi %[[SETTLES]], %[[EXISTS]]
// CHECK-NEXT:      scf.if %[[WAITS]] {
// CHECK-NEXT:        %[[LAST:.*]] = arith.subi %[[USE]], %c1_i32
// CHECK-NEXT:        tile.ring.wait %{{.*}}[%[[LAST]]]
// CHECK:           tile.ring.acquire %{{.*}}[%[[USE]]]
func.func @settled(%x: tensor<?x256xbf16>, %g: tensor<384x256xbf16>,
                   %u: tensor<384x256xbf16>, %d: tensor<128x384xbf16>)
    -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 80, blocks = 8, split_k = 1,
          gemm1_tile_m = 96, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 3, publish_throttle_stages = 2, publish_in_flight = 1, partials = f32,
          swap_ab = true, hint = evict_first, dependent = true>}
    : (tensor<?x256xbf16>, tensor<384x256xbf16>, tensor<384x256xbf16>,
       tensor<128x384xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
