// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse | FileCheck %s

// Many tokens take three launches that see one workspace: the norm, gate and
// up with the activation, and the last product. Here that has two ranges, which
// meet on words.

// CHECK-LABEL: func @f8
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_0
// CHECK-SAME:      blocks = 256, threads = 64, {{(shared_bytes = [0-9]+, )?(dependent = true, )?}}max_tokens = 256,
// CHECK-SAME:      #tile.place<offset = [[INPUT:[0-9]+]]>
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_1
// CHECK-SAME:      blocks = 8, threads = {{[0-9]+}}, {{(shared_bytes = [0-9]+, )?(dependent|max_tokens)}}
// CHECK-SAME:      shares_workspace = true
// CHECK-SAME:      #tile.token_map<offset = [[INPUT]], rows = 256, columns = 256, element = f8E4M3FN, box_rows = 128, box_columns = 128
// CHECK-SAME:      #tile.packed<"gate_up_256" of [2, 3], tiles = 4, steps = 2
// CHECK-SAME:      #tile.place<offset = [[HIDDEN:[0-9]+]]>
// CHECK:         %[[Y:.*]] = tile.launch @fuse_kernels::@gated_mlp_prefill_2
// CHECK-SAME:      blocks = 8,
// CHECK-SAME:      cooperative = true,
// CHECK-SAME:      zeroed = 2304,
// CHECK-SAME:      #tile.token_map<offset = [[HIDDEN]], rows = {{[0-9]+}}, columns = 512, element = f8E4M3FN
// CHECK-SAME:      #tile.packed<"rows_256" of [4], tiles = 1, steps = 4
// CHECK:         return %[[Y]]
func.func @f8(%x: tensor<?x256xbf16>, %w: tensor<256xbf16>,
              %g: tensor<512x256xf8E4M3FN>, %u: tensor<512x256xf8E4M3FN>,
              %d: tensor<256x512xf8E4M3FN>) -> tensor<?x256xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) scales(f8E4M3FN, input = 0.5, gate = 0.25, up = 0.5,
                          hidden = 0.25, down = 1.0) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 8,
          split_k = 2, stages = 3, group = 16, dependent = true>}
    : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<512x256xf8E4M3FN>,
       tensor<512x256xf8E4M3FN>, tensor<256x512xf8E4M3FN>)
      -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// Pairs of blocks fetch a tile of weights together; narrow tiles of the last
// product have no ranges here.

// CHECK-LABEL: func @clusters
// CHECK:         tile.launch @fuse_kernels::@mlp_prefill_0
// CHECK:         tile.launch @fuse_kernels::@mlp_prefill_1
// CHECK-SAME:      cluster = 2,
// CHECK:         tile.launch @fuse_kernels::@mlp_prefill_2
// CHECK-SAME:      cluster = 2,
// CHECK-SAME:      workspace = <bytes = {{[0-9]+}}, matrices
func.func @clusters(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                    %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 4096, blocks = 4,
          split_k = 1, gemm2_tile_m = 128, stages = 2, group = 4, cluster = 2,
          dependent = false>}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// One launch for both products. The norm clears the words on which blocks tell
// each other of hidden units.

