// RUN: fuse-opt %s --split-input-file --verify-diagnostics

// expected-error@+2 {{tokens = 12 is not a multiple of 8 from 8 to 256}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 12, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, partials = f32,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{rings of 262144 bytes do not fit into the 230400 bytes of shared memory that they can use}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 128, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, partials = f32,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{tokens = 136 requires gemm1_tile_m = 128, not 256}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 136, blocks = 128, split_k = 16,
    weight_stages = 2, token_stages = 4, max_in_flight = 2, partials = f32,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{deferred_epilogue requires smem_epilogue and gemm1_tile_m = 128, not 256}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 2, token_stages = 4, max_in_flight = 2, partials = f32,
    smem_epilogue = true, deferred_epilogue = true, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{deferred_epilogue is for at most 192 tokens, not 200}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 200, blocks = 128, split_k = 16,
    gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 2, token_stages = 4,
    max_in_flight = 2, partials = f32, smem_epilogue = true, deferred_epilogue = true,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{split_k = 200 is not from 1 to blocks = 128}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 200,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, partials = f32,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{max_in_flight = 7 is not from 0 to weight_stages = 6}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 7, partials = f32,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{partials = 'f16' is not f32 or bf16}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, partials = f16,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{weight_stages = 1, token_stages = 4: a ring has 2 to 64 stages}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 1, token_stages = 4, max_in_flight = 0, partials = f32,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{threads = 48 is not a multiple of 32 from 32 to 1024}}
func.func private @f() attributes {
  tile.schedule = #tile.row_schedule<blocks = 132, threads = 48>}

// -----

// expected-error@+2 {{blocks = 0 is not from 1 to 65535}}
func.func private @f() attributes {
  tile.schedule = #tile.row_schedule<blocks = 0, threads = 32>}

// -----

// expected-error@+2 {{gemm2_tile_m = 64 is not 128 or 256}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    gemm2_tile_m = 64, weight_stages = 6, token_stages = 4, max_in_flight = 2,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{token_stages = 2 is less than the 3 that gemm2_tile_m = 128 requires}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    gemm2_tile_m = 128, weight_stages = 6, token_stages = 2, max_in_flight = 2,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{straggler_in_flight = 2 is not more than max_in_flight = 2, from 1, and at most weight_stages = 6}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, straggler_in_flight = 2,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{straggler_in_flight = 7 is not more than max_in_flight = 2, from 1, and at most weight_stages = 6}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, straggler_in_flight = 7,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{straggler_in_flight = 3 is not more than max_in_flight = 0, from 1, and at most weight_stages = 6}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 0, straggler_in_flight = 3,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{l2_prefetch_stages = 65 is not from 0 to 64}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, l2_prefetch_stages = 65,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{publish_throttle_stages = 65 is not from 0 to 64}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, publish_throttle_stages = 65,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{publish_throttle_stages requires max_in_flight = 2 or more, not 1}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 1, publish_throttle_stages = 2,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{reducers = 17 is not from 0 to split_k = 16}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, reducers = 17,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{publish_throttle_stages requires deferred_epilogue = false}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    gemm1_tile_m = 128, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 2, publish_throttle_stages = 2, partials = f32, smem_epilogue = true,
    deferred_epilogue = true, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{blocks = 0 is not from 1 to 65535}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 0, split_k = 1,
    weight_stages = 2, token_stages = 4, max_in_flight = 0, partials = f32,
    hint = evict_first, dependent = true>}

// -----

func.func private @f() attributes {
  // expected-error@+1 {{tokens = 16385 is not from 1 to 16384}}
  tile.schedule = #tile.prefill_schedule<tokens = 16385, blocks = 132,
    split_k = 4, gemm2_tile_m = 256, stages = 4, group = 16,
    cluster = 1, dependent = true>}

// -----

func.func private @f() attributes {
  // expected-error@+1 {{cluster = 4 is not 1 or 2}}
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132,
    split_k = 4, gemm2_tile_m = 256, stages = 4, group = 16,
    cluster = 4, dependent = true>}

// -----

func.func private @f() attributes {
  // expected-error@+1 {{blocks = 131 is not a multiple of cluster = 2 from 1 to 65535}}
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 131,
    split_k = 4, gemm2_tile_m = 256, stages = 4, group = 16,
    cluster = 2, dependent = true>}

// -----

func.func private @f() attributes {
  // expected-error@+1 {{split_k = 17 is not from 1 to 16}}
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132,
    split_k = 17, gemm2_tile_m = 256, stages = 4, group = 16,
    cluster = 1, dependent = true>}

// -----

func.func private @f() attributes {
  // expected-error@+1 {{gemm2_tile_m = 64 is not 128 or 256}}
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132,
    split_k = 4, gemm2_tile_m = 64, stages = 4, group = 16,
    cluster = 1, dependent = true>}

// -----

func.func private @f() attributes {
  // expected-error@+1 {{stages = 5 is not from 2 to 4}}
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132,
    split_k = 4, gemm2_tile_m = 256, stages = 5, group = 16,
    cluster = 1, dependent = true>}

// -----

func.func private @f() attributes {
  // expected-error@+1 {{group = 0 is less than 1}}
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132,
    split_k = 4, gemm2_tile_m = 256, stages = 4, group = 0,
    cluster = 1, dependent = true>}

// -----

func.func private @f() attributes {
  // expected-error@+1 {{launches = 3 is not 1 or 2}}
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132,
    split_k = 4, stages = 4, group = 16, launches = 3, dependent = true>}

// -----

func.func private @f() attributes {
  // expected-error@+1 {{launches = 1 needs gemm2_tile_m = 256, not 128}}
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 132,
    split_k = 4, gemm2_tile_m = 128, stages = 4, group = 16, cluster = 2, launches = 1,
    dependent = true>}

// -----

// expected-error@+2 {{gemm1_tile_m = 64 is not 128, 192 or 256}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    gemm1_tile_m = 64, weight_stages = 6, token_stages = 4, max_in_flight = 2,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{gemm1_tile_m = 80 is not a multiple of 32 from 32 to 256, as swap_ab requires}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 128, blocks = 128, split_k = 16,
    gemm1_tile_m = 80, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 2, partials = f32, swap_ab = true, hint = evict_first,
    dependent = true>}

