// RUN: fuse-opt %s --convert-fuse-to-tile --split-input-file --verify-diagnostics

func.func @not_a_schedule(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                          %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{'fuse.mlp' op has tile.schedule = 3 : i64: expected #tile.schedule}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = 3 : i64}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

func.func @not_a_row_schedule(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>)
    -> tensor<?x64xf8E4M3FN> {
  // expected-error@+1 {{'fuse.norm_quantize' op has tile.schedule = #tile.schedule<}}
  %y = fuse.norm_quantize %x norm(rms %n eps 1.0e-6)
         scales(f8E4M3FN, input = 2.1e-2) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 1, split_k = 1,
          weight_stages = 2, token_stages = 2, max_in_flight = 2, partials = f32,
          hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xf8E4M3FN>
  return %y : tensor<?x64xf8E4M3FN>
}

// -----

func.func @no_kernel(%x: tensor<?x64xf32>, %u: tensor<256x64xf32>,
                     %d: tensor<64x256xf32>) -> tensor<?x64xf32> {
  // expected-error@+1 {{has a schedule, but the input is f32, not bf16}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 1, split_k = 1,
          weight_stages = 2, token_stages = 2, max_in_flight = 2, partials = f32,
          hint = normal, dependent = false>}
    : (tensor<?x64xf32>, tensor<256x64xf32>, tensor<64x256xf32>)
      -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// -----

// Four ranges of eight tiles; three more would be empty.

func.func @too_many_adders(%x: tensor<?x64xbf16>, %u: tensor<2048x64xbf16>,
                           %d: tensor<64x2048xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: 5 reducers are more than the 4 K-slices that are not empty}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 8, split_k = 7,
          weight_stages = 2, token_stages = 2, max_in_flight = 2, reducers = 5,
          partials = f32, hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<2048x64xbf16>, tensor<64x2048xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// One block has two tiles, the other one.

func.func @uneven_stages(%x: tensor<?x64xbf16>, %u: tensor<768x64xbf16>,
                         %d: tensor<64x768xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: straggler_in_flight requires equally many GEMM1 tiles for each block, but there are 3 tiles for 2 blocks}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 2, split_k = 1,
          weight_stages = 4, token_stages = 2, max_in_flight = 2, straggler_in_flight = 3,
          partials = f32, hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<768x64xbf16>, tensor<64x768xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

func.func @too_few_blocks(%x: tensor<?x512xbf16>, %u: tensor<256x512xbf16>,
                          %d: tensor<512x256xbf16>) -> tensor<?x512xbf16> {
  // expected-error@+1 {{does not fit its schedule: GEMM2 has 2 units for 1 blocks}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 1, split_k = 1,
          weight_stages = 2, token_stages = 2, max_in_flight = 2, partials = f32,
          hint = normal, dependent = false>}
    : (tensor<?x512xbf16>, tensor<256x512xbf16>, tensor<512x256xbf16>)
      -> tensor<?x512xbf16>
  return %y : tensor<?x512xbf16>
}

// -----

func.func @too_many_tokens(%x: tensor<9x64xbf16>, %u: tensor<256x64xbf16>,
                           %d: tensor<64x256xbf16>) -> tensor<9x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: the schedule is for 8 tokens, the op has 9}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 1, split_k = 1,
          weight_stages = 2, token_stages = 2, max_in_flight = 2, partials = f32,
          hint = normal, dependent = false>}
    : (tensor<9x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<9x64xbf16>
  return %y : tensor<9x64xbf16>
}

// -----

func.func @inexact(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                   %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: partial sums in bf16 are not in the exact contract}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 1, split_k = 1,
          weight_stages = 2, token_stages = 2, max_in_flight = 2, partials = bf16,
          hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

func.func @odd_steps(%x: tensor<?x64xbf16>, %w: tensor<64xbf16>,
                     %a: tensor<64x64xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: a K-slice of 1 k-steps is not a whole number of stages of 128 rows}}
  %y = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%a) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 1, split_k = 1,
          gemm2_tile_m = 128, weight_stages = 2, token_stages = 4, max_in_flight = 0,
          partials = f32, hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

func.func @no_room(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                   %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: a tile of the hidden layer needs 4 token stages, but there are 1}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 1, split_k = 1,
          weight_stages = 2, token_stages = 4, max_in_flight = 0, partials = f32,
          smem_epilogue = true, hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// What is deferred waits as bf16.

