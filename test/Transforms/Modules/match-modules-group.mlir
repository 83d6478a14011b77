// RUN: fuse-opt %s -o %t.input
// RUN: fuse-opt %s -o %t.fused \
// RUN:   --fuse-match-modules='patterns=((*,a),(*,b))->group' \
// RUN:   --fuse-inline-modules --fuse-form-kernels
// RUN: FileCheck %s --input-file=%t.fused
// RUN: fuse-opt %t.fused --fuse-unfuse | diff %t.input -
// RUN: fuse-opt %s -o /dev/null --fuse-check-unfuse='patterns=((*,a),(*,b))->group'

// A chain that no other family matches becomes a group of its ops, also if an
// intermediate has another user.

// CHECK-LABEL: nn.model @chain
// CHECK:      nn.fused_call group [@a, @b](%arg0) also [0]
// CHECK:      func.func @"a+b#0"(%[[X:.*]]: tensor<8xf32>,
// CHECK-SAME:   %[[W:.*]]: tensor<8xf32> {fuse.parameter = @chain::@b::@w})
// CHECK-SAME:   attributes {fuse.group}
// CHECK-NEXT: %[[G:.*]]:2 = fuse.group(%[[I:.*]] = %[[X]] : tensor<8xf32>,
// CHECK-SAME:   %[[V:.*]] = %[[W]] : tensor<8xf32>)
// CHECK-SAME:   origins(["a", "b"]) site("a+b#0#0")
// CHECK-NEXT:   %[[N:.*]] = arith.negf %[[I]]
// CHECK-NEXT:   %[[M:.*]] = arith.mulf %[[N]], %[[V]]
// CHECK-NEXT:   fuse.yield %[[N]], %[[M]]
// CHECK:      return %[[G]]#1, %[[G]]#0
nn.model @chain class "M" {
  nn.module @a class "A" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = arith.negf %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  nn.module @b class "B" {
    nn.parameter @w : tensor<8xf32>
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %w = nn.get_parameter @w : tensor<8xf32>
      %y = arith.mulf %x, %w : tensor<8xf32>
      return %y : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %a = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %b = nn.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
    return %b, %a : tensor<8xf32>, tensor<8xf32>
  }
}
