// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse | FileCheck %s

// Weights are packed in tiles of 256 rows, so that an output of 128 has half a
// tile of padding behind it. Tiles of 128 rows go through that half as well,
// and must not store anything.

// CHECK-LABEL: tile.kernel @norm_linear_prefill_1(
// CHECK-SAME:    %[[K:[a-z0-9]+]]: !tile.buffer<bf16>, %[[Q:[a-z0-9]+]]: !tile.buffer<bf16>, %{{[a-z0-9]+}}: i32)
// CHECK:         %[[INSIDE:.*]] = arith.cmpi ult, %{{.*}}, %c128_i32
// CHECK-NEXT:    scf.if %[[INSIDE]] {
// CHECK-NOT:     scf.if
// CHECK:         tile.store %{{.*}}, %[[K]][
// CHECK:         arith.cmpi ult, %{{.*}}, %c128_i32
// The other output fills its tiles.
// CHECK:         tile.store %{{.*}}, %[[Q]][
// CHECK-NOT:     arith.cmpi ult, %{{.*}}, %c256_i32
func.func @padding(%x: tensor<?x128xbf16>, %k: tensor<128x128xbf16>,
                   %q: tensor<256x128xbf16>)
    -> (tensor<?x128xbf16>, tensor<?x256xbf16>) {
  %y:2 = fuse.norm_linear %x norm(rms eps 1.0e-6) linear(%k, %q)
           rounding(exact)
           {tile.schedule = #tile.prefill_schedule<tokens = 512, blocks = 8,
            split_k = 1, gemm2_tile_m = 128, stages = 2, group = 4, dependent = false>}
    : (tensor<?x128xbf16>, tensor<128x128xbf16>, tensor<256x128xbf16>)
      -> (tensor<?x128xbf16>, tensor<?x256xbf16>)
  return %y#0, %y#1 : tensor<?x128xbf16>, tensor<?x256xbf16>
}