// CHECK-LABEL: func @joint
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[NORM:[0-9]+]] ins(
// CHECK-SAME:      #tile.place<offset = [[READY:[0-9]+]]>, #tile.tokens
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[JOINT:[0-9]+]] ins(
// CHECK-SAME:      blocks = 8,
// CHECK-SAME:      cooperative = true,
// CHECK-SAME:      columns = 512, element = bf16, box_rows
// CHECK-SAME:      #tile.packed<"gate_up_256"
// CHECK-SAME:      #tile.place<offset = [[HIDDEN:[0-9]+]]>
// CHECK-SAME:      #tile.token_map<offset = [[HIDDEN]], rows = {{[0-9]+}}, columns = 4096, element = bf16
// CHECK-SAME:      #tile.packed<"rows_256"
// CHECK-SAME:      #tile.place<offset = [[READY]]>, #tile.tokens
func.func @joint(%x: tensor<?x512xbf16>, %g: tensor<4096x512xbf16>,
                 %u: tensor<4096x512xbf16>, %d: tensor<512x4096xbf16>)
    -> tensor<?x512xbf16> {
  %y = fuse.gated_mlp %x norm(rms eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 8,
          split_k = 2, stages = 3, group = 16, launches = 1, dependent = true>}
    : (tensor<?x512xbf16>, tensor<4096x512xbf16>, tensor<4096x512xbf16>,
       tensor<512x4096xbf16>) -> tensor<?x512xbf16>
  return %y : tensor<?x512xbf16>
}

// The same with fewer hidden units: k-steps of the last product need soon what
// blocks have computed last.

// CHECK-LABEL: func @soon
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_{{[0-9]+}} ins(
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[SOON:[0-9]+]] ins(
func.func @soon(%x: tensor<?x512xbf16>, %g: tensor<1024x512xbf16>,
                %u: tensor<1024x512xbf16>, %d: tensor<512x1024xbf16>)
    -> tensor<?x512xbf16> {
  %y = fuse.gated_mlp %x norm(rms eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 8,
          split_k = 2, stages = 3, group = 16, launches = 1, dependent = true>}
    : (tensor<?x512xbf16>, tensor<1024x512xbf16>, tensor<1024x512xbf16>,
       tensor<512x1024xbf16>) -> tensor<?x512xbf16>
  return %y : tensor<?x512xbf16>
}

// Twelve tiles of the first product on eight blocks: four blocks have two, so
// that ranges of the other four are longer. A norm of so few threads, unlike
// those above, leaves multiprocessors as these blocks need them.

// CHECK-LABEL: func @unequal
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_{{[0-9]+}} ins(
// CHECK-SAME:      blocks = 128, threads = {{[0-9]+}}, {{(shared_bytes = [0-9]+, )?(dependent = true, )?}}carveout = 100,
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[UNEQUAL:[0-9]+]] ins(
func.func @unequal(%x: tensor<?x1024xbf16>, %g: tensor<1536x1024xbf16>,
                   %u: tensor<1536x1024xbf16>, %d: tensor<1024x1536xbf16>)
    -> tensor<?x1024xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 128, blocks = 8,
          split_k = 2, stages = 3, group = 16, launches = 1, uneven_split_k = true,
          dependent = true>}
    : (tensor<?x1024xbf16>, tensor<1536x1024xbf16>, tensor<1536x1024xbf16>,
       tensor<1024x1536xbf16>) -> tensor<?x1024xbf16>
  return %y : tensor<?x1024xbf16>
}

// The last product dealt out evenly: three token tiles on eight blocks make two
// teams, so that six blocks have a stretch and room for sums that others add up.

// CHECK-LABEL: func @even
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_{{[0-9]+}} ins(
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[EVEN:[0-9]+]] ins(
// CHECK-SAME:      blocks = 8,
// CHECK-SAME:      cooperative = true,
// CHECK-SAME:      workspace = <bytes = {{[0-9]+}}, matrices
func.func @even(%x: tensor<?x256xbf16>, %g: tensor<4096x256xbf16>,
                %u: tensor<4096x256xbf16>, %d: tensor<256x4096xbf16>)
    -> tensor<?x256xbf16> {
  %y = fuse.gated_mlp %x norm(rms eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 384, blocks = 8,
          split_k = 2, stages = 3, group = 16, launches = 1, stream_k = true,
          dependent = true>}
    : (tensor<?x256xbf16>, tensor<4096x256xbf16>, tensor<4096x256xbf16>,
       tensor<256x4096xbf16>) -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// In one pass, all teams are at the same k-step at the same time: a block's next
// tile begins where the k-steps that it has had end, and blocks that come later
// by a tile of the first product, four k-steps, begin there.

// CHECK-LABEL: func @together
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_{{[0-9]+}} ins(
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[TOGETHER:[0-9]+]] ins(
func.func @together(%x: tensor<?x256xbf16>, %g: tensor<4096x256xbf16>,
                    %u: tensor<4096x256xbf16>, %d: tensor<512x4096xbf16>)
    -> tensor<?x512xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 384, blocks = 8,
          split_k = 1, stages = 3, group = 16, launches = 1, stream_k = true,
          dependent = true>}
    : (tensor<?x256xbf16>, tensor<4096x256xbf16>, tensor<4096x256xbf16>,
       tensor<512x4096xbf16>) -> tensor<?x512xbf16>
  return %y : tensor<?x512xbf16>
}

// Pairs of blocks in one launch: a pair has neighboring token tiles, and the
// same stretches. Each of its blocks fetches half of a tile of weights for both.

// CHECK-LABEL: func @pairs
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_{{[0-9]+}} ins(
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[PAIRS:[0-9]+]] ins(
// CHECK-SAME:      blocks = 8,
// CHECK-SAME:      cluster = 2,
// CHECK-SAME:      cooperative = true,
// CHECK-SAME:      multiple = 256>
func.func @pairs(%x: tensor<?x256xbf16>, %g: tensor<4096x256xbf16>,
                 %u: tensor<4096x256xbf16>, %d: tensor<512x4096xbf16>)
    -> tensor<?x512xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 8,
          split_k = 1, stages = 3, group = 16, cluster = 2, launches = 1,
          stream_k = true, dependent = true>}
    : (tensor<?x256xbf16>, tensor<4096x256xbf16>, tensor<4096x256xbf16>,
       tensor<512x4096xbf16>) -> tensor<?x512xbf16>
  return %y : tensor<?x512xbf16>
}

// With scales, rounding takes so long that one warpgroup does it while the other
// one multiplies.

// CHECK-LABEL: func @scales
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_{{[0-9]+}}
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[SCALES:[0-9]+]]
func.func @scales(%x: tensor<?x1536xbf16>, %g: tensor<512x1536xf8E4M3FN>,
                  %u: tensor<512x1536xf8E4M3FN>,
                  %d: tensor<1536x512xf8E4M3FN>) -> tensor<?x1536xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d)
         act(silu) scales(f8E4M3FN, input = 0.5, gate = 0.25, up = 0.5,
                          hidden = 0.25, down = 1.0) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 8,
          split_k = 1, stages = 4, group = 16, dependent = true>}
    : (tensor<?x1536xbf16>, tensor<512x1536xf8E4M3FN>,
       tensor<512x1536xf8E4M3FN>, tensor<1536x512xf8E4M3FN>)
      -> tensor<?x1536xbf16>
  return %y : tensor<?x1536xbf16>
}

