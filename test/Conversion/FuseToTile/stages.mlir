// RUN: fuse-opt %s --convert-fuse-to-tile | FileCheck %s

// A mapping written by hand: two launches, and K-slices of 128 elements.

// CHECK-LABEL: func.func @by_hand
// CHECK:       tensor.dim %arg0
// CHECK:       %[[N:.*]] = tile.launch @fuse_kernels::@graph_mma_0 ins(%arg0, %arg1 : {{.*}} plan <blocks = 16, threads = 256, max_tokens = 24,
// CHECK:       tile.launch @fuse_kernels::@graph_mma_1 ins(%arg0, %arg1 : {{.*}} outs(%[[N]] : {{.*}} plan <blocks = 4, threads = 256, shared_bytes = 40960, cooperative = true, max_tokens = 24,
// CHECK-SAME:    shares_workspace = true
// CHECK-SAME:    #tile.packed<"rows_256" of [1], tiles = 1, steps = 4, bytes = 131072>
// CHECK-NOT:   stage.

// The order of the sums is that of the slices, which two blocks have.
// CHECK-LABEL: tile.kernel @graph_mma_0
// CHECK-NOT:   tile.mma_sync
// CHECK-LABEL: tile.kernel @graph_mma_1
// CHECK:       tile.mma_sync
// CHECK:       tile.semaphore.meet
func.func @by_hand(%x: tensor<?x256xbf16>, %w: tensor<64x256xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 24, blocks = 4>
     : (tensor<?x256xbf16>, tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  ^bb0(%1: tensor<?x256xbf16>, %0: tensor<64x256xbf16>):
    %2 = stage.rows(%1) map <launch = 0, results = [launch]>
       : (tensor<?x256xbf16>) -> tensor<?x256xbf16> {
    ^bb0(%3: tensor<?x256xbf16>):
      %4 = fuse.rms_norm %3 eps 1.0e-6
         : (tensor<?x256xbf16>) -> tensor<?x256xbf16>
      stage.yield %4 : tensor<?x256xbf16>
    }
    %5 = stage.product %2 by(%0) slices 128
           map <launch = 1, results = [workspace], weight_tile = 128,
                token_tile = 32, pipeline = 2>
       : (tensor<?x256xbf16>, tensor<64x256xbf16>) -> tensor<2x?x64xf32>
    %6 = stage.reduce(%5) order ascending
           map <launch = 1, results = [output]>
       : (tensor<2x?x64xf32>) -> tensor<?x64xbf16> {
    ^bb0(%7: tensor<?x64xf32>):
      %8 = stage.finish %7 : (tensor<?x64xf32>) -> tensor<?x64xbf16>
      stage.yield %8 : tensor<?x64xbf16>
    }
    stage.yield %6 : tensor<?x64xbf16>
  }
  return %y : tensor<?x64xbf16>
}
