// Blocks count how far they are where all have as many tiles of the first
// product: cuts with other shares are tried without.

// RUN: fuse-tune candidates %s -o %t --pipeline= --multiprocessors=20 \
// RUN:   --candidates=36 --no-assemble && FileCheck %s < %t

// CHECK-DAG: blocks = 20, {{.*}}max_in_flight = 2, straggler_in_flight = 3, l2_prefetch_stages
// CHECK-DAG: blocks = 16, {{.*}}max_in_flight = 2, l2_prefetch_stages

func.func @even(%x: tensor<8x2048xbf16>, %g: tensor<2560x2048xbf16>,
                %u: tensor<2560x2048xbf16>, %d: tensor<2048x2560xbf16>)
    -> tensor<8x2048xbf16> {
  %y = fuse.gated_mlp %x gate(%g) up(%u) down(%d) act(silu) rounding(exact)
    : (tensor<8x2048xbf16>, tensor<2560x2048xbf16>, tensor<2560x2048xbf16>,
       tensor<2048x2560xbf16>) -> tensor<8x2048xbf16>
  return %y : tensor<8x2048xbf16>
}
