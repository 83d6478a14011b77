// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse \
// RUN:   | FileCheck %s

// A block of 128 outputs takes two k-steps in a stage, one behind the other.
// The hidden layer takes the place of the last tokens and leaves 16 bytes at a
// time; while the ring is full, weights go into L2. Partial sums have a mark, and
// are found by looking. Two stages behind the first two of the last product
// wait for the one before them.

// CHECK-LABEL: func @narrow
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_decode_0 ins(
// CHECK-NOT:     tile.launch
func.func @narrow(%x: tensor<?x256xbf16>, %g: tensor<256x256xf8E4M3FN>,
                  %u: tensor<256x256xf8E4M3FN>, %d: tensor<256x256xf8E4M3FN>)
    -> tensor<?x256xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 0.5, gate = 0.25, up = 0.5, hidden = 0.25,
                down = 1.0) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 2, split_k = 1,
          gemm2_tile_m = 128, weight_stages = 3, token_stages = 4, max_in_flight = 2,
          l2_prefetch_stages = 4, publish_throttle_stages = 2, partials = f32, tagged_partials = true, smem_epilogue = true,
          hint = evict_first, dependent = true>}
    : (tensor<?x256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>)
      -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// Half a tile of the first product: 64 hidden units, of which a thread has
// one. Stages are 16 KB. Two tiles make a k-step of the last product, the second
// of which ends in zeros. With more than 32 tokens, arrivals that order nothing
// tell when to look for sums.

// CHECK-LABEL: func @halves
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_decode_1 ins(
// CHECK-SAME:      #tile.packed<"gate_up_256" of [1, 2], tiles = 2, steps = 1
func.func @halves(%x: tensor<?x128xbf16>, %g: tensor<192x128xf8E4M3FN>,
                  %u: tensor<192x128xf8E4M3FN>, %d: tensor<128x192xf8E4M3FN>)
    -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 0.5, gate = 0.25, up = 0.5, hidden = 0.25,
                down = 1.0) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 40, blocks = 3, split_k = 2,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 3, partials = f32, tagged_partials = true, smem_epilogue = true,
          hint = evict_first, dependent = true>}
    : (tensor<?x128xbf16>, tensor<192x128xf8E4M3FN>,
       tensor<192x128xf8E4M3FN>, tensor<128x192xf8E4M3FN>)
      -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// More than 128 tokens, whose sums fill the registers of half a tile.

// CHECK-LABEL: func @many
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_decode_2 ins(
// CHECK-SAME:      max_tokens = 256,
// CHECK-SAME:      #tile.place<offset = 1536, rows = 256
func.func @many(%x: tensor<256x128xbf16>, %g: tensor<192x128xf8E4M3FN>,
                %u: tensor<192x128xf8E4M3FN>, %d: tensor<128x192xf8E4M3FN>)
    -> tensor<256x128xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu)
         scales(f8E4M3FN, input = 0.5, gate = 0.25, up = 0.5, hidden = 0.25,
                down = 1.0) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 256, blocks = 3, split_k = 2,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 3, l2_prefetch_stages = 2, partials = f32, hint = evict_first,
          dependent = true>}
    : (tensor<256x128xbf16>, tensor<192x128xf8E4M3FN>,
       tensor<192x128xf8E4M3FN>, tensor<128x192xf8E4M3FN>)
      -> tensor<256x128xbf16>
  return %y : tensor<256x128xbf16>
}

// Two tiles for each block: the first is activated under the second, that one
// under the first half of the range, which waits for first tiles alone.

// CHECK-LABEL: func @deferred
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_decode_3 ins(
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

// 48 of 64 blocks have tiles. Of the others, eight have units of the last
// product, and hold their weights back until those have requested theirs: a
// relaxed arrival each, and one wait for all 48.

// CHECK-LABEL: func @late
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_decode_4 ins(
func.func @late(%x: tensor<?x896xbf16>, %g: tensor<6144x896xbf16>,
                %u: tensor<6144x896xbf16>, %d: tensor<896x6144xbf16>)
    -> tensor<?x896xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 64, split_k = 8,
          gemm2_tile_m = 128, weight_stages = 6, token_stages = 4, max_in_flight = 4,
          partials = f32, hint = evict_first, dependent = true>}
    : (tensor<?x896xbf16>, tensor<6144x896xbf16>, tensor<6144x896xbf16>,
       tensor<896x6144xbf16>) -> tensor<?x896xbf16>
  return %y : tensor<?x896xbf16>
}

// With two stages each, the 48 do not saturate HBM: no block waits.

