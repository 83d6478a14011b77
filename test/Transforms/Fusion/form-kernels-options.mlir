// RUN: fuse-opt %s --fuse-form-kernels=disable=f#0 \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DISABLED
// RUN: fuse-opt %s --fuse-form-kernels=families=norm_linear \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FAMILY
// RUN: not fuse-opt %s --fuse-form-kernels=families=fancy 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NO-FAMILY
// RUN: not fuse-opt %s --fuse-form-kernels=rounding=fast 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NO-ROUNDING
// RUN: not fuse-opt %s --fuse-form-kernels=disable=f#9 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NO-SITE
// RUN: not fuse-opt %s --fuse-check-unfuse=families=fancy 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NO-FAMILY

// The id of the second site is the same whether the first is formed or not.

// DISABLED: [Passed] f#1
// DISABLED: [Missed] f#0
// DISABLED-SAME: FUSE-N013 disabled
// DISABLED: fuse.linear
// DISABLED: fuse.activation gelu
// DISABLED: fuse.mlp
// DISABLED-SAME: site("f#1")

// FAMILY: [Missed] f#0
// FAMILY-SAME: FUSE-N014 family-not-requested

// NO-FAMILY: error: unknown family 'fancy'; expected one of gated_mlp, mlp,
// NO-FAMILY-SAME: norm_linear, norm_quantize, act_quantize
// NO-ROUNDING: error: unknown rounding 'fast'; expected one of exact, relaxed
// NO-SITE: error: no site 'f#9' to disable; 'f' has 2 sites, "f#0" to "f#1"
func.func @f(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>)
    -> (tensor<?x8xbf16>, tensor<?x8xbf16>) {
  %0 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %1 = fuse.activation gelu %0 : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %2 = fuse.linear %1, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %3 = fuse.linear %x, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  %4 = fuse.activation silu %3 : tensor<?x8xbf16> -> tensor<?x8xbf16>
  %5 = fuse.linear %4, %w
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %2, %5 : tensor<?x8xbf16>, tensor<?x8xbf16>
}
