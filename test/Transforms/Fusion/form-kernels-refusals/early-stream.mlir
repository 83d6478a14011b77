// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// The same with the sum in front: the kernel is formed without the add.

// CHECK: [Passed] early_stream#1
// CHECK-SAME: Members="norm, up, act, down"
// CHECK: [Analysis] early_stream#1
// CHECK-SAME: at tensor.extract_slice: FUSE-N011 result-used-before-operands
func.func @early_stream(%x: tensor<?x8xbf16>, %w1: tensor<8x8xbf16>)
    -> tensor<?x8xbf16> {
  %s = fuse.residual_add %x, %x
    : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %n = fuse.rms_norm %s eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  %w2 = tensor.extract_slice %s[0, 0] [8, 8] [1, 1]
    : tensor<?x8xbf16> to tensor<8x8xbf16>
  %u = fuse.linear %n, %w1
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %a = fuse.activation silu %u : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %d = fuse.linear %a, %w2
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
