// RUN: fuse-opt %s -o %t.input
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,**.a),(*,**.b),(*,**.c))->Kernel,((*,**.d))->Kernel' -o %t.fused
// RUN: FileCheck %s --input-file=%t.fused
// RUN: fuse-opt %t.fused --fuse-unfuse | diff %t.input -
// RUN: fuse-opt %t.fused --fuse-unfuse='sites=a+b+c#0,a+b+c#1,inner.d#0' | diff %t.input -
// RUN: fuse-opt %t.fused --fuse-unfuse='paths=a,**.d' | diff %t.input -
// RUN: fuse-opt %t.fused --fuse-unfuse='sites=a+b+c#1' | FileCheck %s --check-prefix=ONE
// RUN: fuse-opt %s -o /dev/null --mlir-print-debuginfo --fuse-check-unfuse='patterns=((*,**.a),(*,**.b),(*,**.c))->Kernel,((*,**.d))->Kernel'

// Unfusing restores each kind of data flow of a chain: several results, unused
// results, a result that skips a member, side inputs, an omitted default, an
// intermediate with another user, a module with two calls, a chain of one
// member, and attributes and locations of calls.

// CHECK:      %[[F:.*]]:2 = nn.fused_call @Kernel [@a, @b, @c](%arg0)
// CHECK-SAME:   sides(%[[S:.*]], %arg0) also [2] site("a+b+c#0") {first}
// CHECK:      %[[B:.*]] = nn.identity_call @b(%[[F]]#0) ignores(%[[S]])
// CHECK-SAME:   interface [-1, 0] site("a+b+c#0")
// CHECK:      nn.identity_call @c(%[[B]]) ignores(%arg0)
// CHECK-SAME:   interface [-3, 0, -2] site("a+b+c#0") {last}
// CHECK:      arith.negf %[[F]]#1
// CHECK:      nn.fused_call @Kernel [@a, @b, @c]
// CHECK-SAME:   site("a+b+c#1")
// CHECK:      nn.fused_call @Kernel [@inner::@d]({{.*}}) site("inner.d#0")

// By its site, one call is unfused and the others stay.

// ONE:      nn.fused_call {{.*}} site("a+b+c#0")
// ONE:      nn.call_module @a
// ONE:      nn.call_module @b
// ONE:      nn.fused_call {{.*}} site("inner.d#0")
// ONE:      nn.call_module @c

nn.model @m class "M" {
  nn.kernel @Kernel targets(["cpu"]) returns_intermediates
  nn.module @a class "A" {
    func.func private @forward(tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  }
  nn.module @b class "B" {
    func.func private @forward(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @c class "C" {
    func.func private @forward(tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
        f32 {fuse.default = 1.0 : f32}) -> tensor<4xf32>
  }
  nn.module @inner class "Inner" {
    nn.module @d class "D" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) {
    %s = arith.negf %x : tensor<8xf32>
    %a:2 = nn.call_module @a(%x) {first}
      : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) loc("call of a")
    %b = nn.call_module @b(%a#0, %s)
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("call of b")
    %c = nn.call_module @c(%b, %x, %a#1) {last}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4xf32>
    %n = arith.negf %b : tensor<8xf32>
    %a2:2 = nn.call_module @a(%n)
      : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %b2 = nn.call_module @b(%a2#1, %a2#1)
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %one = arith.constant 1.0 : f32
    %d = nn.call_module @inner::@d(%n) : (tensor<8xf32>) -> tensor<8xf32>
    %c2 = nn.call_module @c(%b2, %s, %s)
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4xf32>
    return %c, %c2, %d : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
  }
}
