// RUN: fuse-opt %s \
// RUN:   --fuse-select-schedules=table=%S/Inputs/schedules.json | FileCheck %s
// RUN: not fuse-opt %s --fuse-select-schedules=table=%t.none 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NONE
// RUN: not fuse-opt %s --fuse-select-schedules=table=%s 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TEXT
// RUN: echo '[{"family": "mlp", "widths": [64], "element": "bf16"}]' > %t
// RUN: not fuse-opt %s --fuse-select-schedules=table=%t 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LACKS
// RUN: echo '[{"family": "mlp", "widths": [64], "element": "bf16", "schedule": "3"}]' > %t
// RUN: not fuse-opt %s --fuse-select-schedules=table=%t 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KIND

// NONE: fuse-select-schedules: can not read '{{.*}}.none':
// TEXT: fuse-select-schedules: '{{.*}}' is not JSON:
// LACKS: fuse-select-schedules: row 0 of '{{.*}}' lacks one of family, widths, element, schedule
// KIND: fuse-select-schedules: row 0 of '{{.*}}' has schedule '3': expected #tile.schedule

// What was measured for these widths goes before the model.

// CHECK-LABEL: func @measured
// CHECK: tile.schedule = #tile.schedule<tokens = 64, blocks = 2, split = 1, weight_stages = 2, token_stages = 2, in_flight = 1, partials = f32, hint = normal, dependent = false>
func.func @measured(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                    %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
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
