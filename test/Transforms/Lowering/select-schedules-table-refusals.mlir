// RUN: fuse-opt %s --fuse-select-schedules=table=%S/../Inputs/schedules.json \
// RUN:   --remarks-filter=codegen --remark-format=emitRemark -verify-diagnostics \
// RUN:   | FileCheck %s

// Rows of a table that do not fit are refused with the reason, and the cost
// model selects instead.

// CHECK-LABEL: func @unfit
// CHECK-NOT: blocks = 133
// CHECK-NOT: row_schedule
func.func @unfit(%x: tensor<?x64xbf16>, %u: tensor<512x64xbf16>,
                 %d: tensor<64x512xbf16>, %v: tensor<768x64xbf16>,
                 %e: tensor<64x768xbf16>)
    -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
  // expected-remark-re @below {{[Missed] schedule-table | Category:codegen | Reason="the schedule in '{{.*}}schedules.json' does not fit: it has 133 blocks for 132 multiprocessors", Suggestion="measure again with fuse-tune"}}
  // expected-remark @below {{[Passed] schedule}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<512x64xbf16>, tensor<64x512xbf16>)
      -> tensor<?x64xbf16>
  // expected-remark-re @below {{[Missed] schedule-table | Category:codegen | Reason="the schedule in '{{.*}}schedules.json' does not fit: #tile.row_schedule<blocks = 1, threads = 32> is not a #tile.schedule"}}
  // expected-remark @below {{[Passed] schedule}}
  %z = fuse.mlp %x up(%v) down(%e) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<768x64xbf16>, tensor<64x768xbf16>)
      -> tensor<?x64xbf16>
  return %y, %z : tensor<?x64xbf16>, tensor<?x64xbf16>
}
