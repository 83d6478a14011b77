// What the model would choose with another height of the first product's tiles,
// or with tokens on the left, comes right behind its choice.

// RUN: fuse-tune candidates %s -o %t.few --tokens=50 --candidates=3 \
// RUN:   --no-assemble && FileCheck %s < %t.few
// RUN: fuse-tune candidates %s -o %t.many --tokens=128 --candidates=4 \
// RUN:   --no-assemble && FileCheck %s --check-prefix=MANY < %t.many

// Warpgroups share pairs of eight tokens of three quarters.

// CHECK:     #tile.schedule<tokens = 64, {{[^>]*}} gemm1_tile_m = 192,
// CHECK:     #tile.schedule<tokens = 56, blocks = {{[0-9]+}}, split_k = {{[0-9]+}}, {{(gemm2_tile_m = 128, )?}}weight_stages
// CHECK:     #tile.schedule<tokens = 56, {{[^>]*}} gemm1_tile_m = 128,

// MANY-DAG:  #tile.schedule<tokens = 128, {{[^>]*}} swap_ab = true,
// MANY-DAG:  #tile.schedule<tokens = 128, {{[^>]*}} gemm1_tile_m = 192,
// MANY-DAG:  #tile.schedule<tokens = 128, {{[^>]*}} gemm1_tile_m = 128,

func.func @half(%x: tensor<?x256xbf16>, %g: tensor<9216x256xbf16>,
                %u: tensor<9216x256xbf16>, %d: tensor<256x9216xbf16>)
    -> tensor<?x256xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<?x256xbf16>, tensor<9216x256xbf16>, tensor<9216x256xbf16>,
       tensor<256x9216xbf16>) -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}
