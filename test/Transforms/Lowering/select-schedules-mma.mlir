// RUN: fuse-opt %s --fuse-select-schedules='chip=sm_80 tokens=16' \
// RUN:   --remarks-filter=codegen 2>&1 | FileCheck %s
// RUN: fuse-opt %s --fuse-select-schedules='chip=sm_80 dispatch=true tokens=4096' \
// RUN:   | FileCheck %s --check-prefix=RANGES
// RUN: fuse-opt %s --fuse-select-schedules='chip=sm_120 tokens=16' \
// RUN:   | FileCheck %s --check-prefix=SMALL
// RUN: not fuse-opt %s --fuse-select-schedules=chip=sm_1 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CHIP

// CHIP: fuse-select-schedules: unknown chip 'sm_1', expected one of sm_80,

// Chips without kernels of their own have mma kernels. A block of sm_120 has
// less shared memory.

// CHECK-DAG: remark: {{.*}}sm_80 has no conversions to 8-bit floats
// CHECK-DAG: remark: {{.*}}the input is f32, not bf16
// CHECK-DAG: remark: {{.*}}the schedule in the text is not for sm_80

// CHECK-LABEL: func.func @f16
// CHECK: tile.schedule = #tile.mma_schedule<tokens = 16, token_tile = 16, blocks = 132, split_k = 16, stages = 4, launches = 1>
// RANGES: tile.schedule = #tile.dispatch<8 : #tile.mma_schedule<tokens = 8, token_tile = 8, {{[^>]*}}launches = 1>, 16 : #tile.mma_schedule<{{.*}}, 128 : #tile.mma_schedule<tokens = 128, token_tile = 128, {{[^>]*}}launches = 1>, 256 : #tile.mma_schedule<tokens = 256, token_tile = 128, {{[^>]*}}launches = 3>
// SMALL: tile.schedule = #tile.mma_schedule<{{.*}}gemm1_tile_m = 128, gemm2_tile_m = 128, stages = 5, launches = 1>
func.func @f16(%x: tensor<?x2048xf16>, %g: tensor<16384x2048xf16>,
               %u: tensor<16384x2048xf16>, %d: tensor<2048x16384xf16>)
    -> tensor<?x2048xf16> {
  %y = fuse.gated_mlp %x norm(rms eps 1.0e-6) gate(%g) up(%u) down(%d)
         act(silu) rounding(exact)
       : (tensor<?x2048xf16>, tensor<16384x2048xf16>, tensor<16384x2048xf16>,
          tensor<2048x16384xf16>) -> tensor<?x2048xf16>
  return %y : tensor<?x2048xf16>
}

// Of 384 quarters, three for each block are less than four for some.

// CHECK-LABEL: func.func @quarters
// CHECK: gemm1_tile_m = 192
func.func @quarters(%x: tensor<?x4096xbf16>, %g: tensor<12288x4096xbf16>,
                    %u: tensor<12288x4096xbf16>, %d: tensor<4096x12288xbf16>)
    -> tensor<?x4096xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
       : (tensor<?x4096xbf16>, tensor<12288x4096xbf16>,
          tensor<12288x4096xbf16>, tensor<4096x12288xbf16>)
         -> tensor<?x4096xbf16>
  return %y : tensor<?x4096xbf16>
}

// More outputs than blocks have at a time need launches that do not wait.

// CHECK-LABEL: func.func @wide
// CHECK: split_k = 1, {{.*}}launches = 3
func.func @wide(%x: tensor<?x2048xbf16>, %w: tensor<151936x2048xbf16>)
    -> tensor<?x151936xbf16> {
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%w) rounding(exact)
       : (tensor<?x2048xbf16>, tensor<151936x2048xbf16>)
         -> tensor<?x151936xbf16>
  return %y : tensor<?x151936xbf16>
}

// Before sm_89, kernels convert stored weights to f16.

// CHECK-LABEL: func.func @stored
// CHECK: tile.schedule = #tile.mma_schedule<tokens = 16,
func.func @stored(%x: tensor<?x64xbf16>, %q: tensor<32x64xf8E4M3FN>)
    -> tensor<?x32xbf16> {
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q)
         scales(f8E4M3FN, input = 0.5, weight0 = 0.5) rounding(exact)
       : (tensor<?x64xbf16>, tensor<32x64xf8E4M3FN>) -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// SMALL-LABEL: func.func @rows
// SMALL: tile.schedule = #tile.row_schedule
// CHECK-LABEL: func.func @rows
// CHECK-NOT: tile.schedule
func.func @rows(%x: tensor<?x48xbf16>) -> tensor<?x48xf8E4M3FN> {
  %y = fuse.norm_quantize %x norm(rms eps 1.0e-6)
         scales(f8E4M3FN, input = 0.5) rounding(exact)
       : (tensor<?x48xbf16>) -> tensor<?x48xf8E4M3FN>
  return %y : tensor<?x48xf8E4M3FN>
}

// CHECK-LABEL: func.func @wider
// CHECK-NOT: tile.schedule
func.func @wider(%x: tensor<?x64xf32>, %q: tensor<32x64xf32>)
    -> tensor<?x32xf32> {
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
       : (tensor<?x64xf32>, tensor<32x64xf32>) -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// A schedule in the text is used if the chip has its instructions.

// CHECK-LABEL: func.func @text
// CHECK: tile.schedule = #tile.mma_schedule<tokens = 8, token_tile = 8, blocks = 4,
// CHECK: tile.schedule = #tile.mma_schedule<tokens = 16,
func.func @text(%x: tensor<?x64xbf16>, %q: tensor<32x64xbf16>)
    -> (tensor<?x32xbf16>, tensor<?x32xbf16>) {
  %y = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
         {tile.schedule = #tile.mma_schedule<tokens = 8, token_tile = 8,
          blocks = 4, split_k = 1, stages = 2, launches = 1>}
       : (tensor<?x64xbf16>, tensor<32x64xbf16>) -> tensor<?x32xbf16>
  %z = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%q) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 128,
          split_k = 1, weight_stages = 6, token_stages = 8, max_in_flight = 2,
          partials = f32, hint = evict_first, dependent = true>}
       : (tensor<?x64xbf16>, tensor<32x64xbf16>) -> tensor<?x32xbf16>
  return %y, %z : tensor<?x32xbf16>, tensor<?x32xbf16>
}
