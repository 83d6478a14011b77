// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// CHECK: [Missed] two_inputs#0
// CHECK-SAME: At=fuse.linear
// CHECK-SAME: FUSE-N004 gate-and-up-inputs-differ
func.func @two_inputs(%x: tensor<?x8xbf16>, %y: tensor<?x8xbf16>,
                      %w1: tensor<16x8xbf16>, %w2: tensor<8x16xbf16>)
    -> tensor<?x8xbf16> {
  %g = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
  %u = fuse.linear %y, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %p = fuse.gated_mul %a, %u
    : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
  %d = fuse.linear %p, %w2
    : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