// -----

// expected-error@+2 {{swap_ab is for 72 to 128 tokens, 64 for each of two warpgroups, not 64}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 64, blocks = 128, split_k = 16,
    gemm1_tile_m = 96, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 2, partials = f32, swap_ab = true, hint = evict_first,
    dependent = true>}

// -----

// expected-error@+2 {{swap_ab requires neither smem_epilogue nor deferred_epilogue}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 72, blocks = 128, split_k = 16,
    gemm1_tile_m = 96, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 2, partials = f32, smem_epilogue = true, swap_ab = true,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{gemm1_tile_m = 224 requires gemm2_tile_m = 128, not 256}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 72, blocks = 128, split_k = 16,
    gemm1_tile_m = 224, weight_stages = 4, token_stages = 4, max_in_flight = 2,
    partials = f32, swap_ab = true, hint = evict_first, dependent = true>}

// -----

// What 16 KB stages of as many rows would not take.

// expected-error@+2 {{rings of 249856 bytes do not fit into the 230400 bytes of shared memory that they can use}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 128, blocks = 128, split_k = 16,
    gemm1_tile_m = 160, gemm2_tile_m = 128, weight_stages = 9, token_stages = 4,
    max_in_flight = 2, partials = f32, swap_ab = true, hint = evict_first,
    dependent = true>}

// -----

// expected-error@+2 {{publish_in_flight = 3 is not less than max_in_flight = 3, of publish_throttle_stages = 4 stages}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 72, blocks = 128, split_k = 16,
    gemm1_tile_m = 96, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 3, publish_throttle_stages = 4, publish_in_flight = 3, partials = f32, swap_ab = true,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{publish_in_flight = 1 is not less than max_in_flight = 3, of publish_throttle_stages = 0 stages}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 72, blocks = 128, split_k = 16,
    gemm1_tile_m = 96, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 3, publish_in_flight = 1, partials = f32, swap_ab = true,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{tagged_partials requires partials = f32, not 'bf16'}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    weight_stages = 6, token_stages = 4, max_in_flight = 2, partials = bf16,
    tagged_partials = true, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{gemm1_tile_m = 192 requires gemm2_tile_m = 128, not 256}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 16, blocks = 128, split_k = 16,
    gemm1_tile_m = 192, weight_stages = 6, token_stages = 4, max_in_flight = 2,
    partials = f32, smem_epilogue = true, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{gemm1_tile_m = 192 requires smem_epilogue and a multiple of 16 tokens, not 16}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 16, blocks = 128, split_k = 16,
    gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 2, partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{gemm1_tile_m = 192 requires smem_epilogue and a multiple of 16 tokens, not 24}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 24, blocks = 128, split_k = 16,
    gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 2, partials = f32, smem_epilogue = true, hint = evict_first,
    dependent = true>}

