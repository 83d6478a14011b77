// RUN: fuse-opt %s --fuse-lower-slots --fuse-flatten-models | FileCheck %s
// RUN: fuse-opt %s --fuse-flatten-models -verify-diagnostics
// RUN: fuse-opt %s --fuse-inline-modules --fuse-flatten-models=sites=true \
// RUN:   -verify-diagnostics

// The slots of a model are removed with it, so calls of them must be lowered
// before.

// CHECK:      func.func @m(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:   %[[Y:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK-NEXT:   return %[[Y]]

nn.model @m class "M" {
  nn.slot @scale op "scale" variant "standard"
      : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.mulf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  nn.module @a class "A" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      // expected-error @below {{slot 'scale' (op=scale, variant=standard) is in model 'm', which is made a function; expected fuse-lower-slots before}}
      %0 = nn.call_slot @scale(%x) bound @eager
        : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.fused_call group [@a](%x) site("a#0")
      : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
