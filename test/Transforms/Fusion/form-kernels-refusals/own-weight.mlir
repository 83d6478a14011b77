// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// A value of the chain as the weight of its own linear is no kernel.

// CHECK: [Missed] own_weight#0
// CHECK-SAME: FUSE-N015 not-reversible
func.func @own_weight(%x: tensor<16x16xbf16>, %w1: tensor<16x16xbf16>)
    -> tensor<16x16xbf16> {
  %n = fuse.rms_norm %x eps 1.0e-6
    : (tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %q = fuse.linear %n, %w1
    : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  %k = fuse.linear %n, %q
    : (tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x16xbf16>
  return %k : tensor<16x16xbf16>
}
