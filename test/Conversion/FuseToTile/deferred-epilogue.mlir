// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse | FileCheck %s

// Each block has two tiles of the first product, and each range of the last
// one two halves. A warp announces each tile when the others have activated it,
// and what loads hidden units waits for the first tiles, loads their half of
// the range, and then waits for the second ones.

// CHECK-LABEL: tile.kernel @gated_mlp_decode_0
// What loads hidden units:
// CHECK:         tile.semaphore.wait %{{.*}} epoch(%[[EPOCH:.*]]) arrivals(%[[TILES:.*]])
// CHECK:         tile.semaphore.wait %{{.*}} epoch(%[[EPOCH]]) arrivals(%[[HALF:.*]])
// CHECK:         tile.copy %[[HIDDEN:.*]][{{.*}}] to %{{.*}} normal
// CHECK:         tile.semaphore.wait %{{.*}} epoch(%[[EPOCH]]) arrivals(%[[HALF]])
// CHECK:         tile.copy %[[HIDDEN]][{{.*}}] to %{{.*}} normal
// CHECK-NOT:     tile.copy
// What announces:
// CHECK:         tile.barrier 2 threads(288)
// CHECK:         tile.semaphore.arrive
// CHECK:         tile.barrier 3 threads(288)
// CHECK:         tile.semaphore.arrive
// What multiplies:
// CHECK:         tile.barrier.arrive 2 threads(288)
// CHECK:         tile.barrier.arrive 3 threads(288)
// CHECK-NOT:     tile.barrier.arrive
func.func @deferred(%x: tensor<?x128xbf16>, %g: tensor<256x128xbf16>,
                    %u: tensor<256x128xbf16>, %d: tensor<128x256xbf16>)
    -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 2, split_k = 2,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 3, partials = f32, smem_epilogue = true, deferred_epilogue = true,
          hint = evict_first, dependent = true>}
    : (tensor<?x128xbf16>, tensor<256x128xbf16>, tensor<256x128xbf16>,
       tensor<128x256xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