// -----

// expected-error@+2 {{weight_stages = 3 is less than the 4 that gemm1_tile_m = 192 requires}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 16, blocks = 128, split_k = 16,
    gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 3, token_stages = 4,
    max_in_flight = 2, partials = f32, smem_epilogue = true, hint = evict_first,
    dependent = true>}

// -----

// expected-error@+2 {{tokens = 144 requires gemm1_tile_m = 128, not 192}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 144, blocks = 128, split_k = 16,
    gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 2, partials = f32, smem_epilogue = true, hint = evict_first,
    dependent = true>}

// -----

// expected-error@+2 {{deferred_epilogue requires smem_epilogue and gemm1_tile_m = 128, not 192}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 16, blocks = 128, split_k = 16,
    gemm1_tile_m = 192, gemm2_tile_m = 128, weight_stages = 6, token_stages = 4,
    max_in_flight = 2, partials = f32, smem_epilogue = true, deferred_epilogue = true,
    hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{gemm1_tile_m = 128 requires gemm2_tile_m = 128, not 256}}
func.func private @f() attributes {
  tile.schedule = #tile.schedule<tokens = 8, blocks = 128, split_k = 16,
    gemm1_tile_m = 128, weight_stages = 6, token_stages = 4, max_in_flight = 2,
    partials = f32, hint = evict_first, dependent = true>}

// -----