func.func @unrounded(%x: tensor<?x128xbf16>, %g: tensor<256x128xbf16>,
                     %d: tensor<128x256xbf16>) -> tensor<?x128xbf16> {
  // expected-error@+1 {{does not fit its schedule: deferred_epilogue rounds gate and up to bf16, but the contract keeps one in f32}}
  %y = fuse.gated_mlp %x gate(%g) up(%g) down(%d) act(silu)
         rounding(relaxed skip [gate])
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 4, split_k = 2,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 0, partials = f32, smem_epilogue = true, deferred_epilogue = true,
          hint = normal, dependent = false>}
    : (tensor<?x128xbf16>, tensor<256x128xbf16>, tensor<256x128xbf16>,
       tensor<128x256xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

// So is what tiles of 192 rows round before they activate it.

func.func @unrounded_quarters(%x: tensor<?x128xbf16>, %g: tensor<384x128xbf16>,
                              %d: tensor<128x384xbf16>) -> tensor<?x128xbf16> {
  // expected-error@+1 {{does not fit its schedule: gemm1_tile_m = 192 rounds gate and up to bf16, but the contract keeps one in f32}}
  %y = fuse.gated_mlp %x gate(%g) up(%g) down(%d) act(silu)
         rounding(relaxed skip [up])
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 4, split_k = 2,
          gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 0, partials = f32, smem_epilogue = true, hint = normal,
          dependent = false>}
    : (tensor<?x128xbf16>, tensor<384x128xbf16>, tensor<384x128xbf16>,
       tensor<128x384xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @few_rows(%x: tensor<?x128xbf16>, %g: tensor<64x128xbf16>,
                    %d: tensor<128x64xbf16>) -> tensor<?x128xbf16> {
  // expected-error@+1 {{does not fit its schedule: tiles of 160 rows are more than the 128 of GEMM1}}
  %y = fuse.gated_mlp %x gate(%g) up(%g) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 72, blocks = 4, split_k = 1,
          gemm1_tile_m = 160, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 0, partials = f32, swap_ab = true, hint = normal,
          dependent = false>}
    : (tensor<?x128xbf16>, tensor<64x128xbf16>, tensor<64x128xbf16>,
       tensor<128x64xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @more_quarters(%x: tensor<?x128xbf16>, %g: tensor<384x128xbf16>,
                         %d: tensor<128x384xbf16>) -> tensor<?x128xbf16> {
  // expected-error@+1 {{does not fit its schedule: gemm1_tile_m = 192 requires a block for each tile, but there are 4 tiles for 3 blocks}}
  %y = fuse.gated_mlp %x gate(%g) up(%g) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 3, split_k = 2,
          gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 0, partials = f32, smem_epilogue = true, hint = normal,
          dependent = false>}
    : (tensor<?x128xbf16>, tensor<384x128xbf16>, tensor<384x128xbf16>,
       tensor<128x384xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @no_quarters(%x: tensor<?x128xbf16>, %w: tensor<128xbf16>,
                       %a: tensor<384x128xbf16>) -> tensor<?x384xbf16> {
  // expected-error@+1 {{does not fit its schedule: gemm1_tile_m = 192 requires GEMM1}}
  %y = fuse.norm_linear %x norm(rms %w eps 1.0e-6) linear(%a) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 3, split_k = 1,
          gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 0, partials = f32, smem_epilogue = true, hint = normal,
          dependent = false>}
    : (tensor<?x128xbf16>, tensor<128xbf16>, tensor<384x128xbf16>)
      -> tensor<?x384xbf16>
  return %y : tensor<?x384xbf16>
}

// -----

func.func @wide_tile(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                     %d: tensor<128x256xbf16>) -> tensor<?x128xbf16> {
  // expected-error@+1 {{does not fit its schedule: a tile of the hidden layer needs 2 token stages, but there are 1}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 2, split_k = 1,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 0, partials = f32, smem_epilogue = true, deferred_epilogue = true,
          hint = normal, dependent = false>}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<128x256xbf16>)
      -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @more_tiles(%x: tensor<?x128xbf16>, %g: tensor<512x128xbf16>,
                      %d: tensor<128x512xbf16>) -> tensor<?x128xbf16> {
  // expected-error@+1 {{does not fit its schedule: deferred_epilogue requires a block for each two tiles, but there are 8 tiles for 2 blocks}}
  %y = fuse.gated_mlp %x gate(%g) up(%g) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 2, split_k = 2,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 0, partials = f32, smem_epilogue = true, deferred_epilogue = true,
          hint = normal, dependent = false>}
    : (tensor<?x128xbf16>, tensor<512x128xbf16>, tensor<512x128xbf16>,
       tensor<128x512xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @odd_parts(%x: tensor<?x128xbf16>, %g: tensor<192x128xbf16>,
                     %d: tensor<128x192xbf16>) -> tensor<?x128xbf16> {
  // expected-error@+1 {{does not fit its schedule: 2 K-slices of 2 k-steps in two parts do not cover the 192 hidden units exactly}}
  %y = fuse.gated_mlp %x gate(%g) up(%g) down(%d) act(silu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 8, blocks = 4, split_k = 2,
          gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 4, token_stages = 4,
          max_in_flight = 0, partials = f32, smem_epilogue = true, deferred_epilogue = true,
          hint = normal, dependent = false>}
    : (tensor<?x128xbf16>, tensor<192x128xbf16>, tensor<192x128xbf16>,
       tensor<128x192xbf16>) -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// -----

func.func @too_many_units(%x: tensor<256x64xbf16>, %u: tensor<256x64xbf16>,
                          %d: tensor<64x256xbf16>) -> tensor<256x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: split-K requires a block for each unit of GEMM2, but there are 4 units for 2 blocks}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 2,
          split_k = 2, stages = 2, group = 1, dependent = false>}
    : (tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<256x64xbf16>
  return %y : tensor<256x64xbf16>
}

// -----

func.func @one_product(%x: tensor<256x64xbf16>, %q: tensor<64x64xbf16>)
    -> tensor<256x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: launches = 1 requires GEMM1}}
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 2,
          split_k = 1, stages = 2, group = 1, launches = 1, dependent = false>}
    : (tensor<256x64xbf16>, tensor<64x64xbf16>) -> tensor<256x64xbf16>
  return %y : tensor<256x64xbf16>
}

