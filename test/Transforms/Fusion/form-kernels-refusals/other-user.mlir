// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// CHECK: [Missed] other_user#0
// CHECK-SAME: At=func.return
// CHECK-SAME: FUSE-N002 intermediate-has-other-users
func.func @other_user(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                      %w2: tensor<8x16xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x16xbf16>) {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %d = fuse.linear %a, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d, %u : tensor<?x8xbf16>, tensor<?x16xbf16>
}
