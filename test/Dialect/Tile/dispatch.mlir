// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func private @schedules
// CHECK-SAME: tile.schedule = #tile.dispatch<8 : #tile.prefill_schedule<tokens = 8, blocks = 1, split_k = 1, stages = 4, group = 1, dependent = true>, 300 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1, stages = 4, group = 1, dependent = true>>
func.func private @schedules() attributes {
  tile.schedule = #tile.dispatch<
    8 : #tile.prefill_schedule<tokens = 8, blocks = 1, split_k = 1, stages = 4,
          group = 1, dependent = true>,
    300 : #tile.prefill_schedule<tokens = 512, blocks = 1, split_k = 1,
            stages = 4, group = 1, dependent = true>>}

gpu.module @kernels {
  tile.kernel @few(%x: !tile.buffer<bf16>)
      blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
  tile.kernel @many(%x: !tile.buffer<bf16>)
      blocks(132) threads(32) shared_bytes(0) {
    tile.return
  }
}

// CHECK-LABEL: func @launches
// CHECK:       %[[Y:.*]]:2 = tile.dispatch %{{.*}} outs(%{{.*}}, %{{.*}}) : (tensor<?x4xbf16>, tensor<?x4xbf16>, tensor<?xf32>) -> (tensor<?x4xbf16>, tensor<?xf32>) {
// CHECK-NEXT:    upto 8 {
// CHECK-NEXT:    ^bb0(%[[P:.*]]: tensor<?x4xbf16>, %[[Q:.*]]: tensor<?xf32>):
// CHECK-NEXT:      %[[A:.*]]:2 = tile.launch @kernels::@few {{.*}} outs(%[[P]], %[[Q]] :
// CHECK-NEXT:      tile.yield %[[A]]#0, %[[A]]#1 : tensor<?x4xbf16>, tensor<?xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    upto 300 {
// CHECK:         }
// CHECK-NEXT:  }
// CHECK-NEXT:  return %[[Y]]#0, %[[Y]]#1
func.func @launches(%x: tensor<?x4xbf16>, %a: tensor<?x4xbf16>, %b: tensor<?xf32>)
    -> (tensor<?x4xbf16>, tensor<?xf32>) {
  %y:2 = tile.dispatch %x outs(%a, %b)
      : (tensor<?x4xbf16>, tensor<?x4xbf16>, tensor<?xf32>)
        -> (tensor<?x4xbf16>, tensor<?xf32>) {
    upto 8 {
    ^bb0(%p: tensor<?x4xbf16>, %q: tensor<?xf32>):
      %0:2 = tile.launch @kernels::@few ins(%x : tensor<?x4xbf16>)
        outs(%p, %q : tensor<?x4xbf16>, tensor<?xf32>)
        -> tensor<?x4xbf16>, tensor<?xf32>
      tile.yield %0#0, %0#1 : tensor<?x4xbf16>, tensor<?xf32>
    }
    upto 300 {
    ^bb0(%p: tensor<?x4xbf16>, %q: tensor<?xf32>):
      %0:2 = tile.launch @kernels::@many ins(%x : tensor<?x4xbf16>)
        outs(%p, %q : tensor<?x4xbf16>, tensor<?xf32>)
        -> tensor<?x4xbf16>, tensor<?xf32>
      tile.yield %0#0, %0#1 : tensor<?x4xbf16>, tensor<?xf32>
    }
  }
  return %y#0, %y#1 : tensor<?x4xbf16>, tensor<?xf32>
}