// Outputs that have bounds do not wait.

// CHECK-LABEL: func @bounds
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_{{[0-9]+}}
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[BOUNDS:[0-9]+]]
func.func @bounds(%x: tensor<?x320xbf16>, %g: tensor<4096x320xbf16>,
                  %u: tensor<4096x320xbf16>, %d: tensor<320x4096xbf16>)
    -> tensor<?x320xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 8,
          split_k = 1, stages = 3, group = 16, cluster = 2, launches = 1,
          stream_k = true, dependent = true>}
    : (tensor<?x320xbf16>, tensor<4096x320xbf16>, tensor<4096x320xbf16>,
       tensor<320x4096xbf16>) -> tensor<?x320xbf16>
  return %y : tensor<?x320xbf16>
}

// The norm goes round the rows.

// CHECK-LABEL: tile.kernel @gated_mlp_prefill_0(
// CHECK-SAME:    blocks(256) threads(64) shared_bytes(0) {
// CHECK:         tile.grid_dependency launch
// CHECK:         tile.grid_dependency wait
// CHECK:         scf.for
// CHECK:           tile.reduce
// CHECK:           tile.store %{{.*}} : vector<8xf8E4M3FN>

// One warp fills the ring. The weights of the first stages do not wait for the
// norm; few token tiles share them, so that they need not stay in L2. The hidden
// units of a tile are activated after the first k-steps of the next have been issued and before they are waited for, those of the last tile
// in the end. Meanwhile every lane of a warp stores where the next tile lies: not
// before others have read where the last one lay.

