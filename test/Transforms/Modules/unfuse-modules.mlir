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

// CHECK:      %[[F:.*]]:2 = fuse.fused_call @Kernel [@a, @b, @c](%arg0)
// CHECK-SAME:   sides(%[[S:.*]], %arg0) also [2] site("a+b+c#0") {first}
// CHECK:      %[[B:.*]] = fuse.identity_call @b(%[[F]]#0) ignores(%[[S]])
// CHECK-SAME:   interface [-1, 0] site("a+b+c#0")
// CHECK:      fuse.identity_call @c(%[[B]]) ignores(%arg0)
// CHECK-SAME:   interface [-3, 0, -2] site("a+b+c#0") {last}
// CHECK:      arith.negf %[[F]]#1
// CHECK:      fuse.fused_call @Kernel [@a, @b, @c]
// CHECK-SAME:   site("a+b+c#1")
// CHECK:      fuse.fused_call @Kernel [@inner::@d]({{.*}}) site("inner.d#0")

// By its site, one call is unfused and the others stay.

// ONE:      fuse.fused_call {{.*}} site("a+b+c#0")
// ONE:      fuse.call_module @a
// ONE:      fuse.call_module @b
// ONE:      fuse.fused_call {{.*}} site("inner.d#0")
// ONE:      fuse.call_module @c

fuse.model @m class "M" {
  fuse.kernel @Kernel targets(["cpu"]) returns_intermediates
  fuse.module @a class "A" {
    func.func private @forward(tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  }
  fuse.module @b class "B" {
    func.func private @forward(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  }
  fuse.module @c class "C" {
    func.func private @forward(tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
        f32 {fuse.default = 1.0 : f32}) -> tensor<4xf32>
  }
  fuse.module @inner class "Inner" {
    fuse.module @d class "D" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) {
    %s = arith.negf %x : tensor<8xf32>
    %a:2 = fuse.call_module @a(%x) {first}
      : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) loc("call of a")
    %b = fuse.call_module @b(%a#0, %s)
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("call of b")
    %c = fuse.call_module @c(%b, %x, %a#1) {last}
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4xf32>
    %n = arith.negf %b : tensor<8xf32>
    %a2:2 = fuse.call_module @a(%n)
      : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %b2 = fuse.call_module @b(%a2#1, %a2#1)
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %one = arith.constant 1.0 : f32
    %d = fuse.call_module @inner::@d(%n) : (tensor<8xf32>) -> tensor<8xf32>
    %c2 = fuse.call_module @c(%b2, %s, %s)
      : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4xf32>
    return %c, %c2, %d : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
  }
}
