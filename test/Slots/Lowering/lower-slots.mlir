// RUN: fuse-opt %s --fuse-lower-slots --split-input-file | FileCheck %s
// RUN: fuse-opt %s --fuse-lower-slots=device=gpu --split-input-file | FileCheck %s

// Bodies stand in the place of calls; of two calls of one slot each has its
// own. Slots beside functions are gone, those of models stay.

// CHECK-NOT:   nn.slot
// CHECK-LABEL: func.func @function
// CHECK-SAME:    (%[[X:.*]]: tensor<4xf32>)
// CHECK:         %[[A:.*]] = arith.mulf %[[X]], %[[X]]
// CHECK:         %[[B:.*]] = arith.addf %[[A]], %[[A]]
// CHECK:         return %[[B]]
// CHECK-LABEL: nn.model @m
// CHECK:         nn.slot @inner
// CHECK:         func.func @forward(%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT:      %[[A:.*]] = arith.subf %[[X]], %[[X]]
// CHECK-NEXT:      return %[[A]]
nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.mulf %x, %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  nn.bound_kernel @fuse on <any> {
    func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.addf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
}
func.func @function(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.call_slot @scale(%x) bound @eager : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.call_slot @scale(%0) bound @fuse : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
nn.model @m class "M" {
  nn.slot @inner op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.subf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @inner(%x) bound @eager : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// A body may call other slots.

// CHECK-LABEL: func.func @nested
// CHECK-NEXT:    arith.negf
// CHECK-NEXT:    arith.negf
// CHECK-NEXT:    return
nn.slot @negate op "negate" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = arith.negf %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
nn.slot @twice op "twice" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
  func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @negate(%x) bound @eager : (tensor<4xf32>) -> tensor<4xf32>
    %1 = nn.call_slot @negate(%0) bound @eager : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
func.func @nested(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.call_slot @twice(%x) bound @eager : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
