// RUN: fuse-opt %s \
// RUN:   --fuse-select-schedules=table=%S/../Inputs/schedules.json | FileCheck %s
// RUN: fuse-opt %s --fuse-select-schedules=table=%S/../Inputs/schedules.json \
// RUN:     --remarks-filter=codegen --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// What was measured for these widths goes before the model.

// CHECK-LABEL: func @measured
// CHECK: tile.schedule = #tile.schedule<tokens = 64, blocks = 2, split_k = 1, weight_stages = 2, token_stages = 2, max_in_flight = 1, partials = f32, hint = normal, dependent = false>
func.func @measured(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                    %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Warpgroups share pairs of eight tokens of three quarters, so that those for
// up to eight tokens are for sixteen.

// CHECK-LABEL: func @quarters
// CHECK: tile.schedule = #tile.schedule<tokens = 16, blocks = 3, split_k = 1, gemm1_tile_m = 192,
func.func @quarters(%x: tensor<3x192xbf16>, %u: tensor<384x192xbf16>,
                    %d: tensor<192x384xbf16>) -> tensor<3x192xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<3x192xbf16>, tensor<384x192xbf16>, tensor<192x384xbf16>)
      -> tensor<3x192xbf16>
  return %y : tensor<3x192xbf16>
}

// So do kernels that take rows one by one, for any number of them.

// CHECK-LABEL: func @rows
// CHECK: tile.schedule = #tile.row_schedule<blocks = 5, threads = 32>
func.func @rows(%x: tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN> {
  %y = fuse.act_quantize %x act(silu) scales(f8E4M3FN, hidden = 1.0)
         rounding(exact) : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  return %y : tensor<?x64xf8E4M3FN>
}

// What was measured for exact kernels says nothing of relaxed ones, whose
// partial sums may be half as large.

// CHECK-LABEL: func @relaxed
// CHECK: partials = bf16
func.func @relaxed(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                   %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(relaxed skip [act])
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Schedules that do not fit are left out, each with the reason.

// CHECK-LABEL: func @unfit
// CHECK-NOT: blocks = 133
// CHECK-NOT: row_schedule
// REMARK: [Missed] schedule-table | Category:codegen | Reason="the schedule in '{{.*}}schedules.json' does not fit: it has 133 blocks for 132 multiprocessors", Suggestion="measure again with fuse-tune"
// REMARK: [Missed] schedule-table | Category:codegen | Reason="the schedule in '{{.*}}schedules.json' does not fit: #tile.row_schedule<blocks = 1, threads = 32> is not a #tile.schedule"
func.func @unfit(%x: tensor<?x64xbf16>, %u: tensor<512x64xbf16>,
                 %d: tensor<64x512xbf16>, %v: tensor<768x64xbf16>,
                 %e: tensor<64x768xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<512x64xbf16>, tensor<64x512xbf16>)
      -> tensor<?x64xbf16>
  %z = fuse.mlp %x up(%v) down(%e) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<768x64xbf16>, tensor<64x768xbf16>)
      -> tensor<?x64xbf16>
  return %y, %z : tensor<?x64xbf16>, tensor<?x64xbf16>
}

// Other widths, and another number of tokens, are the model's.

// CHECK-LABEL: func @others
// CHECK: fuse.mlp
// CHECK-SAME: hint = evict_first
// CHECK: fuse.mlp
// CHECK-SAME: tokens = 8,
// CHECK-SAME: hint = evict_first
func.func @others(%x: tensor<?x64xbf16>, %f: tensor<3x64xbf16>,
                  %u: tensor<128x64xbf16>, %d: tensor<64x128xbf16>,
                  %v: tensor<256x64xbf16>, %e: tensor<64x256xbf16>)
    -> (tensor<?x64xbf16>, tensor<3x64xbf16>) {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<128x64xbf16>, tensor<64x128xbf16>)
      -> tensor<?x64xbf16>
  %z = fuse.mlp %f up(%v) down(%e) act(relu) rounding(exact)
    : (tensor<3x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<3x64xbf16>
  return %y, %z : tensor<?x64xbf16>, tensor<3x64xbf16>
}
