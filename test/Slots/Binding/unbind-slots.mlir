// RUN: fuse-opt %s -o %t.before.mlir
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/bind-slots/Inputs/kernels.mlir bind=scale=twice" -o %t.bound.mlir
// RUN: fuse-opt %t.bound.mlir --fuse-unbind-slots | diff %t.before.mlir -
// RUN: fuse-opt %t.bound.mlir --fuse-unbind-slots=models=student | FileCheck %s

// Unbinding restores the text from before. With `models`, other models stay
// bound.

// CHECK-LABEL: nn.model @teacher
// CHECK:         nn.bound_kernel @twice
// CHECK:         nn.call_slot @scale({{.*}}) bound @twice :
nn.model @teacher class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.addf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// CHECK-LABEL: nn.model @student
// CHECK-NOT:     nn.bound_kernel
// CHECK:         nn.call_slot @scale(%{{[^)]*}}) :
nn.model @student class "M" {
  nn.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.addf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
