// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse | FileCheck %s

// Pairs of blocks go round the weights with a group of token tiles, then with
// the next one. Where the first group takes long enough, the norm's kernel
// prepares it alone. Warps 2 and 3 of the products' blocks prepare the others:
// block by block, a row in turn, with a pass for the sum and one that stores.

// CHECK-LABEL: func @long
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[NORM:[0-9]+]] ins(
// CHECK-SAME:      blocks = 256,
// CHECK-SAME:      #tile.place<offset = [[INPUT:[0-9]+]]>
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[PRODUCTS:[0-9]+]] ins(
// CHECK-SAME:      #tile.place<offset = [[INPUT]]>, #tile.operand<0>, #tile.operand<1>
func.func @long(%x: tensor<512x512xbf16>, %w: tensor<512xbf16>,
                %g: tensor<3584x512xbf16>, %u: tensor<3584x512xbf16>,
                %d: tensor<512x3584xbf16>) -> tensor<512x512xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<
            tokens = 512, blocks = 8, split_k = 1, stages = 4, group = 1,
            cluster = 2, launches = 1, stream_k = true, dependent = true>}
    : (tensor<512x512xbf16>, tensor<512xbf16>, tensor<3584x512xbf16>,
       tensor<3584x512xbf16>, tensor<512x3584xbf16>) -> tensor<512x512xbf16>
  return %y : tensor<512x512xbf16>
}

// CHECK-LABEL: func @short
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_{{[0-9]+}} ins(
// CHECK-SAME:      blocks = 256,
// CHECK:         tile.launch @fuse_kernels::@gated_mlp_prefill_[[SHORT:[0-9]+]] ins(
func.func @short(%x: tensor<512x512xbf16>, %w: tensor<512xbf16>,
                 %g: tensor<3328x512xbf16>, %u: tensor<3328x512xbf16>,
                 %d: tensor<512x3328xbf16>) -> tensor<512x512xbf16> {
  %y = fuse.gated_mlp %x norm(rms %w eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<
            tokens = 512, blocks = 8, split_k = 1, stages = 4, group = 1,
            cluster = 2, launches = 1, stream_k = true, dependent = true>}
    : (tensor<512x512xbf16>, tensor<512xbf16>, tensor<3328x512xbf16>,
       tensor<3328x512xbf16>, tensor<512x3328xbf16>) -> tensor<512x512xbf16>
  return %y : tensor<512x512xbf16>
}

// CHECK:       tile.kernel @gated_mlp_prefill_[[NORM]](
// CHECK-SAME:    %[[COUNT:[a-z0-9]+]]: i32)
// CHECK-DAG:     %[[C256:.*]] = arith.constant 256 : i32
// CHECK:         arith.minui %[[COUNT]], %[[C256]]

// A copy of the second group waits for two warps of eight blocks.
// CHECK:       tile.kernel @gated_mlp_prefill_[[PRODUCTS]](
// CHECK-DAG:     %[[C16:.*]] = arith.constant 16 : i32
// CHECK:         role "stream"
// CHECK:           tile.grid_dependency wait
// CHECK:           tile.semaphore.wait %{{.*}} arrivals(%[[C16]])
// CHECK:           tile.copy_tensor
// CHECK:           tile.reduce {{.*}} warps(2 to 4) barrier(2)
// CHECK:           tile.store
// CHECK:           tile.barrier 2 threads(64)
// CHECK:           tile.fence_async
// CHECK:           tile.semaphore.arrive
// CHECK:         role "multiply"

// CHECK:       tile.kernel @gated_mlp_prefill_[[SHORT]](
// CHECK-NOT:     warps(2 to 4)
// CHECK:         role "multiply"
