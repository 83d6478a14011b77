// RUN: fuse-opt %s --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// CHECK: [Missed] lone_norm#0
// CHECK-SAME: FUSE-N012 no-consumer
func.func @lone_norm(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %n = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %n : tensor<?x8xbf16>
}