// CHECK-LABEL: func @busy
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_decode_5 ins(
func.func @busy(%x: tensor<?x128xbf16>, %g: tensor<6144x128xbf16>,
                %u: tensor<6144x128xbf16>, %d: tensor<128x6144xbf16>)
    -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 64, split_k = 24,
          weight_stages = 6, token_stages = 4, max_in_flight = 2, partials = f32,
          hint = evict_first, dependent = true>}
    : (tensor<?x128xbf16>, tensor<6144x128xbf16>, tensor<6144x128xbf16>,
       tensor<128x6144xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// Projections are the last product alone, with one packed buffer for all.

// CHECK-LABEL: func @projections
// CHECK:         %[[P:.*]]:3 = tile.launch @fuse_kernels::@norm_linear_decode_0 ins(%arg0, %arg1, %arg2, %arg3, %arg4 : {{.*}}) outs(%{{.*}}) plan
// CHECK-SAME:      #tile.packed<"rows_256" of [2, 3], tiles = 2, steps = 1
// CHECK-SAME:      #tile.operand<4>, #tile.result<0>, #tile.result<1>, #tile.result<2>
// CHECK:         return %[[P]]#0, %[[P]]#1, %[[P]]#2
func.func @projections(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                       %q: tensor<64x64xbf16>, %k: tensor<16x64xbf16>,
                       %b: tensor<16xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x16xbf16>, tensor<?x64xbf16>) {
  %y:3 = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%q, %k bias %b)
           also([normed]) rounding(exact)
           {tile.schedule = #tile.schedule<tokens = 8, blocks = 2, split_k = 1,
            weight_stages = 2, token_stages = 4, max_in_flight = 0,
            partials = f32, hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>,
       tensor<16x64xbf16>, tensor<16xbf16>)
      -> (tensor<?x64xbf16>, tensor<?x16xbf16>, tensor<?x64xbf16>)
  return %y#0, %y#1, %y#2
    : tensor<?x64xbf16>, tensor<?x16xbf16>, tensor<?x64xbf16>
}

// 128 hidden units in bf16 take two stages; a thread's place is inside of one.

// CHECK-LABEL: func @two_stages
// CHECK:         tile.launch @fuse_kernels::@mlp_decode_0 ins(
func.func @two_stages(%x: tensor<?x128xbf16>, %u: tensor<256x128xbf16>,
                 %d: tensor<128x256xbf16>) -> tensor<?x128xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 2, split_k = 2,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 3, partials = f32, smem_epilogue = true, hint = evict_first,
          dependent = true>}
    : (tensor<?x128xbf16>, tensor<256x128xbf16>, tensor<128x256xbf16>)
      -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// Without a unit too, the 16 blocks lie among the others and wait for none.

