// RUN: fuse-run %s --verify --chip=sm_80 --dim=1,20 | FileCheck %s

// Kernels of a graph whose mapping was written by hand give what the contract
// of its layers allows.

// CHECK-NOT: FAILED
// CHECK:     V2 {{.*}} ok
// CHECK-NOT: FAILED
func.func @by_hand(%x: tensor<?x256xbf16>, %w: tensor<64x256xbf16>)
    -> tensor<?x64xbf16> {
  %y = stage.graph(%x, %w) map <mma, tokens = 64, blocks = 8>
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
