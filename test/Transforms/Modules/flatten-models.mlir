// RUN: fuse-opt %s --fuse-flatten-models | FileCheck %s
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,a),(*,b))->Declared' \
// RUN:   --fuse-flatten-models | FileCheck %s
// RUN: fuse-opt %s --fuse-flatten-models --mlir-print-debuginfo \
// RUN:   --mlir-print-local-scope | FileCheck %s --check-prefix=LOC
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,a),(*,b))->mlp' \
// RUN:   --fuse-inline-modules --fuse-form-kernels -o %t.fused
// RUN: fuse-opt %t.fused --fuse-flatten-models | FileCheck %s --check-prefix=FUSED
// RUN: fuse-opt %t.fused --fuse-flatten-models=sites=true \
// RUN:   | FileCheck %s --check-prefix=SITES

// A model becomes one function with the bodies of all modules that it calls,
// also in regions. Its arguments are the arguments of the model, then each
// parameter once; tied parameters are one argument. A fused call of a declared
// kernel becomes its members.

// CHECK:      func.func @m(%[[X:.*]]: tensor<8x8xf32> {fuse.name = "input"},
// CHECK-SAME:   %[[C:.*]]: i1,
// CHECK-SAME:   %[[W:.*]]: tensor<8x8xf32> {fuse.parameter = "a.w"})
// CHECK-NEXT: %[[N:.*]] = fuse.rms_norm %[[X]]
// CHECK-NEXT: %[[U:.*]] = fuse.linear %[[N]], %[[W]]
// CHECK-NEXT: %[[A:.*]] = fuse.activation silu %[[U]]
// CHECK-NEXT: %[[D:.*]] = fuse.linear %[[A]], %[[W]]
// CHECK-NEXT: %[[R:.*]] = scf.if %[[C]]
// CHECK-NEXT:   %[[L:.*]] = fuse.linear %[[D]], %[[W]]
// CHECK-NEXT:   scf.yield %[[L]]
// CHECK:      return %[[R]]
// CHECK-NOT:  nn.model
// CHECK-NOT:  func.func

// LOC: fuse.rms_norm {{.*}} loc("a"("here"))

// A fused op stays fused. With `sites`, only the functions of sites remain.

// FUSED:      func.func @m({{.*}} {fuse.parameter = "a.w"})
// FUSED-NEXT: %[[M:.*]] = fuse.mlp
// FUSED-NEXT: scf.if
// FUSED-NOT:  func.func

// SITES-NOT:  nn.model
// SITES:      func.func @"a+b#0"({{.*}} {fuse.parameter = "a.w"})
// SITES-NEXT: fuse.mlp
// SITES-NOT:  func.func

nn.model @m class "M" {
  nn.kernel @Declared targets(["cpu"])
  nn.module @a class "Norm" {
    nn.parameter @w : tensor<8x8xf32>
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %y = fuse.rms_norm %x eps 1.0e-6
        : (tensor<8x8xf32>) -> tensor<8x8xf32> loc("here")
      return %y : tensor<8x8xf32>
    }
  }
  nn.module @b class "MLP" {
    nn.parameter @up tied_to(@a::@w) : tensor<8x8xf32>
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %w = nn.get_parameter @up : tensor<8x8xf32>
      %u = fuse.linear %x, %w
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %a = fuse.activation silu %u : tensor<8x8xf32> -> tensor<8x8xf32>
      %d = fuse.linear %a, %w
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %d : tensor<8x8xf32>
    }
  }
  nn.module @c class "Linear" {
    nn.parameter @w tied_to(@a::@w) : tensor<8x8xf32>
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %w = nn.get_parameter @w : tensor<8x8xf32>
      %y = fuse.linear %x, %w
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %y : tensor<8x8xf32>
    }
  }
  func.func @forward(%x: tensor<8x8xf32> {fuse.name = "input"}, %c: i1)
      -> tensor<8x8xf32> {
    %a = nn.call_module @a(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %b = nn.call_module @b(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %r = scf.if %c -> tensor<8x8xf32> {
      %y = nn.call_module @c(%b) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      scf.yield %y : tensor<8x8xf32>
    } else {
      scf.yield %b : tensor<8x8xf32>
    }
    return %r : tensor<8x8xf32>
  }
}
