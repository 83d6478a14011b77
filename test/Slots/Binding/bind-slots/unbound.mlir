// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir bind=second:scale=twice" 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/Inputs/kernels.mlir default=eager" 2>&1 | FileCheck %s --check-prefix=DEFAULT

// What nothing asks for stays unbound, and is listed.

// CHECK: warning: model 'm', slot 'loss' (op=loss, variant=standard) is unbound at 1 calls: ''; no kernel is registered for it
// CHECK: warning: model 'm', slot 'scale' (op=scale, variant=standard) is unbound at 1 calls: 'first'
// CHECK-NOT: warning
// CHECK: nn.call_slot @scale(%{{.*}}) :
// CHECK: nn.call_slot @scale(%{{.*}}) bound @twice :
// CHECK: nn.call_slot @loss(%{{.*}}) :

// DEFAULT-NOT: warning
// DEFAULT-COUNT-3: bound @eager

nn.model @m class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  nn.slot @loss op "loss" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }
  }
  nn.module @first class "Layer" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  nn.module @second class "Layer" {
    func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @loss(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
