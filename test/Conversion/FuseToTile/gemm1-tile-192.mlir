// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse | FileCheck %s

// Tiles of 192 rows: a stage has 128 rows of a k-step, or the 64 others of two.
// A warpgroup has 64 of the pair for all tokens, and all of the single quarter
// for half of them. Hidden units leave through the last token stages: those of
// the pair 16 bytes at a time, the others, between which those of another tile
// lie, one by one.

// CHECK-LABEL: tile.kernel @gated_mlp_decode_0
// CHECK:         %[[WEIGHTS:.*]] = tile.ring.create at(0) consumers(2) : !tile.ring<4 x 16384>
// What loads weights:
// CHECK:         %[[STAGE:.*]] = tile.ring.acquire %[[WEIGHTS]]
// CHECK:         tile.copy %[[FIRST:.*]][{{.*}}] to %[[STAGE]] at(0) bytes(8192)
// CHECK:         tile.copy %[[FIRST]][{{.*}}] to %[[STAGE]] at(8192) bytes(8192)
// CHECK:         tile.copy %[[FIRST]][{{.*}}] to %[[STAGE]] evict_first
// What multiplies, two k-steps at a time:
// CHECK:         %[[LOOP:.*]]:4 = scf.for
// CHECK:           %[[PAIR:.*]] = tile.ring.wait %[[WEIGHTS]]
// CHECK:           %[[SINGLE:.*]] = tile.ring.wait %[[WEIGHTS]]
// CHECK:           tile.view %[[SINGLE]]
// CHECK:           tile.mma {{.*}} !tile.acc<64x32xf32>
// CHECK:           tile.mma {{.*}} !tile.acc<64x16xf32>
// CHECK:           tile.mma.commit
// CHECK:           tile.view %[[SINGLE]]
// CHECK:           tile.mma {{.*}} !tile.acc<64x32xf32>
// CHECK:           tile.mma {{.*}} !tile.acc<64x16xf32>
// CHECK:           tile.mma.commit
// CHECK:         tile.acc.wait %[[LOOP]]#0, %[[LOOP]]#1
// CHECK:         tile.store {{.*}} : vector<8xbf16>, !tile.buffer<bf16>
// CHECK:         tile.load {{.*}} : !tile.buffer<bf16, shared> -> bf16
// CHECK:         tile.store {{.*}} : bf16, !tile.buffer<bf16>
// CHECK-NOT:     vector<8xbf16>
// CHECK:         tile.semaphore.arrive
func.func @quarters(%x: tensor<?x256xbf16>, %g: tensor<384x256xbf16>,
                    %u: tensor<384x256xbf16>, %d: tensor<128x384xbf16>)
    -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 32, blocks = 4, split_k = 2,
          gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 3, partials = f32, smem_epilogue = true, hint = evict_first,
          dependent = true>}
    : (tensor<?x256xbf16>, tensor<384x256xbf16>, tensor<384x256xbf16>,
       tensor<128x384xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