// expected-error@+2 {{there is no range of tokens}}
func.func private @dispatch() attributes {
  tile.schedule = #tile.dispatch<>}

// -----

// expected-error@+2 {{the range up to 64 tokens is empty: the one before ends at 64}}
func.func private @dispatch() attributes {
  tile.schedule = #tile.dispatch<64 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, dependent = true>,
    64 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, dependent = true>>}

// -----

// expected-error@+2 {{stream_k = true needs launches = 1, not 2}}
func.func private @even() attributes {
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, stream_k = true, dependent = true>}

// -----

// expected-error@+2 {{uneven_split_k = true needs launches = 1, split_k > 1, cluster = 1 and stream_k = false, not 1, 1, 1 and false}}
func.func private @unequal() attributes {
  tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, launches = 1, uneven_split_k = true, dependent = true>}

// -----

// expected-error@+2 {{the range up to 8 tokens is empty: the one before ends at 64}}
func.func private @dispatch() attributes {
  tile.schedule = #tile.dispatch<64 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, dependent = true>,
    8 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, dependent = true>>}

// -----

// expected-error@+2 {{the range up to 0 tokens is empty: the one before ends at 0}}
func.func private @dispatch() attributes {
  tile.schedule = #tile.dispatch<0 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, dependent = true>>}

// -----

// expected-error@+2 {{ranges end at 16385 tokens, not at most at 16384}}
func.func private @dispatch() attributes {
  tile.schedule = #tile.dispatch<16385 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, dependent = true>>}

// -----

// expected-error@+2 {{the range up to 600 tokens has a schedule for 512}}
func.func private @dispatch() attributes {
  tile.schedule = #tile.dispatch<512 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, dependent = true>,
    600 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
          stages = 4, group = 1, dependent = true>>}

// -----

// expected-error@+2 {{3 : i64 of the range up to 8 tokens is not #tile.schedule, #tile.prefill_schedule or #tile.mma_schedule}}
func.func private @dispatch() attributes {
  tile.schedule = #tile.dispatch<8 : 3 : i64>}

// -----

func.func @f(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
             %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  // expected-error@+1 {{has the unknown attribute 'tile.schedul': expected tile.schedule or tile.rolled}}
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact) {tile.schedul = 1}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// expected-error@+1 {{#tile.schedule has no field 'weight_stage'; expected one of tokens, blocks, split_k, gemm1_tile_m, gemm2_tile_m, weight_stages, token_stages, max_in_flight, straggler_in_flight, l2_prefetch_stages, publish_throttle_stages, publish_in_flight, reducers, partials, tagged_partials, smem_epilogue, deferred_epilogue, swap_ab, hint, dependent}}
func.func private @f() attributes {tile.schedule = #tile.schedule<weight_stage = 6>}

// -----

// expected-error@+1 {{#tile.schedule lacks its field 'blocks'}}
func.func private @f() attributes {tile.schedule = #tile.schedule<tokens = 8>}

// -----

// expected-error@+1 {{field 'gemm2_tile_m' of #tile.schedule is given twice}}
func.func private @f() attributes {tile.schedule = #tile.schedule<gemm2_tile_m = 128, gemm2_tile_m = 256>}

// -----

// expected-error@+1 {{field 'tagged_partials' of #tile.schedule is neither true nor false}}
func.func private @f() attributes {tile.schedule = #tile.schedule<tagged_partials = 1>}

// -----

// expected-error@+1 {{unknown hint 'evict'; expected one of normal, evict_first, evict_last}}
func.func private @f() attributes {tile.schedule = #tile.schedule<hint = evict>}

// -----

// expected-error@+1 {{#tile.prefill_schedule has no field 'max_in_flight'; expected one of tokens, blocks, split_k, gemm2_tile_m, stages, group, cluster, launches, stream_k, uneven_split_k, dependent}}
func.func private @f() attributes {tile.schedule = #tile.prefill_schedule<max_in_flight = 2>}

// -----

// expected-error@+1 {{#tile.row_schedule has no field 'gemm2_tile_m'; expected one of blocks, threads}}
func.func private @f() attributes {tile.schedule = #tile.row_schedule<gemm2_tile_m = 2>}

// -----

// expected-error@+2 {{tokens = 0 is not from 1 to 16384}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 0, token_tile = 16, blocks = 128, split_k = 16,
    stages = 4, launches = 1>}

// -----

// expected-error@+2 {{token_tile = 12 is not a multiple of 8 from 8 to 128}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 16, token_tile = 12, blocks = 128, split_k = 16,
    stages = 4, launches = 1>}

// -----

// expected-error@+2 {{blocks = 0 is not from 1 to 65535}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 0, split_k = 16,
    stages = 4, launches = 1>}

// -----

// expected-error@+2 {{split_k = 65 is not from 1 to 64}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 128, split_k = 65,
    stages = 4, launches = 1>}

// -----

// expected-error@+2 {{gemm1_tile_m = 96 is not 64, 128, 192 or 256}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 128, split_k = 16,
    stages = 4, launches = 1, gemm1_tile_m = 96>}

// -----

// expected-error@+2 {{gemm2_tile_m = 320 is not 64, 128, 192 or 256}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 128, split_k = 16,
    stages = 4, launches = 1, gemm2_tile_m = 320>}

// -----

// expected-error@+2 {{group = 0 is not from 1 to 16384}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 512, token_tile = 128, blocks = 128, split_k = 1,
    stages = 4, group = 0, launches = 3>}

// -----

// expected-error@+2 {{launches = 2 is not 1 or 3}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 128, split_k = 16,
    stages = 4, launches = 2>}

// -----

// expected-error@+2 {{launches = 1 requires at most token_tile = 16 tokens, not 17}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 17, token_tile = 16, blocks = 128, split_k = 16,
    stages = 4, launches = 1>}

// -----

// expected-error@+2 {{stages = 7 is not from 2 to 6}}
func.func private @f() attributes {tile.schedule =
  #tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 128, split_k = 16,
    stages = 7, launches = 1>}

// -----

// expected-error@+1 {{#tile.mma_schedule has no field 'tile'; expected one of tokens, token_tile, blocks, split_k, gemm1_tile_m, gemm2_tile_m, stages, group, launches}}
func.func private @f() attributes {tile.schedule = #tile.mma_schedule<tile = 1>}
