// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,a),(*,b))->norm_linear' \
// RUN:   --fuse-inline-modules | FileCheck %s
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,a),(*,b))->norm_linear' \
// RUN:   --fuse-inline-modules --fuse-bind-slots=bind=a:scale=eager,b:scale=twice \
// RUN:   --fuse-lower-slots | FileCheck %s --check-prefix=LOWERED
// RUN: fuse-opt %s -o /dev/null \
// RUN:   --fuse-check-unfuse='patterns=((*,a),(*,b))->norm_linear'

// A copied call still means the slot of its model, and stands at the path of
// the module that it was copied from.

// CHECK:       nn.model @m
// CHECK-LABEL: func.func @"a+b#0"
// CHECK-NEXT:    nn.call_slot @m::@scale(%{{.*}}) :
// CHECK-NEXT:    nn.call_slot @m::@scale(%{{.*}}) :

// LOWERED-LABEL: func.func @"a+b#0"
// LOWERED-NEXT:    arith.mulf
// LOWERED-NEXT:    arith.addf
// LOWERED-NEXT:    return

nn.slot_kernel "twice" op "scale" variant "standard" {
  nn.implementation on <any> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.addf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
}

nn.model @m class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.mulf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  nn.module @a class "A" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  nn.module @b class "B" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_module @a(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = nn.call_module @b(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
