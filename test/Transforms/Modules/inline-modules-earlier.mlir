// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,a),(*,b),(*,c))->group' \
// RUN:   --fuse-inline-modules | FileCheck %s

// A member may read what an earlier one than the one before it gives.

// CHECK-LABEL: func.func @"a+b+c#0"
// CHECK-SAME:    (%[[X:.*]]: tensor<8xf32>)
// CHECK:         %[[A:.*]] = fuse.activation relu %[[X]]
// CHECK:         %[[B:.*]] = fuse.activation silu %[[A]]
// CHECK:         fuse.residual_add %[[A]], %[[B]]
nn.model @earlier class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = fuse.activation relu %x : tensor<8xf32> -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  nn.module @b class "B" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = fuse.activation silu %x : tensor<8xf32> -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  nn.module @c class "C" {
    func.func @forward(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
      %z = fuse.residual_add %x, %y
        : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      return %z : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %a = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %b = nn.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
    %c = nn.call_module @c(%a, %b)
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %c : tensor<8xf32>
  }
}