// CHECK-LABEL: tile.kernel @gated_mlp_prefill_1(
// CHECK-SAME:    blocks(8) threads(384) shared_bytes(147456) {
// CHECK:         %[[RING:.*]] = tile.ring.create at(0) consumers(2) : !tile.ring<3 x 49152>
// CHECK:         role "stream" warps(4)
// CHECK:           tile.copy %{{.*}} at(16384) bytes(32768) evict_first
// CHECK-NOT:       tile.copy_tensor
// CHECK:           tile.grid_dependency wait
// CHECK-NEXT:      tile.fence_async
// CHECK:           tile.copy_tensor
// CHECK:         role "multiply" warps(8)
// CHECK:           scf.for
// CHECK:             tile.ring.wait %[[RING]]
// CHECK:             tile.mma %{{.*}} : !tile.shared<64x128xf8E4M3FN, swizzle 128>, !tile.shared<256x128xf8E4M3FN, swizzle 128>, !tile.acc<64x256xf32>
// CHECK:             tile.mma.commit
// CHECK:             arith.mulf %{{.*}} : vector<2xbf16>
// CHECK:             tile.pack %{{.*}} : vector<16xf8E4M3FN>
// CHECK:             tile.store %{{.*}} : vector<16xf8E4M3FN>
// CHECK:             tile.mma.wait 1
// CHECK:             tile.mma %
// CHECK:             tile.warp_sync
// CHECK-NEXT:        tile.store %{{.*}} : i32, !tile.buffer<i32, shared>
// CHECK-NEXT:        tile.store %{{.*}} : i32, !tile.buffer<i32, shared>
// CHECK-NEXT:        tile.warp_sync
// CHECK:             tile.ring.release %[[RING]]
// CHECK-NOT:         tile.barrier
// CHECK:             tile.acc.values
// CHECK:             tile.pack %{{.*}} : vector<2xbf16>
// CHECK:             scf.yield
// CHECK:           tile.store %{{.*}} : vector<16xf8E4M3FN>

// Partial sums are in f32 and added in the order of the ranges.

// CHECK-LABEL: tile.kernel @gated_mlp_prefill_2(
// CHECK-SAME:    shared_bytes(147456) cooperative {

// The second warpgroup leaves the tensor cores to the first one before its last
// k-steps, as many as stages but one, until that has issued its own. The first
// product has epilogues under products without.

// CHECK:         role "multiply" warps(8)
// CHECK:           scf.for
// CHECK:             %[[LEFT:.*]] = arith.subi %c2_i32, %{{.*}} : i32
// CHECK-NEXT:        %[[LAST:.*]] = arith.cmpi eq, %[[LEFT]], %c2_i32 : i32
// CHECK-NEXT:        %[[WAITS:.*]] = arith.andi %{{.*}}, %[[LAST]] : i1
// CHECK-NEXT:        scf.if %[[WAITS]] {
// CHECK-NEXT:          tile.barrier 1 threads(256)
// CHECK:             tile.mma %
// CHECK:           } {tile.rolled}
// CHECK:           scf.if
// CHECK-NEXT:        tile.barrier.arrive 1 threads(256)
// CHECK:           tile.acc.wait
// CHECK:           tile.store %{{.*}} : vector<4xf32>
// CHECK:           tile.semaphore.meet %{{.*}} arrivals(2)
// CHECK:           tile.load early %{{.*}} -> vector<4xf32>
// CHECK:           tile.store %{{.*}} : vector<8xbf16>

