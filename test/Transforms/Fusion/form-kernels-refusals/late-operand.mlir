// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// The second weight depends on the first projection.

// CHECK: [Missed] late_operand#0
// CHECK-SAME: FUSE-N011 result-used-before-operands
func.func @late_operand(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %q = fuse.linear %n, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %w2 = tensor.extract_slice %q[0, 0] [8, 8] [1, 1]
    : tensor<?x8xbf16> to tensor<8x8xbf16>
  %k = fuse.linear %n, %w2
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %q, %k : tensor<?x8xbf16>, tensor<?x8xbf16>
}
