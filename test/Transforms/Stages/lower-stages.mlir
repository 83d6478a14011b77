// RUN: fuse-opt %s --fuse-lower-stages | FileCheck %s
// RUN: fuse-opt %s --convert-fuse-to-linalg | FileCheck %s --check-prefix=LINALG

// Without K-slices, a product and the end of its sum are a linear. Passes of
// other tests compare with the decomposition of fused ops (form-stages.mlir).

// LINALG-NOT: stage.
// LINALG-NOT: fuse.

// Slices of 100 of 256 elements: the last one is shorter. The order of the sum
// is that of the slices.

// CHECK-LABEL: func.func @ascending
// CHECK:       %[[X0:.*]] = tensor.extract_slice %arg0[0, 0] [%{{.*}}, 100] [1, 1]
// CHECK:       %[[W0:.*]] = tensor.extract_slice %arg1[0, 0] [8, 100] [1, 1]
// CHECK:       %[[P0:.*]] = fuse.linear %[[X0]], %[[W0]] : (tensor<?x100xbf16>, tensor<8x100xbf16>) -> tensor<?x8xf32>
// CHECK:       tensor.extract_slice %arg0[0, 100] [%{{.*}}, 100] [1, 1]
// CHECK:       %[[P1:.*]] = fuse.linear
// CHECK:       tensor.extract_slice %arg0[0, 200] [%{{.*}}, 56] [1, 1]
// CHECK:       %[[P2:.*]] = fuse.linear
// CHECK:       %[[S0:.*]] = fuse.residual_add %[[P0]], %[[P1]] : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
// CHECK-NEXT:  %[[S1:.*]] = fuse.residual_add %[[S0]], %[[P2]]
// CHECK-NEXT:  %[[F:.*]] = stage.finish %[[S1]] bias(%arg2)
// CHECK-NEXT:  fuse.activation silu %[[F]]
func.func @ascending(%x: tensor<?x256xbf16>, %w: tensor<8x256xbf16>,
                     %b: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %y = stage.graph(%x, %w, %b)
     : (tensor<?x256xbf16>, tensor<8x256xbf16>, tensor<8xbf16>)
       -> tensor<?x8xbf16> {
  ^bb0(%0: tensor<?x256xbf16>, %1: tensor<8x256xbf16>, %2: tensor<8xbf16>):
    %3 = stage.product %0 by(%1) slices 100
       : (tensor<?x256xbf16>, tensor<8x256xbf16>) -> tensor<3x?x8xf32>
    %4 = stage.reduce(%3) with(%2) order ascending
       : (tensor<3x?x8xf32>, tensor<8xbf16>) -> tensor<?x8xbf16> {
    ^bb0(%5: tensor<?x8xf32>, %6: tensor<8xbf16>):
      %7 = stage.finish %5 bias(%6)
         : (tensor<?x8xf32>, tensor<8xbf16>) -> tensor<?x8xbf16>
      %8 = fuse.activation silu %7 : tensor<?x8xbf16> -> tensor<?x8xbf16>
      stage.yield %8 : tensor<?x8xbf16>
    }
    stage.yield %4 : tensor<?x8xbf16>
  }
  return %y : tensor<?x8xbf16>
}

// Scales follow the total of stored values.

// CHECK-LABEL: func.func @pairwise
// CHECK:       %[[P0:.*]] = fuse.linear %{{.*}}, %{{.*}} scales(1.0, 1.0)
// CHECK:       %[[P1:.*]] = fuse.linear
// CHECK:       %[[P2:.*]] = fuse.linear
// CHECK:       %[[P3:.*]] = fuse.linear
// CHECK:       %[[S0:.*]] = fuse.residual_add %[[P0]], %[[P1]]
// CHECK-NEXT:  %[[S1:.*]] = fuse.residual_add %[[P2]], %[[P3]]
// CHECK-NEXT:  %[[S2:.*]] = fuse.residual_add %[[S0]], %[[S1]]
// CHECK-NEXT:  stage.finish %[[S2]] scales(0.5, 0.25)
func.func @pairwise(%x: tensor<?x64xf8E4M3FN>, %w: tensor<8x64xf8E4M3FN>)
    -> tensor<?x8xbf16> {
  %y = stage.graph(%x, %w)
     : (tensor<?x64xf8E4M3FN>, tensor<8x64xf8E4M3FN>) -> tensor<?x8xbf16> {
  ^bb0(%0: tensor<?x64xf8E4M3FN>, %1: tensor<8x64xf8E4M3FN>):
    %2 = stage.product %0 by(%1) slices 16
       : (tensor<?x64xf8E4M3FN>, tensor<8x64xf8E4M3FN>) -> tensor<4x?x8xf32>
    %3 = stage.reduce(%2) order pairwise
       : (tensor<4x?x8xf32>) -> tensor<?x8xbf16> {
    ^bb0(%4: tensor<?x8xf32>):
      %5 = stage.finish %4 scales(0.5, 0.25)
         : (tensor<?x8xf32>) -> tensor<?x8xbf16>
      stage.yield %5 : tensor<?x8xbf16>
    }
    stage.yield %3 : tensor<?x8xbf16>
  }
  return %y : tensor<?x8xbf16>
}