// CHECK-LABEL: func @idle
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_decode_6 ins(
func.func @idle(%x: tensor<?x128xbf16>, %g: tensor<6144x128xbf16>,
                %u: tensor<6144x128xbf16>, %d: tensor<128x6144xbf16>)
    -> tensor<?x128xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 64, split_k = 24,
          weight_stages = 6, token_stages = 4, max_in_flight = 4, partials = f32,
          hint = evict_first, dependent = true>}
    : (tensor<?x128xbf16>, tensor<6144x128xbf16>, tensor<6144x128xbf16>,
       tensor<128x6144xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// Ten half tiles of eight blocks: the first two have two, with six stages on
// their way instead of three, and the last six have the units.

// CHECK-LABEL: func @long
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_decode_7 ins(
func.func @long(%x: tensor<?x256xbf16>, %g: tensor<640x256xbf16>,
                %u: tensor<640x256xbf16>, %d: tensor<256x640xbf16>)
    -> tensor<?x256xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 8, split_k = 3,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 8, token_stages = 4,
          max_in_flight = 3, partials = f32, smem_epilogue = true, hint = evict_first,
          dependent = true>}
    : (tensor<?x256xbf16>, tensor<640x256xbf16>, tensor<640x256xbf16>,
       tensor<256x640xbf16>) -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// CHECK-LABEL: tile.kernel @gated_mlp_decode_0(
// CHECK:         %[[W:.*]] = tile.ring.create at(0)
// CHECK:         %[[T:.*]] = tile.ring.create at(98304)
// CHECK:         %[[ID:.*]] = tile.id block
// CHECK-NEXT:    arith.remui %[[ID]], %c2_i32
// CHECK:         role "stream"
// CHECK:           scf.for %[[USE:[a-z0-9]+]] = %c0_i32
// CHECK:             tile.ring.wait %[[W]]
// CHECK:             %[[PAST:.*]] = arith.subi %[[USE]], %c4_i32
// CHECK:             arith.cmpi ult, %[[PAST]], %c2_i32
// CHECK:             %[[BEFORE:.*]] = arith.subi %[[USE]], %c1_i32
// CHECK-NEXT:        tile.ring.wait %[[W]][%[[BEFORE]]]
// CHECK:           scf.while
// CHECK:             tile.ring.poll %[[W]]
// CHECK:             tile.prefetch %{{.*}} bytes(32768)
// CHECK:             tile.prefetch %{{.*}} bytes(16384)
// CHECK:             tile.prefetch %{{.*}} bytes(16384)
// CHECK:           %[[S:.*]] = tile.ring.acquire %[[W]]
// CHECK:             tile.copy %{{.*}} to %[[S]] evict_first
// CHECK:             tile.copy %{{.*}} to %[[S]] at(0) bytes(16384)
// CHECK:             tile.copy %{{.*}} to %[[S]] at(16384) bytes(16384)
// CHECK:         role "multiply"
// CHECK:           tile.acc.wait %{{.*}}, %{{.*}} : !tile.acc<64x16xf32>, !tile.acc<64x16xf32>
// CHECK:           tile.barrier 1 threads(256)
// CHECK:           %[[KEPT:.*]] = tile.ring.wait %[[T]]
// CHECK:           %[[BYTES:.*]] = tile.stage_buffer %[[KEPT]]
// CHECK:           tile.acc.values
// CHECK:           tile.store %{{.*}}, %[[BYTES]]
// CHECK:           tile.barrier 1 threads(256)
// CHECK:             %[[PIECE:.*]] = tile.load %{{.*}} -> vector<16xf8E4M3FN>
// CHECK:             tile.store %[[PIECE]]
// CHECK:           tile.fence_async
// CHECK:           tile.barrier 1 threads(256)
// CHECK:             tile.semaphore.arrive
// CHECK:             tile.ring.release %[[T]]
// CHECK:             tile.ring.release %[[T]]
// CHECK:           tile.acc.wait %{{.*}} : !tile.acc<64x16xf32>
// CHECK:           tile.acc.values
// CHECK:             %[[SUMS:.*]] = tile.pack %{{.*}}, %{{.*}} : vector<2xf32>
// CHECK:             %[[STORED:.*]] = tile.mark %[[SUMS]]
// CHECK:             tile.store polled %[[STORED]]
// CHECK-NOT:       tile.semaphore
// CHECK:           tile.collect

// CHECK-LABEL: tile.kernel @gated_mlp_decode_1(
// CHECK:         tile.ring.create at(0) consumers(2) : !tile.ring<4 x 16384>
// CHECK:         role "multiply"
// CHECK:           tile.mma
// CHECK-NOT:       tile.mma %
// CHECK:           tile.acc.wait %{{.*}} : !tile.acc<64x40xf32>
// CHECK:             tile.pack %{{.*}} : vector<1xf8E4M3FN>
// CHECK:             tile.load %{{.*}} -> vector<16xf8E4M3FN>
// CHECK:             %[[ZEROS:.*]] = tile.pack %{{.*}} : vector<16xf8E4M3FN>
// CHECK:             tile.store %[[ZEROS]], %arg2[
// CHECK:             tile.semaphore.arrive
// CHECK:           tile.acc.wait %{{.*}} : !tile.acc<64x40xf32>
// CHECK:             tile.store polled
// CHECK:             tile.semaphore.arrive %[[MET:.*]] {relaxed}
// CHECK:             tile.semaphore.wait %[[MET]] epoch(%[[EPOCH:.*]]) arrivals(%c2_i32) {relaxed}
// CHECK:           tile.collect

// CHECK-LABEL: tile.kernel @gated_mlp_decode_2(
// CHECK:         role "stream"
// CHECK:           %[[LATER:.*]] = arith.cmpi ugt, %{{.*}}, %c4_i32 : i32
// CHECK:           arith.select %[[LATER]], %c2_i32, %c0_i32
// CHECK:         role "multiply"
// CHECK:           tile.acc.wait %{{.*}} : !tile.acc<64x256xf32>

// CHECK-LABEL: tile.kernel @gated_mlp_decode_3(
// CHECK:         role "stream"
// CHECK:           tile.copy %{{.*}} normal
// CHECK:           tile.semaphore.wait
// CHECK:           tile.copy %{{.*}} normal
// CHECK:           tile.semaphore.wait
// CHECK:           tile.copy %{{.*}} normal
// CHECK:           tile.barrier 2 threads(288)
// CHECK:           tile.semaphore.arrive
// CHECK:           tile.barrier 3 threads(288)
// CHECK:           tile.semaphore.arrive
// CHECK:         role "multiply"
// CHECK:           tile.acc.wait
// CHECK:           tile.mma.commit
// CHECK:           tile.exp2
// CHECK:           tile.barrier.arrive 2 threads(288)
// CHECK:           tile.mma.wait 1
// CHECK:           tile.acc.wait
// CHECK:           tile.mma.commit
// CHECK:           tile.exp2
// CHECK:           tile.barrier.arrive 3 threads(288)
// CHECK:           tile.mma.wait 1
// CHECK:           tile.acc.wait

// Late blocks lie evenly among the others. They wait at a ring of their own,
// of which only barriers are used.

// CHECK-LABEL: tile.kernel @gated_mlp_decode_4(
// CHECK:         %[[TURN:.*]] = tile.ring.create at(0) consumers(1) : !tile.ring<1 x 1024>
// CHECK:         %[[ID:.*]] = tile.id block
// CHECK:         %[[EIGHT:.*]] = arith.divui %[[ID]], %c8_i32
// CHECK:         %[[MOVED:.*]] = arith.addi %[[ID]], %[[EIGHT]]
// CHECK:         arith.remui %[[MOVED]], %c8_i32
// CHECK:         %[[HERE:.*]] = arith.divui %{{.*}}, %c64_i32
// CHECK:         %[[NEXT:.*]] = arith.divui %{{.*}}, %c64_i32
// CHECK:         %[[BUSY:.*]] = arith.cmpi ult, %[[HERE]], %[[NEXT]]
// CHECK:         %[[BLOCK:.*]] = arith.select %[[BUSY]], %[[HERE]]
// CHECK:         role "stream"
// CHECK:           %[[LATE:.*]] = arith.cmpi ugt, %[[BLOCK]], %c47_i32 : i32
// CHECK:           scf.if %[[LATE]] {
// CHECK-NEXT:        tile.ring.acquire %[[TURN]]
// CHECK:             tile.semaphore.arrive %{{.*}} {relaxed}
// CHECK:             tile.copy
// CHECK:           tile.copy %{{.*}} normal
// CHECK:             tile.semaphore.wait %{{.*}} epoch(%{{.*}}) arrivals(%c48_i32)
// CHECK-NEXT:        tile.ring.release %[[TURN]]
// CHECK:         role "multiply"

// CHECK-LABEL: tile.kernel @gated_mlp_decode_5(
// CHECK-NOT:     !tile.ring<1 x 1024>
// CHECK-NOT:     relaxed
// CHECK:         role "multiply"

// CHECK-LABEL: tile.kernel @norm_linear_decode_0(
// CHECK:         tile.reduce
// CHECK-COUNT-2: tile.acc.values
// CHECK-NOT:     tile.acc.values

// CHECK-LABEL: tile.kernel @mlp_decode_0(
// CHECK:         tile.acc.values
// CHECK:         %[[INSIDE:.*]] = arith.remui %{{.*}}, %c128_i32
// CHECK:         arith.divui %[[INSIDE]], %c16_i32

// CHECK-LABEL: tile.kernel @gated_mlp_decode_6(
// CHECK-NOT:     !tile.ring<1 x 1024>
// CHECK:         %[[HERE:.*]] = arith.divui %{{.*}}, %c64_i32
// CHECK:         %[[NEXT:.*]] = arith.divui %{{.*}}, %c64_i32
// CHECK:         arith.cmpi ult, %[[HERE]], %[[NEXT]]
// CHECK:         role "stream"
// CHECK-NOT:     relaxed
// CHECK:         role "multiply"

// CHECK-LABEL: tile.kernel @gated_mlp_decode_7(
// CHECK:         %[[BLOCK:.*]] = tile.id block
// CHECK:         %[[UNIT:.*]] = arith.subi %[[BLOCK]], %c2_i32
// CHECK:         arith.cmpi ult, %[[UNIT]], %c6_i32
// CHECK:         role "stream"
// CHECK:           %[[HAS_MORE:.*]] = arith.cmpi ult, %[[BLOCK]], %c2_i32
// CHECK:           %[[FIRST:.*]] = arith.cmpi ult, %[[USE:.*]], %{{.*}} : i32
// CHECK:           %[[IS_LONG:.*]] = arith.andi %[[HAS_MORE]], %[[FIRST]]
// CHECK:           %[[MOST:.*]] = arith.select %[[IS_LONG]], %c6_i32, %c3_i32
// CHECK:           %[[BEFORE:.*]] = arith.subi %[[USE]], %[[MOST]]
// CHECK-NEXT:      tile.ring.wait %{{.*}}[%[[BEFORE]]]
// CHECK:         role "multiply"
