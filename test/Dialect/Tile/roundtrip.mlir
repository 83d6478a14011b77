// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: gpu.module @kernels
gpu.module @kernels {

// CHECK: tile.kernel @launch_shape(%{{.*}}: !tile.buffer<bf16> {tile.operand = 0 : i64}, %{{.*}}: !tile.tensor_map, %{{.*}}: i32, %{{.*}}: f32)
// CHECK-SAME: blocks(128) threads(384) shared_bytes(229376) cooperative
// CHECK-SAME: attributes {note = "kept"}
tile.kernel @launch_shape(%x: !tile.buffer<bf16> {tile.operand = 0 : i64},
                          %m: !tile.tensor_map, %n: i32, %s: f32)
    blocks(128) threads(384) shared_bytes(229376) cooperative
    attributes {note = "kept"} {
  tile.return
}

// CHECK: tile.kernel @roles() blocks(1) threads(384) shared_bytes(0) {
tile.kernel @roles() blocks(1) threads(384) shared_bytes(0) {
  // CHECK: tile.specialize {
  // CHECK-NEXT: role "copy" warps(4) registers(40) {
  // CHECK-NEXT:   tile.id lane
  // CHECK-NEXT: }
  // CHECK-NEXT: role "multiply" warps(8) registers(232) {
  tile.specialize {
    role "copy" warps(4) registers(40) {
      %l = tile.id lane
    }
    role "multiply" warps(8) registers(232) {
      // CHECK: tile.barrier 1 threads(256)
      tile.barrier 1 threads(256)
      // CHECK: tile.barrier.arrive 2 threads(288)
      tile.barrier.arrive 2 threads(288)
    }
  }
  // CHECK: tile.barrier 0
  tile.barrier 0
  // CHECK: tile.warp_sync
  tile.warp_sync
  // CHECK: tile.grid_dependency wait
  tile.grid_dependency wait
  // CHECK: tile.grid_dependency launch
  tile.grid_dependency launch
  tile.return
}

// CHECK: tile.kernel @cluster({{.*}}) blocks(4) threads(128) shared_bytes(4096) cluster(2) {
tile.kernel @cluster(%w: !tile.buffer<i8>, %words: !tile.buffer<i32>,
                     %j: i32)
    blocks(4) threads(128) shared_bytes(4096) cluster(2) {
  %o = arith.extui %j : i32 to i64
  %r = tile.ring.create at(0) consumers(4) : !tile.ring<2 x 2048>
  // CHECK: tile.cluster_barrier
  tile.cluster_barrier
  // CHECK: %[[RANK:.*]] = tile.id cluster_rank
  %rank = tile.id cluster_rank
  %s = tile.ring.acquire %r[%j] : !tile.ring<2 x 2048>
  // CHECK: tile.copy %{{.*}}[%{{.*}}] to %{{.*}} at(0) bytes(1024) multicast(3) evict_first : !tile.buffer<i8>, !tile.stage<2048>
  tile.copy %w[%o] to %s at(0) bytes(1024) multicast(3) evict_first
    : !tile.buffer<i8>, !tile.stage<2048>
  // CHECK: tile.ring.release %{{.*}}[%{{.*}}] in(%[[RANK]]) : !tile.ring<2 x 2048>
  tile.ring.release %r[%j] in(%rank) : !tile.ring<2 x 2048>
  // CHECK: tile.semaphore.meet %{{.*}} arrivals(4)
  %m = tile.semaphore %words[%j] : !tile.buffer<i32>
  tile.semaphore.meet %m arrivals(4)
  %a = tile.acc.zero : !tile.acc<64x8xf32>
  // CHECK: tile.acc.values %{{.*}} : !tile.acc<64x8xf32>
  %v:4 = tile.acc.values %a : !tile.acc<64x8xf32>
  tile.return
}

// CHECK: tile.kernel @warps
tile.kernel @warps(%w: !tile.buffer<f16>, %i: i32)
    blocks(1) threads(128) shared_bytes(2048) {
  %o = arith.extui %i : i32 to i64
  // CHECK: %[[B:.*]] = tile.shared_buffer at(1024) : !tile.buffer<f16, shared>
  %b = tile.shared_buffer at(1024) : !tile.buffer<f16, shared>
  // CHECK: tile.async_copy %{{.*}}[%{{.*}}] to %[[B]][%{{.*}}] : !tile.buffer<f16>, !tile.buffer<f16, shared>
  tile.async_copy %w[%o] to %b[%i] : !tile.buffer<f16>, !tile.buffer<f16, shared>
  %p = arith.constant true
  // CHECK: tile.async_copy %{{.*}}[%{{.*}}] to %[[B]][%{{.*}}] if %{{.*}} : !tile.buffer<f16>, !tile.buffer<f16, shared>
  tile.async_copy %w[%o] to %b[%i] if %p : !tile.buffer<f16>, !tile.buffer<f16, shared>
  // CHECK: tile.async_copy.commit
  tile.async_copy.commit
  // CHECK: tile.async_copy.wait 1
  tile.async_copy.wait 1
  // CHECK: %[[L:.*]] = tile.load_matrix %[[B]][%{{.*}}] : !tile.buffer<f16, shared> -> vector<8xf16>
  %l = tile.load_matrix %b[%i] : !tile.buffer<f16, shared> -> vector<8xf16>
  %r = tile.load_matrix %b[%i] : !tile.buffer<f16, shared> -> vector<4xf16>
  %z = tile.acc.zero : !tile.acc<64x24xf32>
  // CHECK: tile.mma_sync %[[L]], (%[[L]], %{{.*}}) into %{{.*}} : vector<8xf16>, (vector<8xf16>, vector<4xf16>), !tile.acc<64x24xf32>
  %a = tile.mma_sync %l, (%l, %r) into %z
    : vector<8xf16>, (vector<8xf16>, vector<4xf16>), !tile.acc<64x24xf32>
  // CHECK: tile.unpack %{{.*}} : vector<4xf16>
  %v:4 = tile.unpack %r : vector<4xf16>
  tile.return
}

// CHECK: tile.kernel @words
tile.kernel @words(%words: !tile.buffer<i32>, %i: i32, %n: i32)
    blocks(4) threads(32) shared_bytes(0) {
  // CHECK: %[[E:.*]] = tile.epoch %{{.*}} blocks(4) : !tile.buffer<i32>
  %e = tile.epoch %words blocks(4) : !tile.buffer<i32>
  // CHECK: %[[W:.*]] = tile.semaphore %{{.*}}[%{{.*}}] : !tile.buffer<i32>
  %w = tile.semaphore %words[%i] : !tile.buffer<i32>
  // CHECK: tile.semaphore.arrive %[[W]]
  tile.semaphore.arrive %w
  // CHECK: tile.semaphore.count %[[W]]
  %before = tile.semaphore.count %w
  // CHECK: tile.semaphore.wait %[[W]] epoch(%[[E]]) arrivals(%{{.*}})
  tile.semaphore.wait %w epoch(%e) arrivals(%n)
  // CHECK: tile.semaphore.wait %[[W]] epoch(%[[E]]) arrivals(%{{.*}}) {relaxed}
  tile.semaphore.wait %w epoch(%e) arrivals(%n) {relaxed}
  // CHECK: tile.fence_async{{$}}
  tile.fence_async
  // CHECK: tile.fence_async shared
  tile.fence_async shared
  tile.return
}

// CHECK: tile.kernel @copies
tile.kernel @copies(%w: !tile.buffer<i8>, %m: !tile.tensor_map, %j: i32)
    blocks(1) threads(32) shared_bytes(196608) {
  %o = arith.extui %j : i32 to i64
  // CHECK: %[[R:.*]] = tile.ring.create at(0) consumers(2) : !tile.ring<6 x 32768>
  %r = tile.ring.create at(0) consumers(2) : !tile.ring<6 x 32768>
  // CHECK: %[[S:.*]] = tile.ring.acquire %[[R]][%{{.*}}] : !tile.ring<6 x 32768>
  %s = tile.ring.acquire %r[%j] : !tile.ring<6 x 32768>
  // CHECK: tile.ring.poll %[[R]][%{{.*}}] : !tile.ring<6 x 32768>
  %free = tile.ring.poll %r[%j] : !tile.ring<6 x 32768>
  // CHECK: tile.copy %{{.*}}[%{{.*}}] to %[[S]] evict_first : !tile.buffer<i8>, !tile.stage<32768>
  tile.copy %w[%o] to %s evict_first : !tile.buffer<i8>, !tile.stage<32768>
  // CHECK: tile.copy %{{.*}}[%{{.*}}] to %[[S]] at(16384) bytes(16384) normal : !tile.buffer<i8>, !tile.stage<32768>
  tile.copy %w[%o] to %s at(16384) bytes(16384) normal : !tile.buffer<i8>, !tile.stage<32768>
  // CHECK: tile.prefetch %{{.*}}[%{{.*}}] bytes(32768) : !tile.buffer<i8>
  tile.prefetch %w[%o] bytes(32768) : !tile.buffer<i8>
  // CHECK: tile.prefetch %{{.*}}[%{{.*}}] length(%{{.*}}) : !tile.buffer<i8>
  tile.prefetch %w[%o] length(%j) : !tile.buffer<i8>
  // CHECK: %[[PART:.*]] = tile.ring.acquire %[[R]][%{{.*}}] bytes(%{{.*}}) : !tile.ring<6 x 32768>
  %part = tile.ring.acquire %r[%j] bytes(%j) : !tile.ring<6 x 32768>
  // CHECK: tile.copy %{{.*}}[%{{.*}}] to %[[PART]] piece(%{{.*}}, %{{.*}}) normal : !tile.buffer<i8>, !tile.stage<32768>
  tile.copy %w[%o] to %part piece(%j, %j) normal : !tile.buffer<i8>, !tile.stage<32768>
  // CHECK: tile.copy_tensor %{{.*}}[%{{.*}}, %{{.*}}] to %[[S]] normal : !tile.stage<32768>
  tile.copy_tensor %m[%j, %j] to %s normal : !tile.stage<32768>
  // CHECK: tile.stage_buffer %[[S]] : !tile.stage<32768> -> !tile.buffer<i8, shared>
  %b = tile.stage_buffer %s : !tile.stage<32768> -> !tile.buffer<i8, shared>
  // CHECK: tile.ring.wait %[[R]][%{{.*}}] : !tile.ring<6 x 32768>
  %t = tile.ring.wait %r[%j] : !tile.ring<6 x 32768>
  // CHECK: tile.ring.release %[[R]][%{{.*}}] : !tile.ring<6 x 32768>
  tile.ring.release %r[%j] : !tile.ring<6 x 32768>
  tile.return
}

// CHECK: tile.kernel @exchange
tile.kernel @exchange(%p: !tile.buffer<f32>, %j: i32, %n: i32, %a: f32)
    blocks(1) threads(32) shared_bytes(0) {
  %c = arith.cmpi ult, %j, %n : i32
  %v = tile.pack %a, %a : vector<2xf32>
  // CHECK: %[[V:.*]] = tile.mark %{{.*}} epoch(%[[E:.*]]) : vector<2xf32>
  %w = tile.mark %v epoch(%n) : vector<2xf32>
  // CHECK: tile.store polled %[[V]], %{{.*}}[%{{.*}}] : vector<2xf32>, !tile.buffer<f32>
  tile.store polled %w, %p[%j] : vector<2xf32>, !tile.buffer<f32>
  // CHECK: tile.collect %{{.*}}[%{{.*}}, %{{.*}}] if(%{{.*}}, %{{.*}}) epoch(%[[E]]) : !tile.buffer<f32> -> vector<2xf32>, vector<2xf32>
  %l:2 = tile.collect %p[%j, %n] if(%c, %c) epoch(%n)
    : !tile.buffer<f32> -> vector<2xf32>, vector<2xf32>
  tile.return
}

// CHECK: tile.kernel @products
tile.kernel @products(%y: !tile.buffer<f32>, %o: i32)
    blocks(1) threads(128) shared_bytes(65536) {
  %r = tile.ring.create at(0) consumers(1) : !tile.ring<2 x 32768>
  %s = tile.ring.wait %r[%o] : !tile.ring<2 x 32768>
  // CHECK: %[[A:.*]] = tile.view %{{.*}}[%{{.*}}] : !tile.stage<32768> -> !tile.shared<64x128xf8E4M3FN, swizzle 128>
  %a = tile.view %s[%o] : !tile.stage<32768>
    -> !tile.shared<64x128xf8E4M3FN, swizzle 128>
  %b = tile.view %s[%o] : !tile.stage<32768>
    -> !tile.shared<16x128xf8E4M3FN, swizzle 128>
  // CHECK: %[[Z:.*]] = tile.acc.zero : !tile.acc<64x16xf32>
  %z = tile.acc.zero : !tile.acc<64x16xf32>
  // CHECK: %[[F:.*]]:2 = tile.acc.fence %[[Z]], %[[Z]] : !tile.acc<64x16xf32>, !tile.acc<64x16xf32>
  %f:2 = tile.acc.fence %z, %z : !tile.acc<64x16xf32>, !tile.acc<64x16xf32>
  // CHECK: %[[C:.*]] = tile.mma %[[A]], %{{.*}} into %[[F]]#0
  %c = tile.mma %a, %b into %f#0
    : !tile.shared<64x128xf8E4M3FN, swizzle 128>,
      !tile.shared<16x128xf8E4M3FN, swizzle 128>, !tile.acc<64x16xf32>
  // CHECK: tile.mma.commit
  tile.mma.commit
  // CHECK: tile.mma.wait 1
  tile.mma.wait 1
  // CHECK: %[[D:.*]] = tile.acc.wait %[[C]] : !tile.acc<64x16xf32>
  %d = tile.acc.wait %c : !tile.acc<64x16xf32>
  // CHECK: %[[V:.*]]:8 = tile.acc.values %[[D]] : !tile.acc<64x16xf32>
  %v:8 = tile.acc.values %d : !tile.acc<64x16xf32>
  // CHECK: tile.store %[[V]]#2, %{{.*}} : f32, !tile.buffer<f32>
  tile.store %v#2, %y[%o] : f32, !tile.buffer<f32>
  tile.return
}

// CHECK: tile.kernel @approximations
tile.kernel @approximations(%x: f32) blocks(1) threads(32) shared_bytes(0) {
  // CHECK: %[[E:.*]] = tile.exp2 %{{.*}}
  %e = tile.exp2 %x
  // CHECK: tile.reciprocal %[[E]]
  %r = tile.reciprocal %e
  tile.return
}

// CHECK: tile.kernel @values
tile.kernel @values(%x: !tile.buffer<bf16>, %q: !tile.buffer<f8E4M3FN>,
                    %i: i32)
    blocks(1) threads(384) shared_bytes(0) {
  // CHECK: %[[B:.*]] = tile.scratch 8 : !tile.buffer<f32, shared>
  %b = tile.scratch 8 : !tile.buffer<f32, shared>
  // CHECK: %[[V:.*]] = tile.load early %{{.*}}[%{{.*}}] : !tile.buffer<bf16> -> vector<2xbf16>
  %v = tile.load early %x[%i] : !tile.buffer<bf16> -> vector<2xbf16>
  // CHECK: %[[U:.*]]:2 = tile.unpack %[[V]] : vector<2xbf16>
  %u:2 = tile.unpack %v : vector<2xbf16>
  // CHECK: tile.reduce %[[U]]#0 scratch(%[[B]]) warps(4 to 12) barrier(1) : f32, !tile.buffer<f32, shared>
  %s = tile.reduce %u#0 scratch(%b) warps(4 to 12) barrier(1)
    : f32, !tile.buffer<f32, shared>
  // CHECK: tile.reduce max %[[U]]#0 scratch(%[[B]]) warps(4 to 12) barrier(1)
  %t = tile.reduce max %u#0 scratch(%b) warps(4 to 12) barrier(1)
    : f32, !tile.buffer<f32, shared>
  // CHECK: tile.lane_max %{{.*}} lanes(28)
  %l = tile.lane_max %t lanes(28)
  // CHECK: %[[P:.*]] = tile.pack %[[U]]#0, %[[U]]#1 : vector<2xf8E4M3FN>
  %p = tile.pack %u#0, %u#1 : vector<2xf8E4M3FN>
  // CHECK: tile.store %[[P]], %{{.*}}[%{{.*}}] : vector<2xf8E4M3FN>, !tile.buffer<f8E4M3FN>
  tile.store %p, %q[%i] : vector<2xf8E4M3FN>, !tile.buffer<f8E4M3FN>
  tile.return
}
}

