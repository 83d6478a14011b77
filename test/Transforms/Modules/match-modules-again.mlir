// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,a),(*,b))->Kernel' \
// RUN:     --fuse-match-modules='patterns=((*,a),(*,b))->group' -o %t.fused
// RUN: FileCheck %s --input-file=%t.fused
// RUN: fuse-opt %t.fused --fuse-unfuse='sites=a+b#1' | FileCheck %s --check-prefix=ONE
// RUN: fuse-opt %t.fused --fuse-unfuse -o %t.undone
// RUN: fuse-opt %s -o %t.plain && diff %t.plain %t.undone
// RUN: fuse-opt %s -o /dev/null --fuse-match-modules='patterns=((*,a),(*,b))->group' \
// RUN:     --fuse-match-modules='patterns=((*,a),(*,b))->group' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TWICE

// TWICE: warning: pattern '((*,a),(*,b))->group' fuses nothing; site 'a+b' is refused: FUSE-N213 already-fused: 'a' belongs to another site

// A later run numbers the calls that an earlier one has left after those that
// it fused: no id is given twice, and each site can be undone by itself. The
// second chain is refused at first, since its intermediate has another user.

// CHECK: nn.fused_call @Kernel [@a, @b](%{{.*}}) site("a+b#0")
// CHECK: nn.fused_call group [@a, @b](%{{.*}}) also [0] site("a+b#1")
// ONE:     nn.fused_call @Kernel [@a, @b](%{{.*}}) site("a+b#0")
// ONE-NOT: nn.fused_call
nn.model @m class "M" {
  nn.kernel @Kernel targets(["cpu"])
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
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = nn.call_module @a(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = nn.call_module @b(%0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = nn.call_module @a(%1) : (tensor<8xf32>) -> tensor<8xf32>
    %3 = nn.call_module @b(%2) : (tensor<8xf32>) -> tensor<8xf32>
    %4 = fuse.residual_add %2, %3
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %4 : tensor<8xf32>
  }
}
