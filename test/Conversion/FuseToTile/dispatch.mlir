// RUN: fuse-opt %s --convert-fuse-to-tile --canonicalize --cse | FileCheck %s
// RUN: fuse-opt %s --fuse-hopper-pipeline \
// RUN:   | fuse-translate --mlir-to-launch-plan \
// RUN:   | FileCheck %s --check-prefix=PLAN

// Each range of tokens has launches of its own, on the same operands: weights
// are packed alike. Kernels that do the same are one.

// CHECK-LABEL: func @ranges
// CHECK:       %[[Y:.*]] = tile.dispatch %{{.*}} outs(%{{.*}}) : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16> {
// CHECK-NEXT:    upto 8 {
// CHECK-NEXT:    ^bb0(%[[OUT:.*]]: tensor<?x64xbf16>):
// CHECK-NEXT:      %[[A:.*]] = tile.launch @fuse_kernels::@mlp_decode_0
// CHECK-SAME:        #tile.packed<"rows_256" of [{{.*}}], tiles = 1, steps = 1
// CHECK-NEXT:      tile.yield %[[A]] : tensor<?x64xbf16>
// CHECK-NEXT:    }
// CHECK-NEXT:    upto 256 {
// CHECK-NEXT:    ^bb0(%[[OUT:.*]]: tensor<?x64xbf16>):
// CHECK-NEXT:      %[[N:.*]] = tile.launch @fuse_kernels::@mlp_prefill_0 {{.*}} outs(%[[OUT]] :
// CHECK-NEXT:      %[[U:.*]] = tile.launch @fuse_kernels::@mlp_prefill_1 {{.*}} outs(%[[N]] :
// CHECK-SAME:        #tile.packed<"rows_256" of [{{.*}}], tiles = 1, steps = 1
// CHECK-NEXT:      %[[B:.*]] = tile.launch @fuse_kernels::@mlp_prefill_2
// CHECK-NEXT:      tile.yield %[[B]] : tensor<?x64xbf16>
// CHECK-NEXT:    }
// CHECK-NEXT:    upto 512 {
// CHECK-NEXT:    ^bb0(%[[OUT:.*]]: tensor<?x64xbf16>):
// CHECK-NEXT:      %[[N:.*]] = tile.launch @fuse_kernels::@mlp_prefill_0 {{.*}} outs(%[[OUT]] :
// CHECK-NEXT:      %[[U:.*]] = tile.launch @fuse_kernels::@mlp_prefill_1 {{.*}} outs(%[[N]] :
// CHECK-SAME:      max_tokens = 512,
// CHECK-NEXT:      %[[C:.*]] = tile.launch @fuse_kernels::@mlp_prefill_{{[3-9]}}
// CHECK-NEXT:      tile.yield %[[C]] : tensor<?x64xbf16>
// CHECK:         }
// CHECK-NEXT:  }
// CHECK-NEXT:  return %[[Y]]

// PLAN:     "kernel":"mlp_decode_0"
// PLAN-SAME: "upto":8
// PLAN-SAME: "kernel":"mlp_prefill_0"
// PLAN-SAME: "upto":256
func.func @ranges(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                  %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
         {tile.schedule = #tile.dispatch<
            8 : #tile.schedule<tokens = 8, blocks = 2, split_k = 1,
                  weight_stages = 2, token_stages = 2, max_in_flight = 0,
                  partials = f32, hint = normal, dependent = false>,
            256 : #tile.prefill_schedule<tokens = 256, blocks = 8, split_k = 2,
                    stages = 4, group = 2, dependent = true>,
            512 : #tile.prefill_schedule<tokens = 512, blocks = 8, split_k = 1,
                    stages = 4, group = 4, dependent = true>>}
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
