// RUN: fuse-opt %s --convert-fuse-to-tile | FileCheck %s

// One launch: the norm, and stages with weights and tokens. The weights of
// GEMM2 are requested before the hidden units exist.

// CHECK-LABEL: func.func @whole
// CHECK:       tile.launch @fuse_kernels::@gated_mlp_mma_0
// CHECK-SAME:    plan <blocks = 4, threads = 256, shared_bytes = 104448, cooperative = true, max_tokens = 16, workspace = <bytes = {{[0-9]+}}, zeroed = {{[0-9]+}}>
// CHECK-SAME:    #tile.packed<"gate_up_256" of [1, 2], tiles = 1, steps = 1, bytes = 32768>
// CHECK-SAME:    #tile.packed<"rows_256" of [3], tiles = 1, steps = 2, bytes = 65536>
func.func @whole(%x: tensor<?x64xbf16>, %g: tensor<128x64xbf16>,
                 %u: tensor<128x64xbf16>, %d: tensor<64x128xbf16>)
    -> tensor<?x64xbf16> {
  %y = fuse.gated_mlp %x norm(rms eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
         {tile.schedule = #tile.mma_schedule<tokens = 16, token_tile = 16,
          blocks = 4, split_k = 2, gemm1_tile_m = 64, gemm2_tile_m = 256,
          stages = 3, launches = 1>}
       : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<128x64xbf16>,
          tensor<64x128xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Three launches share a workspace. Without K-slices no block waits, so that
// the grid may be larger than what is resident.

// CHECK-LABEL: func.func @parts
// CHECK:       %[[N:.*]] = tile.launch @fuse_kernels::@mlp_mma_0 {{.*}} plan <blocks = 16, threads = 256, max_tokens = 512, workspace = <bytes = 393216, matrices = [#tile.token_matrix<offset = 0, row_bytes = 256, multiple = 64>, #tile.token_matrix<offset = 131072, row_bytes = 512, multiple = 64>]>
// CHECK:       %[[H:.*]] = tile.launch @fuse_kernels::@mlp_mma_1 {{.*}} outs(%[[N]] : {{.*}}) plan <blocks = 4, {{.*}}, shares_workspace = true
// CHECK:       tile.launch @fuse_kernels::@mlp_mma_2 {{.*}} outs(%[[H]] : {{.*}}) plan <blocks = 4, {{.*}}, shares_workspace = true
func.func @parts(%x: tensor<?x128xf16>, %u: tensor<256x128xf16>,
                 %d: tensor<128x256xf16>) -> tensor<?x128xf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.mma_schedule<tokens = 512, token_tile = 64,
          blocks = 4, split_k = 1, gemm1_tile_m = 64, gemm2_tile_m = 64,
          stages = 3, launches = 3>}
       : (tensor<?x128xf16>, tensor<256x128xf16>, tensor<128x256xf16>)
         -> tensor<?x128xf16>
  return %y : tensor<?x128xf16>
}

// CHECK-LABEL: tile.kernel @gated_mlp_mma_0
// CHECK:       tile.epoch
// CHECK:       tile.async_copy
// CHECK:       tile.async_copy.commit
// CHECK:       tile.reduce
// CHECK:       tile.semaphore.arrive
// CHECK:       tile.semaphore.wait
// CHECK:       tile.async_copy.wait 1
// CHECK-NEXT:  tile.barrier 0
// CHECK:       tile.load_matrix
// CHECK:       tile.mma_sync
// CHECK:       tile.exp2

// The blocks of a tile meet only if there are K-slices.
// CHECK-LABEL: tile.kernel @mlp_mma_2
// CHECK-NOT:   tile.semaphore
