// RUN: fuse-opt %s --mlir-disable-threading --fuse-form-kernels \
// RUN:   --remarks-filter='fuse' --remark-format=emitRemark 2>&1 \
// RUN:   -o /dev/null | FileCheck %s
// RUN: fuse-opt %s --fuse-check-unfuse -o /dev/null

// Where biases are added is part of the kernel's contract, for all of them.

// RUN: fuse-opt %s --fuse-form-kernels | FileCheck %s --check-prefix=FORMED

// CHECK: [Passed] after#0
// FORMED-LABEL: func @after
// FORMED: fuse.mlp
// FORMED-SAME: rounding(exact bias after_rounding)
func.func @after(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>,
                 %b: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w bias(%b) added after_rounding
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %a = fuse.activation silu %u : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %d = fuse.linear %a, %w : (tensor<?x8xbf16>, tensor<8x8xbf16>)
    -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}

// CHECK: [Missed] both#0
// CHECK-SAME: At=fuse.linear
// CHECK-SAME: FUSE-N022 bias-places-differ
func.func @both(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>,
                %b: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %u = fuse.linear %x, %w bias(%b) added after_rounding
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  %a = fuse.activation silu %u : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %d = fuse.linear %a, %w bias(%b)
    : (tensor<?x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
  return %d : tensor<?x8xbf16>
}
