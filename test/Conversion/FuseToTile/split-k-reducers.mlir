// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse \
// RUN:   | FileCheck %s

// Two of four ranges add up, every other one, beginning with another one in each
// of the two tiles. Everybody says when its sums are stored; who does not add
// up has nothing to wait for then.

// CHECK-LABEL: func @told
// CHECK:         tile.launch @fuse_kernels::@mlp_decode_0 ins(
func.func @told(%x: tensor<?x64xbf16>, %u: tensor<1024x64xbf16>,
                %d: tensor<512x1024xbf16>) -> tensor<?x512xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 40, blocks = 8, split_k = 4,
          weight_stages = 4, token_stages = 4, max_in_flight = 2, reducers = 2,
          partials = f32, tagged_partials = true, hint = evict_first,
          dependent = true>}
    : (tensor<?x64xbf16>, tensor<1024x64xbf16>, tensor<512x1024xbf16>)
      -> tensor<?x512xbf16>
  return %y : tensor<?x512xbf16>
}

// With few tokens there are no arrivals. A reducer polls the partial sums of
// all its columns: of four, two in each of two rounds.

// CHECK-LABEL: func @few
// CHECK:         tile.launch @fuse_kernels::@mlp_decode_1 ins(
func.func @few(%x: tensor<?x64xbf16>, %u: tensor<1024x64xbf16>,
               %d: tensor<512x1024xbf16>) -> tensor<?x512xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.schedule<tokens = 16, blocks = 8, split_k = 4,
          weight_stages = 4, token_stages = 4, max_in_flight = 2, reducers = 2,
          partials = f32, tagged_partials = true, hint = evict_first,
          dependent = true>}
    : (tensor<?x64xbf16>, tensor<1024x64xbf16>, tensor<512x1024xbf16>)
      -> tensor<?x512xbf16>
  return %y : tensor<?x512xbf16>
}

// CHECK-LABEL: tile.kernel @mlp_decode_0(
// CHECK:         %[[ID:.*]] = tile.id block
// CHECK:         %[[TILE:.*]] = arith.remui %[[ID]], %c2_i32
// CHECK:         %[[RANGE:.*]] = arith.divui %[[ID]], %c2_i32
// CHECK:         %[[SUM:.*]] = arith.addi %[[RANGE]], %[[TILE]]
// CHECK:         %[[PLACE:.*]] = arith.remui %[[SUM]], %c4_i32
// CHECK:         %[[TURN:.*]] = arith.muli %[[PLACE]], %c2_i32
// CHECK:         %[[REST:.*]] = arith.remui %[[TURN]], %c4_i32
// CHECK:         %[[ADDS:.*]] = arith.cmpi ult, %[[REST]], %c2_i32
// CHECK:         %[[ADDER:.*]] = arith.divui %[[TURN]], %c4_i32
// CHECK:         role "stream"
// CHECK-NOT:       tile.prefetch
// CHECK:         role "multiply"
// CHECK:           tile.store polled
// CHECK:           tile.semaphore.arrive %[[MET:.*]] {relaxed}
// CHECK-NEXT:      scf.if %[[ADDS]] {
// CHECK:             tile.semaphore.wait %[[MET]] epoch(%{{.*}}) arrivals(%c4_i32) {relaxed}
// CHECK:           scf.if %[[ADDS]] {
// CHECK:             tile.collect

// CHECK-LABEL: tile.kernel @mlp_decode_1(
// CHECK:         %[[ADDS:.*]] = arith.cmpi ult, %{{.*}}, %c2_i32
// CHECK:         role "stream"
// CHECK:           scf.if %[[ADDS]] {
// CHECK-COUNT-2:     tile.prefetch
// CHECK:         role "multiply"
// CHECK:           tile.store polled
// CHECK-NOT:       tile.semaphore
// CHECK:           scf.if %[[ADDS]] {
// CHECK:             tile.collect
