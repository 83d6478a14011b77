// RUN: fuse-opt %s -split-input-file \
// RUN:   --fuse-match-modules='patterns=((*,a),(*,b))->norm_linear' \
// RUN:   --fuse-inline-modules --mlir-print-debuginfo --mlir-print-local-scope \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s -split-input-file -o /dev/null \
// RUN:   --fuse-check-unfuse='patterns=((*,a),(*,b))->norm_linear'

// Arguments of the first member, sides, then parameters; a parameter that is
// read twice is one argument, a left-out argument is a constant. An
// intermediate with another user is a second result. Ops are located by the
// path of their module, around the location they had.

// CHECK:      nn.fused_call norm_linear [@a, @b](%arg0) sides(%arg1)
// CHECK-SAME:   also [0] site("a+b#0") body(@"a+b#0")
// CHECK:      func.func @"a+b#0"(
// CHECK-SAME:   %[[X:arg0]]: tensor<8x8xf32> {{.*}} %[[S:arg1]]: tensor<8x8xf32>
// CHECK-SAME:   %[[W:arg2]]: tensor<8x8xf32> {fuse.parameter = @m::@a::@inner::@weight}
// CHECK-SAME:   -> (tensor<8x8xf32>, tensor<8x8xf32>)
// CHECK-NEXT: %[[A:.*]] = fuse.linear %[[X]], %[[W]]
// CHECK-SAME:   loc("a.inner"("here"))
// CHECK-NEXT: %[[B:.*]] = fuse.linear %[[A]], %[[W]]
// CHECK-NEXT: %[[T:.*]] = arith.constant dense<2.000000e+00>
// CHECK-SAME:   loc("b"(
// CHECK-NEXT: %[[C:.*]] = fuse.residual_add %[[B]], %[[S]]
// CHECK-NEXT: %[[D:.*]] = fuse.residual_add %[[C]], %[[T]]
// CHECK-NEXT: return %[[D]], %[[B]]
nn.model @m class "M" {
  nn.module @a class "A" {
    nn.module @inner class "Linear" {
      nn.parameter @weight : tensor<8x8xf32>
      func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
        %w = nn.get_parameter @weight : tensor<8x8xf32>
        %y = fuse.linear %x, %w
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc("here")
        return %y : tensor<8x8xf32>
      }
    }
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %y = nn.call_module @inner(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %w = nn.get_parameter @inner::@weight : tensor<8x8xf32>
      %z = fuse.linear %y, %w
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %z : tensor<8x8xf32>
    }
  }
  nn.module @b class "B" {
    func.func @forward(%x: tensor<8x8xf32>, %s: tensor<8x8xf32>,
                       %t: tensor<8x8xf32>
                         {fuse.default = dense<2.0> : tensor<8x8xf32>})
        -> tensor<8x8xf32> {
      %y = fuse.residual_add %x, %s
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %z = fuse.residual_add %y, %t
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %z : tensor<8x8xf32>
    }
  }
  func.func @forward(%x: tensor<8x8xf32>, %s: tensor<8x8xf32>)
      -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %a = nn.call_module @a(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %b = nn.call_module @b(%a, %s)
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %b, %a : tensor<8x8xf32>, tensor<8x8xf32>
  }
}

// -----

// Calls and parameters inside of regions; tied parameters are one argument,
// named after their owner.

// CHECK-LABEL: nn.model @regions
// CHECK:      func.func @"a+b#0"(%[[X:arg0]]: tensor<8x8xf32>
// CHECK-SAME:   %[[C:arg1]]: i1
// CHECK-SAME:   %[[W:arg2]]: tensor<8x8xf32> {fuse.parameter = @regions::@embed::@weight}
// CHECK-NEXT: scf.if %[[C]]
// CHECK-NEXT:   %[[Y:.*]] = fuse.linear %[[X]], %[[W]]
// CHECK-SAME:     loc("a.inner"(
// CHECK-NEXT:   scf.yield %[[Y]]
// CHECK:      fuse.linear %{{.*}}, %[[W]]
nn.model @regions class "M" {
  nn.module @embed class "Embedding" {
    nn.parameter @weight : tensor<8x8xf32>
  }
  nn.module @a class "A" {
    nn.module @inner class "Linear" {
      nn.parameter @weight tied_to(@embed::@weight) : tensor<8x8xf32>
      func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
        %w = nn.get_parameter @weight : tensor<8x8xf32>
        %y = fuse.linear %x, %w
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
        return %y : tensor<8x8xf32>
      }
    }
    func.func @forward(%x: tensor<8x8xf32>, %c: i1) -> tensor<8x8xf32> {
      %y = scf.if %c -> tensor<8x8xf32> {
        %z = nn.call_module @inner(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
        scf.yield %z : tensor<8x8xf32>
      } else {
        scf.yield %x : tensor<8x8xf32>
      }
      return %y : tensor<8x8xf32>
    }
  }
  nn.module @b class "B" {
    nn.parameter @weight tied_to(@embed::@weight) : tensor<8x8xf32>
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %w = nn.get_parameter @weight : tensor<8x8xf32>
      %y = fuse.linear %x, %w
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %y : tensor<8x8xf32>
    }
  }
  func.func @forward(%x: tensor<8x8xf32>, %c: i1) -> tensor<8x8xf32> {
    %a = nn.call_module @a(%x, %c) : (tensor<8x8xf32>, i1) -> tensor<8x8xf32>
    %b = nn.call_module @b(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %b : tensor<8x8xf32>
  }
}