// -----

func.func @no_team(%x: tensor<512x64xbf16>, %u: tensor<512x64xbf16>,
                   %d: tensor<64x512xbf16>) -> tensor<512x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: stream-K requires a block for each token tile, but there are 4 token tiles for 2 blocks}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 2,
          split_k = 1, stages = 2, group = 2, launches = 1, stream_k = true,
          dependent = false>}
    : (tensor<512x64xbf16>, tensor<512x64xbf16>, tensor<64x512xbf16>)
      -> tensor<512x64xbf16>
  return %y : tensor<512x64xbf16>
}

// -----

func.func @few_steps(%x: tensor<256x64xbf16>, %u: tensor<256x64xbf16>,
                     %d: tensor<64x256xbf16>) -> tensor<256x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: stream-K requires at least 8 k-steps of GEMM2, not 4}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 8,
          split_k = 1, stages = 2, group = 2, launches = 1, stream_k = true,
          dependent = false>}
    : (tensor<256x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<256x64xbf16>
  return %y : tensor<256x64xbf16>
}

// -----

func.func @more_tokens(%x: tensor<257x64xbf16>, %u: tensor<256x64xbf16>,
                       %d: tensor<64x256xbf16>) -> tensor<257x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: the schedule is for 256 tokens, the op has 257}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 256, blocks = 2,
          split_k = 1, stages = 2, group = 1, dependent = false>}
    : (tensor<257x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<257x64xbf16>
  return %y : tensor<257x64xbf16>
}

// -----

func.func @indices(%x: tensor<?x16384xbf16>, %u: tensor<262144x16384xbf16>,
                   %d: tensor<16384x262144xbf16>) -> tensor<?x16384xbf16> {
  // expected-error@+1 {{does not fit its schedule: 16384 tokens of 262144 elements exceed 32-bit indices}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.prefill_schedule<tokens = 16384, blocks = 132,
          split_k = 1, stages = 4, group = 16, dependent = false>}
    : (tensor<?x16384xbf16>, tensor<262144x16384xbf16>,
       tensor<16384x262144xbf16>) -> tensor<?x16384xbf16>
  return %y : tensor<?x16384xbf16>
}

// -----

func.func @known_number(%x: tensor<3x64xbf16>, %u: tensor<256x64xbf16>,
                        %d: tensor<64x256xbf16>) -> tensor<3x64xbf16> {
  // expected-error@+1 {{has 3 tokens, and schedules for ranges of their number}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.dispatch<8 : #tile.prefill_schedule<tokens = 8,
            blocks = 1, split_k = 1, stages = 4, group = 1, dependent = true>>}
    : (tensor<3x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<3x64xbf16>
  return %y : tensor<3x64xbf16>
}

// -----

// The schedule of each range has to fit.

func.func @one_does_not_fit(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                            %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{does not fit its schedule: split-K requires a block for each unit of GEMM2, but there are 4 units for 2 blocks}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.dispatch<
            128 : #tile.prefill_schedule<tokens = 128, blocks = 2, split_k = 2,
                    stages = 4, group = 1, dependent = true>,
            256 : #tile.prefill_schedule<tokens = 256, blocks = 2, split_k = 2,
                    stages = 4, group = 1, dependent = true>>}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
