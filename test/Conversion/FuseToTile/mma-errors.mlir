// RUN: fuse-opt %s --convert-fuse-to-tile --split-input-file \
// RUN:   -verify-diagnostics

func.func @tokens(%x: tensor<9x64xbf16>, %q: tensor<32x64xbf16>)
    -> tensor<9x32xbf16> {
  // expected-error@+1 {{does not fit its schedule: it is for 8 tokens, not 9}}
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
         {tile.schedule = #tile.mma_schedule<tokens = 8, token_tile = 8,
          blocks = 4, split_k = 1, stages = 2, launches = 1>}
       : (tensor<9x64xbf16>, tensor<32x64xbf16>) -> tensor<9x32xbf16>
  return %y : tensor<9x32xbf16>
}

// -----

func.func @units(%x: tensor<?x128xbf16>, %q: tensor<256x128xbf16>)
    -> tensor<?x256xbf16> {
  // expected-error@+1 {{does not fit its schedule: blocks wait for each other, but 1 blocks are less than the 2 units of GEMM2}}
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
         {tile.schedule = #tile.mma_schedule<tokens = 8, token_tile = 8,
          blocks = 1, split_k = 2, stages = 2, launches = 3>}
       : (tensor<?x128xbf16>, tensor<256x128xbf16>) -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// -----

func.func @stored(%x: tensor<?x64xbf16>, %q: tensor<32x64xf8E4M3FN>)
    -> tensor<?x32xbf16> {
  // expected-error@+1 {{has a schedule, but activations are quantized to f8E5M2, not f8E4M3FN}}
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q)
         scales(f8E5M2, input = 0.5, weight0 = 0.5) rounding(exact)
         {tile.schedule = #tile.mma_schedule<tokens = 8, token_tile = 8,
          blocks = 4, split_k = 1, stages = 2, launches = 1>}
       : (tensor<?x64xbf16>, tensor<32x64xf8E4M3FN>) -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// -----

func.func @elements(%x: tensor<?x64xbf16>, %q: tensor<151936x64xbf16>)
    -> tensor<?x151936xbf16> {
  // expected-error@+1 {{does not fit its schedule: 16384 tokens make more elements than 32 bits count}}
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
         {tile.schedule = #tile.mma_schedule<tokens = 16384, token_tile = 128,
          blocks = 132, split_k = 1, stages = 2, launches = 3>}
       : (tensor<?x64xbf16>, tensor<151936x64xbf16>) -> tensor<?x151936xbf16>
  return %y : tensor<?x151936xbf16>
}

// -----

func.func @sums(%x: tensor<?x4096xbf16>, %q: tensor<4096x4096xbf16>)
    -> tensor<?x4096xbf16> {
  // expected-error@+1 {{does not fit its schedule: 65536 units make more partial sums than 32 bits count}}
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
         {tile.schedule = #tile.mma_schedule<tokens = 16384, token_tile = 128,
          blocks = 65535, split_k = 32, stages = 2, launches = 3>}
       : (tensor<?x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}
