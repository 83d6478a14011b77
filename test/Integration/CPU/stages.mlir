// RUN: fuse-opt %s --fuse-form-stages > %t.stages
// RUN: FileCheck %s --check-prefix=FORMED --input-file=%t.stages
// RUN: fuse-run %s --entry=gated --seed=3 --print > %t.fused.txt
// RUN: fuse-run %t.stages --entry=gated --seed=3 --print > %t.stages.txt
// RUN: diff %t.fused.txt %t.stages.txt
// RUN: fuse-run %t.stages --entry=gated --verify --dim=0,1,17 | FileCheck %s
// RUN: fuse-run %s --entry=sliced --verify --dim=3 | FileCheck %s

// A graph has the bits of its fused op, and a graph with K-slices is in what
// the contract of its layers allows.

// FORMED: stage.graph
// CHECK-NOT: FAILED
// CHECK: ok
// CHECK-NOT: FAILED

func.func @gated(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
                 %g: tensor<96x64xbf16>, %u: tensor<96x64xbf16>,
                 %b: tensor<96xbf16>, %d: tensor<64x96xbf16>)
    -> tensor<?x64xbf16> {
  %y = fuse.gated_mlp %x norm(rms %n eps 1.0e-6) gate(%g bias %b) up(%u)
         down(%d) act(silu) then_add(%x) rounding(exact)
     : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<96x64xbf16>,
        tensor<96xbf16>, tensor<96x64xbf16>, tensor<64x96xbf16>,
        tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

func.func @sliced(%x: tensor<?x64xbf16>, %w: tensor<8x64xbf16>,
                  %b: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %y = stage.graph(%x, %w, %b)
     : (tensor<?x64xbf16>, tensor<8x64xbf16>, tensor<8xbf16>)
       -> tensor<?x8xbf16> {
  ^bb0(%0: tensor<?x64xbf16>, %1: tensor<8x64xbf16>, %2: tensor<8xbf16>):
    %3 = stage.product %0 by(%1) slices 20
       : (tensor<?x64xbf16>, tensor<8x64xbf16>) -> tensor<4x?x8xf32>
    %4 = stage.reduce(%3) with(%2) order pairwise
       : (tensor<4x?x8xf32>, tensor<8xbf16>) -> tensor<?x8xbf16> {
    ^bb0(%5: tensor<?x8xf32>, %6: tensor<8xbf16>):
      %7 = stage.finish %5 bias(%6)
         : (tensor<?x8xf32>, tensor<8xbf16>) -> tensor<?x8xbf16>
      stage.yield %7 : tensor<?x8xbf16>
    }
    stage.yield %4 : tensor<?x8xbf16>
  }
  return %y : tensor<?x8xbf16>
}
