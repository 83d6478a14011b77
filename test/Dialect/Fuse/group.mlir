// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s
// RUN: fuse-opt %s --mlir-print-debuginfo --mlir-print-local-scope \
// RUN:   | FileCheck %s --check-prefix=LOC

// CHECK-LABEL: @group
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>
func.func @group(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  // CHECK: fuse.group(%[[A:.*]] = %[[X]] : tensor<?x64xbf16>) -> tensor<?x64xbf16> rounding(exact) site("group#0") {
  // CHECK-NEXT: %[[S:.*]] = fuse.activation silu %[[A]] :
  // CHECK-NEXT: fuse.yield %[[S]] : tensor<?x64xbf16>
  // CHECK-NEXT: }
  %0 = fuse.group(%a = %x : tensor<?x64xbf16>) -> tensor<?x64xbf16>
         rounding(exact) site("group#0") {
    %1 = fuse.activation silu %a : tensor<?x64xbf16> -> tensor<?x64xbf16>
    fuse.yield %1 : tensor<?x64xbf16>
  }
  return %0 : tensor<?x64xbf16>
}

// Members can be any ops without effects, and values can have any type.
// CHECK-LABEL: @upstream_members
func.func @upstream_members(%x: tensor<4xf32>, %i: index) -> (f32, index) {
  // CHECK: fuse.group(%{{.*}} = %{{.*}} : tensor<4xf32>, %{{.*}} = %{{.*}} : index) -> (f32, index) rounding
  %0:2 = fuse.group(%t = %x : tensor<4xf32>, %j = %i : index) -> (f32, index)
           rounding(exact) {
    %1 = tensor.extract %t[%j] : tensor<4xf32>
    %2 = arith.addf %1, %1 : f32
    fuse.yield %2, %j : f32, index
  }
  return %0#0, %0#1 : f32, index
}

// CHECK-LABEL: @nothing_in_nothing_out
func.func @nothing_in_nothing_out() {
  // CHECK: fuse.group() rounding(exact) {
  // CHECK-NEXT: fuse.yield
  fuse.group() rounding(exact) {
    fuse.yield
  }
  return
}

// CHECK-LABEL: @clauses
func.func @clauses(%x: tensor<?x64xbf16>) {
  // CHECK: rounding(relaxed skip [act]) origins(["a.b", "c"]) site("s") provenance(places = [0, 2]) attributes {note} {
  %0 = fuse.group(%a = %x : tensor<?x64xbf16>) -> tensor<?x64xbf16>
         rounding(relaxed skip [act]) origins(["a.b", "c"]) site("s")
         provenance(places = [0, 2]) attributes {note} {
    %1 = fuse.activation silu %a : tensor<?x64xbf16> -> tensor<?x64xbf16>
    %2 = fuse.activation relu %1 : tensor<?x64xbf16> -> tensor<?x64xbf16>
    fuse.yield %2 : tensor<?x64xbf16>
  }
  return
}

// Arguments of the body have locations.
// LOC-LABEL: @argument_location
// CHECK-LABEL: @argument_location
func.func @argument_location(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  // LOC: fuse.group(%{{.*}} = %{{.*}} : tensor<?x64xbf16> loc("a"))
  %0 = fuse.group(%a = %x : tensor<?x64xbf16> loc("a")) -> tensor<?x64xbf16>
         rounding(exact) {
    fuse.yield %a : tensor<?x64xbf16>
  }
  return %0 : tensor<?x64xbf16>
}