// CHECK-LABEL: func.func @launch
// CHECK: tile.launch @kernels::@words ins(%{{.*}}, %{{.*}} : tensor<4xi32>, tensor<8xi32>) outs(%{{.*}} : tensor<4xi32>)
// CHECK-SAME: plan <blocks = 4, threads = 128, shared_bytes = 64, cluster = 2, cooperative = true, dependent = true, carveout = 50, max_tokens = 8,
// CHECK-SAME: workspace = <bytes = 512, zeroed = 128, matrices = [#tile.token_matrix<offset = 256, row_bytes = 4, multiple = 8>]>, shares_workspace = true,
// CHECK-SAME: arguments = [#tile.operand<0>, #tile.result<0>, #tile.packed<"rows_256" of [1], tiles = 1, steps = 2, bytes = 64>, #tile.place<offset = 0>, #tile.place<offset = 8, rows = 2, columns = 4, element = bf16>,
// CHECK-SAME: #tile.token_map<offset = 256, rows = 8, columns = 4, element = bf16, box_rows = 8, box_columns = 4, swizzle = 128>, #tile.tokens, #tile.scalar<"input" = 5.000000e-01 : f32>, #tile.scalar<"gate" = 5.000000e-01 : f32 of [2.000000e+00 : f32, 2.500000e-01 : f32]>, #tile.scalar<"hidden" = 4.000000e+00 : f32 over 2.500000e-01 : f32>]> -> tensor<4xi32>
func.func @launch(%x: tensor<4xi32>, %w: tensor<8xi32>, %init: tensor<4xi32>)
    -> tensor<4xi32> {
  %y = tile.launch @kernels::@words ins(%x, %w : tensor<4xi32>, tensor<8xi32>)
    outs(%init : tensor<4xi32>)
    plan <blocks = 4, threads = 128, shared_bytes = 64, cluster = 2,
      cooperative = true, dependent = true, carveout = 50, max_tokens = 8,
      workspace = <bytes = 512, zeroed = 128, matrices = [
        #tile.token_matrix<offset = 256, row_bytes = 4, multiple = 8>]>,
      shares_workspace = true,
      arguments = [#tile.operand<0>, #tile.result<0>,
        #tile.packed<"rows_256" of [1], tiles = 1, steps = 2, bytes = 64>,
        #tile.place<offset = 0>,
        #tile.place<offset = 8, rows = 2, columns = 4, element = bf16>,
        #tile.token_map<offset = 256, rows = 8, columns = 4, element = bf16,
                        box_rows = 8, box_columns = 4, swizzle = 128>,
        #tile.tokens, #tile.scalar<"input" = 0.5 : f32>,
        #tile.scalar<"gate" = 0.5 : f32 of [2.0 : f32, 0.25 : f32]>,
        #tile.scalar<"hidden" = 4.0 : f32 over 0.25 : f32>]>
    -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// CHECK-LABEL: func.func @launch_on_buffers
// CHECK: tile.launch @kernels::@words ins(%{{.*}} : memref<4xi32>) outs(%{{.*}} : memref<4xi32>){{$}}
func.func @launch_on_buffers(%x: memref<4xi32>, %y: memref<4xi32>) {
  tile.launch @kernels::@words ins(%x : memref<4xi32>) outs(%y : memref<4xi32>)
  return
}

// CHECK-LABEL: func.func private @scheduled
// CHECK-SAME: tile.schedule = #tile.schedule<tokens = 56, blocks = 128, split_k = 16, weight_stages = 5, token_stages = 4, max_in_flight = 2, partials = f32, hint = evict_first, dependent = true>
func.func private @scheduled() attributes {
  tile.schedule = #tile.schedule<tokens = 56, blocks = 128, split_k = 16,
    weight_stages = 5, token_stages = 4, max_in_flight = 2, partials = f32,
    hint = evict_first, dependent = true>}

// Defaults are left out.

// CHECK-LABEL: func.func private @joint
// CHECK-SAME: !tile.ring<2 x 0>
// CHECK-SAME: group = 16, launches = 1, dependent = true>
func.func private @joint(!tile.ring<2 x 0>) attributes {
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132, split_k = 4,
    stages = 4, group = 16, launches = 1, dependent = true>}

// CHECK-LABEL: func.func private @even
// CHECK-SAME: launches = 1, stream_k = true, dependent = true>
func.func private @even() attributes {
  tile.schedule = #tile.prefill_schedule<tokens = 768, blocks = 132, split_k = 4,
    stages = 4, group = 16, launches = 1, stream_k = true, dependent = true>}

// CHECK-LABEL: func.func private @pairs
// CHECK-SAME: group = 8, cluster = 2, launches = 1, stream_k = true, dependent = true>
func.func private @pairs() attributes {
  tile.schedule = #tile.prefill_schedule<tokens = 4096, blocks = 132, split_k = 1,
    stages = 4, group = 8, cluster = 2, launches = 1, stream_k = true,
    dependent = true>}

// CHECK-LABEL: func.func private @prefill
// CHECK-SAME: tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132, split_k = 4, stages = 4, group = 16, dependent = true>
func.func private @prefill() attributes {
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132, split_k = 4,
    gemm2_tile_m = 256, stages = 4, group = 16,
    cluster = 1, dependent = true>}

// CHECK-LABEL: func.func private @mma
// CHECK-SAME: tile.schedule = #tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 132, split_k = 16, gemm1_tile_m = 192, stages = 4, launches = 1>
func.func private @mma() attributes {
  tile.schedule = #tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 132,
    split_k = 16, gemm1_tile_m = 192, gemm2_tile_m = 256, stages = 4,
    launches = 1>}
