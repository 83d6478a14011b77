// RUN: fuse-opt %s --fuse-bind-slots="bind=scale=own" -verify-diagnostics
// RUN: fuse-opt %s --fuse-bind-slots="bind=first@scale=own,second@scale=eager" | FileCheck %s

// A kernel in a model serves the slots of this model only.

// CHECK-LABEL: nn.model @first
// CHECK:         bound @own
// CHECK-LABEL: nn.model @second
// CHECK:         bound @eager

nn.model @first class "M" {
  nn.slot_kernel "own" op "scale" variant "standard" {
    nn.implementation on <any> {
      func.func @body(%x: tensor<4xf32>) -> tensor<4xf32> {
        return %x : tensor<4xf32>
      }
    }
  }
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {}
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
nn.model @second class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @below {{slot 'scale' (op=scale, variant=standard) at '': unknown kernel 'own' for op=scale, variant=standard; available: eager}}
    %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