// CHECK-LABEL: tile.kernel @mlp_prefill_2(
// CHECK-SAME:    shared_bytes(65536) cluster(2) {
// CHECK:         tile.ring.create at(0) consumers(4) : !tile.ring<2 x 32768>
// CHECK:         tile.cluster_barrier
// CHECK:         %[[RANK:.*]] = tile.id cluster_rank
// CHECK:           tile.copy %{{.*}} at(16384) bytes(8192) multicast(3) normal
// CHECK:           tile.copy %{{.*}} at(24576) bytes(8192) multicast(3)
// CHECK:           tile.ring.release %{{.*}} in(%{{.*}})
// CHECK:           } {tile.rolled}
// CHECK:         tile.cluster_barrier

// The norm clears a word for each token tile and part of the hidden units.

// CHECK:       tile.kernel @gated_mlp_prefill_{{[0-9]+}}(%{{.*}}: !tile.buffer<i32>, %{{.*}}: i32)
// CHECK:         tile.grid_dependency wait
// CHECK:         tile.store %{{.*}} : i32, !tile.buffer<i32>

// Activations arrive after the weights that were requested before them: those
// of two stages. Between the GEMMs, weights of GEMM2 are in flight before the
// hidden units are ready. A warp of its own announces these: it waits for
// the math warps to pass a turn. The last tile's hidden units are finished at
// once where blocks could wait for each other, else under the first k-steps of
// the last product. Only every other k-step hides a quarter of an epilogue.

// CHECK:       tile.kernel @gated_mlp_prefill_{{[0-9]+}}({{.*}} cooperative {
// CHECK:         %[[RING:.*]] = tile.ring.create at(0) consumers(2) : !tile.ring<3 x 49152>
// CHECK:         %[[TURNS:.*]] = tile.ring.create at(0) consumers(8) : !tile.ring<2 x 0>
// CHECK:         role "stream" warps(4)
// CHECK-COUNT-2:   tile.copy %
// CHECK-NOT:       tile.copy
// CHECK:           tile.grid_dependency wait
// CHECK-NEXT:      tile.fence_async
// CHECK-COUNT-2:   tile.copy_tensor
// CHECK-NOT:       tile.copy
// CHECK:           scf.for
// CHECK:             tile.copy_tensor
// CHECK:           scf.for
// CHECK:             tile.ring.acquire %[[RING]]
// CHECK:             tile.copy %
// CHECK:             tile.semaphore.wait
// CHECK-NEXT:        tile.fence_async
// CHECK:             tile.copy_tensor
// CHECK:           scf.for
// CHECK:             tile.ring.acquire %[[TURNS]]
// CHECK:             tile.semaphore.arrive
// CHECK:         role "multiply" warps(8)
// CHECK:           scf.for
// CHECK:             tile.mma.commit
// CHECK-NEXT:        tile.mma.wait 1
// CHECK:             tile.mma.commit
// CHECK:             arith.mulf %{{.*}} : vector<2xbf16>
// CHECK:             tile.mma.wait 1
// CHECK:             tile.mma.commit
// CHECK-NEXT:        tile.mma.wait 1
// CHECK:             tile.ring.wait %[[TURNS]]
// CHECK-NEXT:        tile.fence_async
// CHECK-NEXT:        tile.warp_sync
// CHECK:             tile.ring.release %[[TURNS]]
// CHECK:             tile.acc.values
// CHECK:           scf.if
// CHECK:             tile.ring.release %[[TURNS]]
// CHECK:           arith.select
// CHECK:           tile.mma.commit
// CHECK-NEXT:      tile.mma.wait 1
// CHECK:           tile.mma.commit
// CHECK:           tile.store %{{.*}} : vector<8xbf16>
// CHECK:           tile.mma.wait 1
// CHECK:           tile.mma.commit
// CHECK-NEXT:      tile.mma.wait 1
// CHECK:           tile.ring.release %[[TURNS]]
// CHECK:           tile.acc.values

// A range keeps its share of the sums.

// CHECK:           arith.select %{{.*}} : f32
// CHECK:           scf.if
// CHECK:             tile.store %{{.*}} : vector<4xf32>
// CHECK:           tile.semaphore.meet %{{.*}} arrivals(2)
// CHECK:           tile.load early %{{.*}} -> vector<4xf32>

