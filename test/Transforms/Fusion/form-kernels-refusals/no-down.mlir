// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// CHECK: [Missed] no_down#0
// CHECK-SAME: At=func.return
// CHECK-SAME: FUSE-N005 no-down-projection
func.func @no_down(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>)
    -> tensor<?x16xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  return %a : tensor<?x16xbf16>
}
