// RUN: fuse-opt %s --fuse-record-checks --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s

// Sizes of intermediate tensors are those of arguments. A conjunction is
// several checks.

// CHECK-DAG: [[EQUAL:#.+]] = affine_map<()[s0, s1] -> (s0, s1)>
// CHECK-DAG: [[LESS:#.+]] = affine_map<()[s0, s1] -> (8, s0 floordiv 2)>
// CHECK-DAG: [[OTHER:#.+]] = affine_map<()[s0] -> (s0, 0)>
// CHECK-LABEL: func @sizes(
// CHECK-SAME:  fuse.checks = [
// CHECK-SAME:  {message = "sizes differ", predicate = "eq", sizes = [[EQUAL]], symbols = [array<i64: 0, 0>, array<i64: 1, 0>]}
// CHECK-SAME:  {message = "sizes differ", predicate = "lt", sizes = [[LESS]], symbols = [array<i64: 0, 0>, array<i64: 1, 0>]}
// CHECK-SAME:  {message = "empty", predicate = "ne", sizes = [[OTHER]], symbols = [array<i64: 1, 0>]}
// CHECK-NOT:     cf.assert
func.func @sizes(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : i64
  %c0_i64 = arith.constant 0 : i64
  %size = tensor.dim %x, %c0 : tensor<?xf32>
  %e = tensor.empty(%size) : tensor<?xf32>
  %z = linalg.exp ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>)
    -> tensor<?xf32>
  %m = tensor.dim %z, %c0 : tensor<?xf32>
  %n = tensor.dim %y, %c0 : tensor<?xf32>
  %equal = arith.cmpi eq, %m, %n : index
  %half = arith.divui %m, %c2 : index
  %wide = arith.index_cast %half : index to i64
  %more = arith.cmpi sgt, %wide, %c8 : i64
  %both = arith.andi %equal, %more : i1
  cf.assert %both, "sizes differ"
  %w = arith.index_cast %n : index to i64
  %some = arith.cmpi ne, %w, %c0_i64 : i64
  cf.assert %some, "empty"
  %true = arith.constant true
  cf.assert %true, "always holds"
  return %z : tensor<?xf32>
}

// -----

func.func @value(%x: tensor<4xi64>) -> tensor<4xi64> {
  %c0 = arith.constant 0 : index
  %c9 = arith.constant 9 : i64
  // expected-note@+1 {{'tensor.extract' is not an expression of sizes}}
  %a = tensor.extract %x[%c0] : tensor<4xi64>
  %less = arith.cmpi slt, %a, %c9 : i64
  // expected-error@+1 {{'cf.assert' op cannot be checked before the call: its condition is not a comparison of sizes of arguments}}
  cf.assert %less, "index out of range"
  return %x : tensor<4xi64>
}

// -----

func.func @argument(%n: index) {
  %c0 = arith.constant 0 : index
  %some = arith.cmpi ne, %n, %c0 : index
  // expected-error@+1 {{its condition is not a comparison of sizes of arguments}}
  cf.assert %some, "none"
  return
}

// -----

// A negative difference is a large unsigned number.

func.func @unsigned(%x: tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %m = tensor.dim %x, %c0 : tensor<?xf32>
  %less = arith.subi %m, %c1 : index
  // expected-note@+1 {{'arith.cmpi' is not an expression of sizes}}
  %fits = arith.cmpi ult, %less, %c8 : index
  // expected-error@+1 {{cannot be checked before the call}}
  cf.assert %fits, "too large"
  return
}

// -----

func.func @branch(%x: tensor<?xf32>, %c: i1) {
  %c0 = arith.constant 0 : index
  scf.if %c {
    %m = tensor.dim %x, %c0 : tensor<?xf32>
    %some = arith.cmpi ne, %m, %c0 : index
    // expected-error@+1 {{cannot be checked before the call: it is under control flow}}
    cf.assert %some, "empty"
  }
  return
}

// -----

func.func private @called(%x: tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?xf32>
  %some = arith.cmpi ne, %m, %c0 : index
  // expected-error@+1 {{'called' is private; inline it into its callers}}
  cf.assert %some, "empty"
  return
}
