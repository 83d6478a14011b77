// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse | FileCheck %s

// The smallest kernel that has everything: 2 tiles of gate and up, 1 tile of
// outputs in 2 ranges, so 2 blocks.

// CHECK-LABEL: func @f8
// CHECK:         %[[Y:.*]] = tile.launch @fuse_kernels::@gated_mlp_decode_0 ins(%arg0, %arg1, %arg2, %arg3, %arg4 : {{.*}}) outs(%{{.*}}) plan
// CHECK-SAME:      blocks = 2,
// CHECK-SAME:      dependent = true,
// CHECK-SAME:      max_tokens = 16,
// CHECK-SAME:      #tile.place<offset = 1536, rows = 16, columns = 256, element = f8E4M3FN>
// CHECK-SAME:      #tile.packed<"gate_up_256" of [2, 3], tiles = 2, steps = 2, bytes = 131072>
// CHECK-SAME:      #tile.packed<"rows_256" of [4], tiles = 1, steps = 2, bytes = 65536>
// CHECK-SAME:      #tile.operand<0>, #tile.operand<1>, #tile.result<0>, #tile.tokens
// CHECK-SAME:      #tile.scalar<"input" = 2.000000e+00 : f32 over 5.000000e-01 : f32>
// CHECK-SAME:      #tile.scalar<"gate" = 1.250000e-01 : f32 of [5.000000e-01 : f32, 2.500000e-01 : f32]>
// CHECK-SAME:      #tile.scalar<"up" = 2.500000e-01 : f32 of [5.000000e-01 : f32, 5.000000e-01 : f32]>
// CHECK-SAME:      #tile.scalar<"hidden" = 4.000000e+00 : f32 over 2.500000e-01 : f32>
// CHECK-SAME:      #tile.scalar<"down" = 2.500000e-01 : f32 of [2.500000e-01 : f32, 1.000000e+00 : f32]>
// CHECK:         return %[[Y]]
func.func @f8(%x: tensor<?x256xbf16>, %w: tensor<256xbf16>,
              %g: tensor<256x256xf8E4M3FN>, %u: tensor<256x256xf8E4M3FN>,
              %d: tensor<256x256xf8E4M3FN>) -> tensor<?x256xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) scales(f8E4M3FN, input = 0.5, gate = 0.25, up = 0.5,
                          hidden = 0.25, down = 1.0) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 2, split_k = 2,
          weight_stages = 3, token_stages = 4, max_in_flight = 2, partials = f32,
          hint = evict_first, dependent = true>}
    : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>)
      -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// The same kernel with other scales is the same kernel.

// CHECK-LABEL: func @other_scales
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_decode_0
// CHECK-SAME:      #tile.scalar<"input" = 1.000000e+00 : f32 over 1.000000e+00 : f32>
func.func @other_scales(%x: tensor<?x256xbf16>, %w: tensor<256xbf16>,
                        %g: tensor<256x256xf8E4M3FN>,
                        %u: tensor<256x256xf8E4M3FN>,
                        %d: tensor<256x256xf8E4M3FN>) -> tensor<?x256xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) scales(f8E4M3FN, input = 1.0, gate = 1.0, up = 1.0,
                          hidden = 1.0, down = 1.0) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 2, split_k = 2,
          weight_stages = 3, token_stages = 4, max_in_flight = 2, partials = f32,
          hint = evict_first, dependent = true>}
    : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<256x256xf8E4M3FN>,
       tensor<256x256xf8E4M3FN>, tensor<256x256xf8E4M3FN>)
      -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// Without a schedule an op is not this pass's business.