// Where what was computed last is needed soon, every k-step hides a quarter.

// CHECK:       tile.kernel @gated_mlp_prefill_[[SOON]](
// CHECK:         role "multiply" warps(8)
// CHECK:           scf.if
// CHECK:             tile.ring.release
// CHECK:           arith.select
// CHECK:           tile.mma.commit
// CHECK-NOT:       tile.mma
// CHECK:           tile.store %{{.*}} : vector<8xbf16>
// CHECK:           tile.mma.wait 1
// CHECK:           tile.acc.values

// A pair of tiles has its first ranges on early blocks. Those have up to 16
// k-steps more, a tile's of the first product, but for what they wait, and take
// them in turn among themselves before all ranges do.

// CHECK:       tile.kernel @gated_mlp_prefill_[[UNEQUAL]](
// CHECK:         role "stream"
// CHECK:           %[[EARLY:.*]] = arith.minui %{{.*}}, %c2_i32 : i32
// CHECK:           arith.select %{{.*}}, %c12_i32, %c8_i32 : i32
// CHECK:           %[[WANTED:.*]] = arith.subi %c16_i32, %{{.*}} : i32
// CHECK:           %[[LEAD:.*]] = arith.minui %[[WANTED]], %{{.*}} : i32
// CHECK-NEXT:      %[[SHARED:.*]] = arith.muli %[[EARLY]], %[[LEAD]] : i32
// CHECK-NEXT:      %[[LONGER:.*]] = arith.cmpi ult, %{{.*}}, %[[EARLY]] : i32
// CHECK-NEXT:      %[[MORE:.*]] = arith.select %[[LONGER]], %[[LEAD]], %c0_i32 : i32
// CHECK:           arith.cmpi ult, %{{.*}}, %[[MORE]] : i32
// CHECK:           tile.semaphore.wait

// The block with the end of a tile looks for the teams before it that have the
// rest, waits for each and adds its sums; the others leave theirs.

// CHECK:       tile.kernel @gated_mlp_prefill_[[EVEN]](
// CHECK:         role "multiply" warps(8)
// CHECK:           scf.while
// CHECK:           scf.for
// CHECK:             tile.semaphore.wait %{{.*}}
// CHECK:             tile.load early %{{.*}} -> vector<4xf32>
// CHECK:             arith.addf
// CHECK:           tile.store %{{.*}} : vector<8xbf16>
// CHECK:         } else {
// CHECK:           tile.store %{{.*}} : vector<4xf32>
// CHECK:           tile.semaphore.arrive %{{.*}}

// CHECK: tile.kernel @gated_mlp_prefill_[[TOGETHER]](
// CHECK:         role "stream"
// CHECK:           arith.minui %{{.*}}, %c64_i32 : i32
// CHECK-NEXT:      arith.subi
// CHECK-NEXT:      %[[BEHIND:.*]] = arith.addi %{{.*}}, %c64_i32 : i32
// CHECK-NEXT:      %[[MORE:.*]] = arith.cmpi ult, %[[BEHIND]], %[[END:.*]] : i32
// CHECK-NEXT:      %[[HAD:.*]] = arith.subi %[[END]], %[[BEHIND]] : i32
// CHECK-NEXT:      %[[DONE:.*]] = arith.select %[[MORE]], %[[HAD]], %c0_i32 : i32
// CHECK:           %[[LATE:.*]] = arith.select %{{.*}}, %{{.*}}, %c0_i32 : i32
// CHECK-NEXT:      %[[SUM:.*]] = arith.addi %[[DONE]], %[[LATE]] : i32
// CHECK-NEXT:      arith.remui %[[SUM]], %c64_i32 : i32

// A pair counts what teams of pairs would have, and what a team with a block for
// each token tile would have, and takes the smaller one; both with what adding up
// sums takes. With few token tiles, pairs have to save a twentieth. Both blocks of a pair release a stage to both.

