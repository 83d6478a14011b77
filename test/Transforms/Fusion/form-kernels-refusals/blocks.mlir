// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// CHECK: [Missed] blocks#0
// CHECK-SAME: FUSE-N010 members-in-different-blocks
func.func @blocks(%x: tensor<?x8xbf16>, %w1: tensor<16x8xbf16>,
                  %w2: tensor<8x16xbf16>, %c: i1) -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %y = scf.if %c -> tensor<?x8xbf16> {
    %a = fuse.activation silu %u : tensor<?x16xbf16> -> tensor<?x16xbf16>
    %d = fuse.linear %a, %w2
      : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
    scf.yield %d : tensor<?x8xbf16>
  } else {
    scf.yield %x : tensor<?x8xbf16>
  }
  return %y : tensor<?x8xbf16>
}
