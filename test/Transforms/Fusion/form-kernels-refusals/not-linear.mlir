// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// One case per predicate: a site that fails it, named with its id, the op at
// which it failed and what to do.

// CHECK: [Missed] not_linear#0
// CHECK-SAME: At=fuse.activation
// CHECK-SAME: FUSE-N001 activation-input-not-linear
// CHECK-SAME: Suggestion="check that the projection was raised to fuse.linear"
func.func @not_linear(%x: tensor<?x16xbf16>, %w: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %a = fuse.activation silu %x : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
