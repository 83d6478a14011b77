// RUN: fuse-opt %s \
// RUN:   --fuse-select-schedules=table=%S/../Inputs/schedules.json | FileCheck %s

// A row of the table for these widths takes precedence over the cost model.

// CHECK-LABEL: func @measured
// CHECK: tile.schedule = #tile.schedule<tokens = 64, blocks = 2, split_k = 1, weight_stages = 2, token_stages = 2, max_in_flight = 1, partials = f32, hint = normal, dependent = false>
func.func @measured(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                    %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Two warpgroups share each pair of eight tokens of a tile of 192 rows, so a
// row for up to eight tokens has a schedule for 16.

// CHECK-LABEL: func @tile_192
// CHECK: tile.schedule = #tile.schedule<tokens = 16, blocks = 3, split_k = 1, gemm1_tile_m = 192,
func.func @tile_192(%x: tensor<3x192xbf16>, %u: tensor<384x192xbf16>,
                    %d: tensor<192x384xbf16>) -> tensor<3x192xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<3x192xbf16>, tensor<384x192xbf16>, tensor<192x384xbf16>)
      -> tensor<3x192xbf16>
  return %y : tensor<3x192xbf16>
}

// Row kernels have rows of the table for any number of tokens.

// CHECK-LABEL: func @rows
// CHECK: tile.schedule = #tile.row_schedule<blocks = 5, threads = 32>
func.func @rows(%x: tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN> {
  %y = fuse.act_quantize %x act(silu) scales(f8E4M3FN, hidden = 1.0)
         rounding(exact) : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  return %y : tensor<?x64xf8E4M3FN>
}

// A row for exact kernels does not apply to relaxed ones, whose partial sums
// may be half as large.

// CHECK-LABEL: func @relaxed
// CHECK: partials = bf16
func.func @relaxed(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                   %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(relaxed skip [act])
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// The cost model selects for other widths and numbers of tokens.

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
