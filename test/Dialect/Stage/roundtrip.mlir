// RUN: fuse-opt %s | fuse-opt | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// A graph with every op and every clause.

// CHECK-LABEL: func.func @sliced
// CHECK:       stage.graph(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) map <mma, tokens = 8, blocks = 4, group = 2> attributes {origins = ["mlp.down"], rounding = #fuse.rounding<relaxed skip [down]>, site = "sliced#0"} : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<64x256xbf16>, tensor<64xbf16>) -> (tensor<?x64xbf16>, tensor<?x256xbf16>) {
// CHECK:       stage.rows(%{{.*}}, %{{.*}}) map <launch = 0, results = [launch, output]>
// CHECK:         stage.yield %{{.*}}, %{{.*}} : tensor<?x256xbf16>, tensor<?x256xbf16>
// CHECK:       stage.product %{{.*}} by(%{{.*}}) slices 128 map <launch = 1, results = [workspace], weight_tile = 64, token_tile = 8, pipeline = 2> : (tensor<?x256xbf16>, tensor<64x256xbf16>) -> tensor<2x?x64xf32>
// CHECK-NEXT:  stage.reduce(%{{.*}}) with(%{{.*}}) order ascending map <launch = 1, results = [output]> : (tensor<2x?x64xf32>, tensor<64xbf16>) -> tensor<?x64xbf16> {
// CHECK:         stage.finish %{{.*}} bias(%{{.*}}) added after_rounding : (tensor<?x64xf32>, tensor<64xbf16>) -> tensor<?x64xbf16>
func.func @sliced(%x: tensor<?x256xbf16>, %w: tensor<256xbf16>,
                  %d: tensor<64x256xbf16>, %b: tensor<64xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x256xbf16>) {
  %y:2 = stage.graph(%x, %w, %d, %b) map <mma, tokens = 8, blocks = 4, group = 2>
         attributes {origins = ["mlp.down"], site = "sliced#0",
                     rounding = #fuse.rounding<relaxed skip [down]>}
       : (tensor<?x256xbf16>, tensor<256xbf16>, tensor<64x256xbf16>,
          tensor<64xbf16>) -> (tensor<?x64xbf16>, tensor<?x256xbf16>) {
  ^bb0(%0: tensor<?x256xbf16>, %1: tensor<256xbf16>, %2: tensor<64x256xbf16>,
       %3: tensor<64xbf16>):
    %4:2 = stage.rows(%0, %1) map <launch = 0, results = [launch, output]>
         : (tensor<?x256xbf16>, tensor<256xbf16>)
           -> (tensor<?x256xbf16>, tensor<?x256xbf16>) {
    ^bb0(%5: tensor<?x256xbf16>, %6: tensor<256xbf16>):
      %7 = fuse.rms_norm %5 weight(%6) eps 1.0e-6
         : (tensor<?x256xbf16>, tensor<256xbf16>) -> tensor<?x256xbf16>
      stage.yield %7, %5 : tensor<?x256xbf16>, tensor<?x256xbf16>
    }
    %8 = stage.product %4#0 by(%2) slices 128
           map <launch = 1, results = [workspace], weight_tile = 64,
                token_tile = 8, pipeline = 2>
       : (tensor<?x256xbf16>, tensor<64x256xbf16>) -> tensor<2x?x64xf32>
    %9 = stage.reduce(%8) with(%3) order ascending
           map <launch = 1, results = [output]>
       : (tensor<2x?x64xf32>, tensor<64xbf16>) -> tensor<?x64xbf16> {
    ^bb0(%10: tensor<?x64xf32>, %11: tensor<64xbf16>):
      %12 = stage.finish %10 bias(%11) added after_rounding
          : (tensor<?x64xf32>, tensor<64xbf16>) -> tensor<?x64xbf16>
      stage.yield %12 : tensor<?x64xbf16>
    }
    stage.yield %9, %4#1 : tensor<?x64xbf16>, tensor<?x256xbf16>
  }
  return %y#0, %y#1 : tensor<?x64xbf16>, tensor<?x256xbf16>
}

// Stored operands: numbers, scales of channels and tokens.

// CHECK-LABEL: func.func @scales
// CHECK:       stage.product %{{.*}} by(%{{.*}}, %{{.*}}) with(%{{.*}}, %{{.*}}) :
// CHECK:         stage.finish %{{.*}} scales(0.5, 0.25) : (tensor<?x32xi32>) -> tensor<?x32xbf16>
// CHECK:         stage.finish %{{.*}} channel_scale(%{{.*}}) dynamic_scale(%{{.*}}) : (tensor<?x32xi32>, tensor<32xf32>, tensor<?xf32>) -> tensor<?x32xbf16>
func.func @scales(%x: tensor<?x64xi8>, %v: tensor<32x64xi8>,
                  %w: tensor<32x64xi8>, %c: tensor<32xf32>, %t: tensor<?xf32>)
    -> tensor<?x32xbf16> {
  %y = stage.graph(%x, %v, %w, %c, %t)
     : (tensor<?x64xi8>, tensor<32x64xi8>, tensor<32x64xi8>, tensor<32xf32>,
        tensor<?xf32>) -> tensor<?x32xbf16> {
  ^bb0(%0: tensor<?x64xi8>, %1: tensor<32x64xi8>, %2: tensor<32x64xi8>,
       %3: tensor<32xf32>, %4: tensor<?xf32>):
    %5 = stage.product %0 by(%1, %2) with(%3, %4)
       : (tensor<?x64xi8>, tensor<32x64xi8>, tensor<32x64xi8>, tensor<32xf32>,
          tensor<?xf32>) -> tensor<?x32xbf16> {
    ^bb0(%6: tensor<?x32xi32>, %7: tensor<?x32xi32>, %8: tensor<32xf32>,
         %9: tensor<?xf32>):
      %10 = stage.finish %6 scales(0.5, 0.25)
          : (tensor<?x32xi32>) -> tensor<?x32xbf16>
      %11 = stage.finish %7 channel_scale(%8) dynamic_scale(%9)
          : (tensor<?x32xi32>, tensor<32xf32>, tensor<?xf32>)
            -> tensor<?x32xbf16>
      %12 = fuse.gated_mul %10, %11
          : (tensor<?x32xbf16>, tensor<?x32xbf16>) -> tensor<?x32xbf16>
      stage.yield %12 : tensor<?x32xbf16>
    }
    stage.yield %5 : tensor<?x32xbf16>
  }
  return %y : tensor<?x32xbf16>
}
