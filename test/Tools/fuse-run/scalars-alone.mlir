// A module without tensors, whose scalars become some.

// RUN: fuse-run %s --print | FileCheck %s

// CHECK: f32
// CHECK-NEXT: [
// CHECK: i64
// CHECK-NEXT: [
func.func @f(%a: f32, %i: index) -> (f32, index) {
  %b = arith.addf %a, %a : f32
  return %b, %i : f32, index
}
