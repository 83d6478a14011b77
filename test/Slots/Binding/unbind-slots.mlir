// RUN: fuse-opt %s -o %t.before.mlir
// RUN: fuse-opt %s --fuse-bind-slots="kernels=%S/bind-slots/Inputs/kernels.mlir bind=scale=twice" -o %t.bound.mlir
// RUN: fuse-opt %t.bound.mlir --fuse-unbind-slots | diff %t.before.mlir -
// RUN: fuse-opt %t.bound.mlir --fuse-unbind-slots=models=student | FileCheck %s

// Unbinding restores the text from before. With `models`, other models stay
// bound.

// CHECK-LABEL: fuse.model @teacher
// CHECK:         fuse.bound_kernel @twice
// CHECK:         fuse.call_slot @scale({{.*}}) bound @twice :
fuse.model @teacher class "M" {
  fuse.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.addf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fuse.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// CHECK-LABEL: fuse.model @student
// CHECK-NOT:     fuse.bound_kernel
// CHECK:         fuse.call_slot @scale(%{{[^)]*}}) :
fuse.model @student class "M" {
  fuse.slot @scale op "scale" variant "standard" : (tensor<4xf32>) -> tensor<4xf32> {
    func.func @eager(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = arith.addf %x, %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
  }
  func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = fuse.call_slot @scale(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
