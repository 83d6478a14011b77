// One artifact for every number of tokens: kernels for several ranges, which all
// read one packed copy of each weight. Words that kernels meet on lie in one
// buffer, whose size is the same for all; matrices with a row for each token are
// as large as the tokens are many. Each kernel is a module, so that hosts with
// few tokens need not load those for many. Before products that overlap with it,
// a norm of few threads prefers what these do to the cache.

// RUN: fuse-compile %s --cpu=none --chip=sm_90a --assemble=never -o %t.fuse
// RUN: fuse-artifact info %t.fuse | FileCheck %s
// RUN: fuse-artifact info --json %t.fuse | FileCheck %s --check-prefix=JSON
// RUN: env FUSE_NUM_THREADS=none not fuse-compile %s --cpu=none \
// RUN:   --chip=sm_90a -o %t.fuse 2>&1 | FileCheck %s --check-prefix=THREADS

// THREADS: FUSE_NUM_THREADS is 'none', expected 1 to 1024

// CHECK-LABEL: @mlp
// CHECK:       tokens      at most 16384
// CHECK-COUNT-10: CUDA
// CHECK:       tokens      1 to 8
// CHECK-NEXT:  workspace   [[ZEROED:[0-9]+]] bytes
// CHECK-NEXT:  workspace   {{[0-9]+}} bytes
// CHECK-NEXT:  launch      mlp_decode_0 {{.*}} module 0
// CHECK-NEXT:  tokens      9 to 16
// CHECK-NEXT:  workspace   [[ZEROED]] bytes
// CHECK:       tokens      17 to 32
// CHECK:       tokens      33 to 64
// CHECK:       tokens      65 to 128
// CHECK:       tokens      129 to 1792
// CHECK-NEXT:  workspace   [[ZEROED]] bytes
// CHECK:       launch      mlp_prefill_{{.*}} carveout 100 dependent
// CHECK-NEXT:  launch      mlp_prefill_{{.*}} cooperative dependent
// CHECK-NEXT:  tokens      1793 to 16384
// CHECK-NEXT:  workspace   [[ZEROED]] bytes
// CHECK-NEXT:  workspace   0 bytes
// CHECK-NEXT:  workspace   ["mul",["ceildiv","s0",128],16384] bytes
// CHECK-NEXT:  workspace   ["mul",["ceildiv","s0",128],65536] bytes
// CHECK-NEXT:  launch      mlp_prefill_{{.*}} module 7
// CHECK-NEXT:  launch      mlp_prefill_{{.*}} module 8
// CHECK-NEXT:  launch      mlp_prefill_{{.*}} module 9
// CHECK-NEXT:  packed      rows_256 of arguments [1],
// CHECK-NEXT:  packed      rows_256 of arguments [2],
// CHECK-NOT:   packed

// JSON:     "alternatives"
// JSON:     "upto": 8
// JSON:     "max_tokens": 16384

func.func @mlp(%x: tensor<?x64xbf16>, %up: tensor<256x64xbf16>,
    %down: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %0 = fuse.mlp %x up(%up) down(%down) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %0 : tensor<?x64xbf16>
}
