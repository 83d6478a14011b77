// RUN: fuse-opt %s -o /dev/null \
// RUN:   --fuse-match-modules='patterns=((*,**.a),(*,**.b))->Kernel,((*,**.b),(*,**.c))->Kernel,((*,outer))->Kernel' \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,**.a),(*,**.b))->Kernel disable=outer.a+b#0' \
// RUN:   | FileCheck %s --check-prefix=OFF
// RUN: %check_errors %s fuse-opt %s --fuse-match-modules='patterns=((*,**.a),(*,**.b))->Kernel {}'

// A call belongs to one site. The first pattern gets it, and the site of a
// later pattern is refused. So is a module that contains a fused site.

// CHECK: [Passed] outer.a+b#0
// CHECK: [Missed] outer.b+c#0
// CHECK-SAME: FUSE-N213 already-fused: {{.*}}'outer.b' belongs to another site
// CHECK: [Missed] outer#0
// CHECK-SAME: FUSE-N213 already-fused: {{.*}}'outer' belongs to another site

// Each model is fused by itself.

// CHECK: [Passed] outer.a+b#0

// A disabled site is disabled in each model that has it. A site that no model
// has is an error.

// OFF-LABEL: nn.model @first
// OFF-NOT:   nn.fused_call
// OFF-LABEL: nn.model @second
// OFF-NOT:   site("outer.a+b#0")
// OFF:       site("other.a+b#0")
// OFF-NOT:   nn.fused_call

// $ disable=outer.a+b#7
// error: no site 'outer.a+b#7' to disable; expected one of other.a+b#0, outer.a+b#0

nn.model @first class "M" {
  nn.kernel @Kernel targets(["cpu"])
  nn.module @outer class "Outer" {
    nn.module @a class "A" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @b class "B" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @c class "C" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %a = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %b = nn.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
      %c = nn.call_module @c(%b) : (tensor<8xf32>) -> tensor<8xf32>
      return %c : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %y = nn.call_module @outer(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %y : tensor<8xf32>
  }
}

nn.model @second class "M" {
  nn.kernel @Kernel targets(["cpu"])
  nn.module @outer class "Outer" {
    nn.module @a class "A" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @b class "B" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @c class "C" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %a = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %b = nn.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
      return %b : tensor<8xf32>
    }
  }
  nn.module @other class "Outer" {
    nn.module @a class "A" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @b class "B" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %a = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %b = nn.call_module @b(%a) : (tensor<8xf32>) -> tensor<8xf32>
      return %b : tensor<8xf32>
    }
  }
}
