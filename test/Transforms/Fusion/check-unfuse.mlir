// RUN: fuse-opt %s --fuse-check-unfuse -allow-unregistered-dialect \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark 2>%t.remarks \
// RUN:   | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks
// RUN: fuse-opt %s --fuse-check-unfuse=rounding=relaxed -o /dev/null \
// RUN:   -allow-unregistered-dialect
// RUN: not fuse-opt %s --fuse-check-unfuse=rounding=fast \
// RUN:   -allow-unregistered-dialect 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNKNOWN
// RUN: fuse-opt %s -allow-unregistered-dialect -o %t.formed \
// RUN:   --fuse-form-kernels=disable=again#1
// RUN: fuse-opt %t.formed --fuse-check-unfuse -allow-unregistered-dialect \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark -o %t.checked 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ONE --implicit-check-not=Passed
// RUN: diff %t.formed %t.checked
// RUN: fuse-opt %t.checked --fuse-form-kernels -allow-unregistered-dialect \
// RUN:   -o %t.all
// RUN: fuse-opt %t.all --fuse-check-unfuse -allow-unregistered-dialect \
// RUN:   | diff %t.all -
// RUN: not fuse-opt %s --fuse-check-unfuse=disable=mpl#0 \
// RUN:   -allow-unregistered-dialect 2>&1 | FileCheck %s --check-prefix=DISABLE

// The kernel is formed and undone in a copy; the function stays as it is, with
// the op between the members where it was.

// REMARK: [Passed] mlp#0
// REMARK-SAME: Members="up, act, down"
// What was fused before is no business of the check.
// ONE: [Passed] again#1
// DISABLE: error: no site 'mpl#0' to disable; there is no function 'mpl'
// UNKNOWN: error: unknown rounding 'fast'; expected one of exact, relaxed

// CHECK-LABEL: func @mlp
// CHECK-NEXT:    fuse.linear
// CHECK-NEXT:    "test.between"
// CHECK-NEXT:    fuse.activation gelu %{{.*}} {tag}
// CHECK-NEXT:    fuse.linear
// CHECK-NOT:     fuse.mlp
func.func @mlp(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  "test.between"() : () -> ()
  %1 = fuse.activation gelu %0 {tag} : tensor<?x8xf32> -> tensor<?x8xf32>
  %2 = fuse.linear %1, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}

func.func @again(%x: tensor<?x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x8xf32> {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %1 = fuse.activation gelu %0 : tensor<?x8xf32> -> tensor<?x8xf32>
  %2 = fuse.linear %1, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %3 = fuse.linear %2, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  %4 = fuse.activation gelu %3 : tensor<?x8xf32> -> tensor<?x8xf32>
  %5 = fuse.linear %4, %w
    : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
  return %5 : tensor<?x8xf32>
}
