// The checks of hopper-ptxas.mlir and hopper-prefill-ptxas.mlir can fail: here
// they find notes of ptxas and spilled registers in wrong code.

// REQUIRES: ptxas
// RUN: fuse-opt %s --fuse-hopper-pipeline --fuse-emit-ptx=output=%t.ptx \
// RUN:   -o /dev/null
// RUN: ptxas -arch=sm_90a -v %t.ptx -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --implicit-check-not=C75

// CHECK: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads

// Without fences, wgmma gets a note such as C7510.

// RUN: sed 's/wgmma.fence.sync.aligned;//' %t.ptx > %t.unfenced.ptx
// RUN: ptxas -arch=sm_90a -v %t.unfenced.ptx -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNFENCED
// RUN: ptxas -arch=sm_90a -v %t.unfenced.ptx -o /dev/null 2>&1 \
// RUN:   | not FileCheck %s --implicit-check-not=C75
// UNFENCED: (C75{{[0-9]+}})

// 512 threads have 128 registers each, and spill if a whole tile is multiplied by
// 128 tokens.

// RUN: sed -e 's/.reqntid 384, 1, 1/.reqntid 512, 1, 1/' -e '/setmaxnreg/d' \
// RUN:   %t.ptx > %t.narrow.ptx
// RUN: ptxas -arch=sm_90a -v %t.narrow.ptx -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NARROW
// RUN: ptxas -arch=sm_90a -v %t.narrow.ptx -o /dev/null 2>&1 \
// RUN:   | not FileCheck %s --implicit-check-not=C75
// NARROW: {{[1-9][0-9]*}} bytes spill stores

func.func @f(%x: tensor<128x64xbf16>, %u: tensor<256x64xbf16>,
             %d: tensor<64x256xbf16>) -> tensor<128x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 128, blocks = 128, split_k = 1,
         gemm2_tile_m = 128, weight_stages = 4, token_stages = 6, max_in_flight = 2,
         l2_prefetch_stages = 8, partials = f32, tagged_partials = true, hint = evict_first, dependent =
         true>}
    : (tensor<128x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<128x64xbf16>
  return %y : tensor<128x64xbf16>
}
