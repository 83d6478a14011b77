// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --canonicalize --cse --loop-invariant-code-motion \
// RUN:   | FileCheck %s --check-prefix=KEPT

// CHECK-LABEL: @sums
// CHECK: fuse.all_reduce %{{.*}} group("tp", 4) order(rank)
// CHECK-SAME: (tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK: fuse.all_reduce %{{.*}} bias(%{{.*}}) added after_rounding group("tp", 4) order(rank)
func.func @sums(%p: tensor<?x8xf32>, %b: tensor<8xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %y = fuse.all_reduce %p group("tp", 4) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xbf16>
  %z = fuse.all_reduce %p bias(%b) added after_rounding
         group("tp", 4) order(rank)
    : (tensor<?x8xf32>, tensor<8xbf16>) -> tensor<?x8xbf16>
  return %y, %z : tensor<?x8xbf16>, tensor<?x8xbf16>
}

// All ranks must execute the same reductions. Equal, unused and invariant ones
// stay.

// KEPT-LABEL: @unused
// KEPT-COUNT-2: fuse.all_reduce
func.func @unused(%p: tensor<?x8xf32>) {
  %y = fuse.all_reduce %p group("tp", 2) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %z = fuse.all_reduce %p group("tp", 2) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// KEPT-LABEL: @invariant
// KEPT: scf.for
// KEPT-NEXT: fuse.all_reduce
func.func @invariant(%p: tensor<?x8xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %y = fuse.all_reduce %p group("tp", 2) order(rank)
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
  }
  return
}

// A static number of tokens becomes known on both sides, as for all layers.

// KEPT-LABEL: @refined
// KEPT: fuse.all_reduce {{.*}} (tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @refined(%p: tensor<4x8xf32>) -> tensor<?x8xf32> {
  %c = tensor.cast %p : tensor<4x8xf32> to tensor<?x8xf32>
  %y = fuse.all_reduce %c group("tp", 2) order(rank)
    : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
