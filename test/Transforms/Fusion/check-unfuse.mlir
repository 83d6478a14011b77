// RUN: fuse-opt %s --fuse-check-unfuse -allow-unregistered-dialect \
// RUN:   -verify-diagnostics --remarks-filter=fuse --remark-format=emitRemark \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse=rounding=relaxed -o /dev/null \
// RUN:   -allow-unregistered-dialect

// The kernel is formed and unfused in a copy. The function does not change: the
// op between the members stays in its place.

// CHECK-LABEL: func @mlp
// CHECK-NEXT:    fuse.linear
// CHECK-NEXT:    "test.between"
// CHECK-NEXT:    fuse.activation gelu %{{.*}} {tag}
// CHECK-NEXT:    fuse.linear
// CHECK-NOT:     fuse.mlp
func.func @mlp(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  // expected-remark-re @below {{[Passed] mlp#0{{.*}}Members="up, act, down"}}
  %0 = fuse.linear %x, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  "test.between"() : () -> ()
  %1 = fuse.activation gelu %0 {tag} : tensor<?x8xf32> -> tensor<?x8xf32>
  %2 = fuse.linear %1, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
