// RUN: fuse-opt %s --fuse-localize-shards --fuse-join-ranks | FileCheck %s
// RUN: fuse-opt %s --fuse-localize-shards --fuse-join-ranks='all' \
// RUN:   | FileCheck %s --check-prefix=ALL

#rows = #fuse.shard<dim = 0, axis = "tp", count = 2>
#columns = #fuse.shard<dim = 1, axis = "tp", count = 2>

// Each rank takes its parts, and each adds the partial results of all ranks in
// their order. The last addition rounds.

// CHECK-LABEL: func.func @mlp(
// CHECK-SAME: %[[X:.*]]: tensor<?x8xbf16>, %[[U:.*]]: tensor<32x8xbf16>, %[[D:.*]]: tensor<8x32xbf16>) -> tensor<?x8xbf16> {
// CHECK-DAG: %[[U0:.*]] = tensor.extract_slice %[[U]][0, 0] [16, 8] [1, 1]
// CHECK-DAG: %[[U1:.*]] = tensor.extract_slice %[[U]][16, 0] [16, 8] [1, 1]
// CHECK-DAG: %[[D0:.*]] = tensor.extract_slice %[[D]][0, 0] [8, 16] [1, 1]
// CHECK-DAG: %[[D1:.*]] = tensor.extract_slice %[[D]][0, 16] [8, 16] [1, 1]
// CHECK: %[[P0:.*]] = fuse.mlp %[[X]] up(%[[U0]]) down(%[[D0]]) {{.*}} -> tensor<?x8xf32>
// CHECK: %[[P1:.*]] = fuse.mlp %[[X]] up(%[[U1]]) down(%[[D1]]) {{.*}} -> tensor<?x8xf32>
// CHECK: %[[S0:.*]] = fuse.residual_add %[[P0]], %[[P1]] : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xbf16>
// CHECK: %[[S1:.*]] = fuse.residual_add %[[P0]], %[[P1]]
// CHECK: %[[Y0:.*]] = fuse.residual_add %[[X]], %[[S0]]
// CHECK: %[[Y1:.*]] = fuse.residual_add %[[X]], %[[S1]]
// CHECK: return %[[Y0]] : tensor<?x8xbf16>

// ALL-LABEL: func.func @mlp(
// ALL-SAME: -> (tensor<?x8xbf16>, tensor<?x8xbf16>)
// ALL: return %{{.*}}, %{{.*}} : tensor<?x8xbf16>, tensor<?x8xbf16>
func.func @mlp(%x: tensor<?x8xbf16>,
               %u: tensor<32x8xbf16> {fuse.shard = #rows},
               %d: tensor<8x32xbf16> {fuse.shard = #columns})
    -> tensor<?x8xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) then_add(%x) rounding(exact)
    : (tensor<?x8xbf16>, tensor<32x8xbf16>, tensor<8x32xbf16>,
       tensor<?x8xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// A result of which ranks have parts is put together. A stored weight with two
// pieces is cut piece by piece.

// CHECK-LABEL: func.func @pieces(
// CHECK-DAG: %[[A:.*]] = tensor.extract_slice %[[W:.*]][0, 0] [4, 8] [1, 1]
// CHECK-DAG: %[[B:.*]] = tensor.extract_slice %[[W]][8, 0] [4, 8] [1, 1]
// CHECK-DAG: %[[W0:.*]] = tensor.concat dim(0) %[[A]], %[[B]]
// CHECK: tensor.extract_slice %[[W0]][4, 0] [4, 8] [1, 1]
// CHECK: %[[Y:.*]] = tensor.concat dim(1) %{{.*}}, %{{.*}} : (tensor<?x4xbf16>, tensor<?x4xbf16>) -> tensor<?x8xbf16>
// CHECK: return %[[Y]] : tensor<?x8xbf16>

// ALL-LABEL: func.func @pieces(
// ALL-SAME: -> (tensor<?x4xbf16>, tensor<?x4xbf16>)
func.func @pieces(
    %x: tensor<?x8xbf16>,
    %w: tensor<16x8xbf16>
      {fuse.shard = #fuse.shard<dim = 0, axis = "tp", count = 2, pieces = 2>})
    -> tensor<?x8xbf16> {
  %u = tensor.extract_slice %w[8, 0] [8, 8] [1, 1]
    : tensor<16x8xbf16> to tensor<8x8xbf16>
  %y = fuse.linear %x, %u
    : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// The bias is added once to the sum of all ranks.

// CHECK-LABEL: func.func @bias(
// CHECK: %[[S:.*]] = fuse.residual_add {{.*}} -> tensor<?x8xf32>
// CHECK: %[[B:.*]] = linalg.broadcast ins(%{{.*}} : tensor<8xbf16>)
// CHECK: fuse.residual_add %[[S]], %[[B]] : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
func.func @bias(%x: tensor<?x8xbf16>,
                %u: tensor<32x8xbf16> {fuse.shard = #rows},
                %d: tensor<8x32xbf16> {fuse.shard = #columns},
                %b: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %y = fuse.mlp %x up(%u) down(%d bias %b) act(relu) rounding(exact)
    : (tensor<?x8xbf16>, tensor<32x8xbf16>, tensor<8x32xbf16>, tensor<8xbf16>)
      -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}