// CHECK: tile.kernel @gated_mlp_prefill_[[PAIRS]]({{.*}} cooperative cluster(2) {
// CHECK:         %[[RING:.*]] = tile.ring.create at(0) consumers(4) : !tile.ring<3 x 49152>
// CHECK:         %[[TURNS:.*]] = tile.ring.create at(0) consumers(8) : !tile.ring<2 x 0>
// CHECK:         %[[SUMS:.*]] = arith.select %{{.*}}, %c0_i32, %c10_i32 : i32
// CHECK-NEXT:    %[[FIRST:.*]] = arith.divui
// CHECK-NEXT:    %[[PAIR:.*]] = arith.addi %[[FIRST]], %[[SUMS]] : i32
// CHECK:         %[[SUMS:.*]] = arith.select %{{.*}}, %c0_i32, %c10_i32 : i32
// CHECK-NEXT:    %[[FIRST:.*]] = arith.divui
// CHECK-NEXT:    %[[LARGE:.*]] = arith.addi %[[FIRST]], %[[SUMS]] : i32
// CHECK-NEXT:    %[[PART:.*]] = arith.divui %[[LARGE]], %c20_i32 : i32
// CHECK-NEXT:    %[[LEAST:.*]] = arith.subi %[[LARGE]], %[[PART]] : i32
// CHECK-NEXT:    %[[IS_PAIR:.*]] = arith.cmpi ult, %[[PAIR]], %[[LEAST]] : i32
// CHECK:         arith.select %[[IS_PAIR]]
// CHECK:         tile.cluster_barrier
// CHECK-NEXT:    %[[RANK:.*]] = tile.id cluster_rank

// Warp 1 copies and warp 0 announces, beside which first warps of warpgroups
// run; their last warps release.

// CHECK:         role "stream"
// CHECK:           arith.cmpi eq, %{{.*}}, %c32_i32 : i32
// CHECK:           tile.copy %{{.*}} at(16384) bytes(16384) multicast(3) evict_first
// CHECK:           tile.copy %{{.*}} at(32768) bytes(16384) multicast(3) evict_first
// CHECK:           tile.semaphore.wait
// CHECK:         role "multiply"
// CHECK:           %[[LANE:.*]] = arith.subi %{{.*}}, %c96_i32 : i32
// CHECK:           tile.ring.release %[[RING]][%{{.*}}] in(%[[LANE]])
// CHECK:           tile.ring.release %[[TURNS]]

// Outputs of a whole tile wait as pairs of bf16. Under the first k-steps of the next
// piece they are stored; what is no whole tile does not wait.

// CHECK:           scf.for {{.*}} vector<2xbf16>
// CHECK:             tile.mma.commit
// CHECK:             tile.store %{{.*}} : vector<8xbf16>
// CHECK:             tile.mma.wait 1
// CHECK:             tile.acc.wait
// CHECK:             scf.if %{{.*}} -> (vector<2xbf16>
// CHECK:               tile.pack %{{.*}} : vector<2xbf16>
// CHECK:             } else {
// CHECK:               scf.while
// CHECK:               tile.semaphore.arrive

// CHECK:         tile.cluster_barrier

// CHECK: tile.kernel @gated_mlp_prefill_[[SCALES]](
// CHECK:         role "multiply" warps(8)
// CHECK-COUNT-8:   tile.mma.commit
// CHECK:           scf.for
// CHECK:             scf.if
// CHECK-NEXT:          tile.barrier 1 threads(256)
// CHECK:             tile.mma.commit
// CHECK:           } {tile.rolled}
// CHECK:           scf.if
// CHECK-NEXT:        tile.barrier.arrive 1 threads(256)
// CHECK:           tile.acc.wait
// CHECK:           arith.mulf

// CHECK: tile.kernel @gated_mlp_prefill_[[BOUNDS]](
// CHECK:         role "multiply" warps(8)
// CHECK:           scf.while
// CHECK-NOT:       tile.pack %{{.*}} : vector<2xbf16>
// CHECK:           scf.while