// CHECK-LABEL: func @unscheduled
// CHECK:         fuse.mlp
func.func @unscheduled(%x: tensor<?x64xbf16>, %u: tensor<64x64xbf16>,
                       %d: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK:       gpu.module @fuse_kernels
// CHECK-LABEL: tile.kernel @gated_mlp_decode_0(
// CHECK-SAME:    blocks(2) threads(384) shared_bytes(106496) cooperative
// CHECK-NOT:   tile.kernel
// CHECK:         %[[W:.*]] = tile.ring.create at(0) consumers(2) : !tile.ring<3 x 32768>
// CHECK:         %[[T:.*]] = tile.ring.create at(98304) consumers(2) : !tile.ring<4 x 2048>
// CHECK:         tile.barrier 0

// Weights cross the phase boundary without a wait; at most two stages are on
// their way. In memory all tiles of a step follow each other. With the first
// stage of the last product, the next launch may begin.

// CHECK-NOT:     tile.grid_dependency
// CHECK:         role "stream" warps(4) registers(40)
// CHECK:           tile.ring.wait %[[W]]
// CHECK:           %[[OF_LAST:.*]] = arith.subi %[[STEP:.*]], %c2_i32
// CHECK-NEXT:      %[[BEGINS:.*]] = arith.cmpi eq, %[[OF_LAST]], %c0_i32
// CHECK-NEXT:      scf.if %[[BEGINS]] {
// CHECK-NEXT:        tile.grid_dependency launch
// CHECK:           %[[S:.*]] = tile.ring.acquire %[[W]][%[[STEP]]] :
// CHECK:           %[[ROW:.*]] = arith.muli %[[STEP]], %c2_i32
// CHECK:           %[[STAGE:.*]] = arith.addi %[[ROW]], %{{.*}} : i32
// CHECK:           %[[WIDE:.*]] = arith.extui %[[STAGE]]
// CHECK:           %[[AT:.*]] = arith.muli %[[WIDE]], %c32768_i64
// CHECK:           tile.copy %{{.*}}[%[[AT]]] to %[[S]] evict_first
// CHECK-NOT:       tile.semaphore.wait
// CHECK:           } else {
// CHECK:           tile.copy %{{.*}} to %[[S]] evict_first
// CHECK:           tile.grid_dependency wait
// CHECK:           %[[E:.*]] = tile.epoch
// CHECK:           tile.semaphore.wait %{{.*}} epoch(%[[E]]) arrivals(%c2_i32)
// CHECK-NEXT:      tile.fence_async
// CHECK:           tile.copy %{{.*}} normal
// CHECK:           tile.semaphore.wait %{{.*}} epoch(%[[E]]) arrivals(%{{.*}})
// CHECK-NEXT:      tile.fence_async
// CHECK:           tile.copy %{{.*}} normal

// Norm, rounding to bf16, weight, quantization.

// CHECK:         role "multiply" warps(8) registers(232)
// CHECK:           tile.load {{.*}} -> vector<8xbf16>
// CHECK:           tile.reduce {{.*}} warps(4 to 12) barrier(1)
// CHECK:           math.sqrt
// CHECK:           tile.pack {{.*}} : vector<8xbf16>
// CHECK:           tile.pack {{.*}} : vector<8xbf16>
// CHECK:           tile.pack {{.*}} : vector<8xf8E4M3FN>
// CHECK:           tile.semaphore.arrive

// Products, then gate, act, up, product and quantization with the roundings
// of the exact contract.

// CHECK:           tile.acc.fence
// CHECK:           tile.mma
// CHECK:           tile.mma
// CHECK:           tile.mma.commit
// CHECK:           tile.mma.wait 1
// CHECK:           tile.ring.release
// CHECK:           tile.acc.wait
// CHECK-COUNT-2:   tile.acc.values
// CHECK:             tile.pack {{.*}} : vector<2xbf16>
// CHECK:             tile.exp2
// CHECK:             tile.reciprocal
// CHECK:             tile.pack {{.*}} : vector<2xf8E4M3FN>
// CHECK:           tile.fence_async
// CHECK:           tile.warp_sync
// CHECK:           tile.semaphore.arrive

// Partial sums meet their row of the other ranges, and are added in order.

// CHECK-COUNT-2:   tile.acc.values
// CHECK:             tile.store {{.*}} : vector<4xf32>, !tile.buffer<f32>
// CHECK:           tile.semaphore.arrive
// CHECK:           tile.semaphore.wait
// CHECK:           %[[P0:.*]] = tile.load {{.*}} -> vector<4xf32>
// CHECK:           %[[P1:.*]] = tile.load {{.*}} -> vector<4xf32>
// CHECK:           tile.store {{.*}} : vector<4xbf16>, !tile.buffer<bf16>
