// Scheduled ops that read each other's results, with nothing between them: the
// buffer that one writes is the buffer that the other one reads.

// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never \
// RUN:   --tokens=64 -o %t.fuse
// RUN: fuse-artifact info --json %t.fuse | FileCheck %s

// CHECK:      "tensor": 0
// CHECK:      "tensor": 2
// CHECK:      "workspace": [[BETWEEN:[0-9]+]]
// CHECK:      "kernel": "act_quantize_rows_0"
// CHECK:      "workspace": [[BETWEEN]]
// CHECK:      "tensor": 1
// CHECK:      "tensor": 3
// CHECK:      "kernel": "norm_quantize_rows_0"
func.func @chain(%x: tensor<?x64xbf16>, %norm: tensor<64xbf16>)
    -> (tensor<?x64xf8E4M3FN>, tensor<?x64xf8E4M3FN>) {
  %0 = fuse.activation quick_gelu %x : tensor<?x64xbf16> -> tensor<?x64xbf16>
  %1 = fuse.quantize %0 scale 0.5
    : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  %2 = fuse.rms_norm %0 weight(%norm) eps 1.0e-6
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  %3 = fuse.quantize %2 scale 0.5
    : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  return %1, %3 : tensor<?x64xf8E4M3FN>, tensor<?x64xf8E4M3FN>
}
