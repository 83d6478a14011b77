// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// CHECK-LABEL: @rotary
// CHECK-SAME: %[[Q:.*]]: tensor<?x8x?x64xbf16>, %[[C:.*]]: tensor<?x?x64xbf16>, %[[S:.*]]: tensor<?x?x64xbf16>
func.func @rotary(%q: tensor<?x8x?x64xbf16>, %c: tensor<?x?x64xbf16>,
                  %s: tensor<?x?x64xbf16>) {
  // CHECK: fuse.rotary %[[Q]] cos(%[[C]]) sin(%[[S]]) :
  %0 = fuse.rotary %q cos(%c) sin(%s)
    : (tensor<?x8x?x64xbf16>, tensor<?x?x64xbf16>, tensor<?x?x64xbf16>)
      -> tensor<?x8x?x64xbf16>
  return
}

// Fewer features in cos, positions that all batches share, heads in dimension
// 2.
// CHECK-LABEL: @rotary_partial
func.func @rotary_partial(%k: tensor<?x5x2x96xbf16>, %c: tensor<1x5x64xf32>,
                          %s: tensor<1x5x64xf32>) {
  // CHECK: fuse.rotary %{{.*}} cos(%{{.*}}) sin(%{{.*}}) heads 2 :
  %0 = fuse.rotary %k cos(%c) sin(%s) heads 2
    : (tensor<?x5x2x96xbf16>, tensor<1x5x64xf32>, tensor<1x5x64xf32>)
      -> tensor<?x5x2x96xf32>
  return
}

// CHECK-LABEL: @cross_entropy
// CHECK-SAME: %[[X:.*]]: tensor<?x?x100xbf16>, %[[L:.*]]: tensor<?x?xi64>, %[[N:.*]]: tensor<i64>
func.func @cross_entropy(%x: tensor<?x?x100xbf16>, %l: tensor<?x?xi64>,
                         %n: tensor<i64>) {
  // CHECK: fuse.cross_entropy %[[X]], %[[L]] mean causal :
  %0 = fuse.cross_entropy %x, %l mean causal
    : (tensor<?x?x100xbf16>, tensor<?x?xi64>) -> tensor<f32>
  // CHECK: fuse.cross_entropy %[[X]], %[[L]] items(%[[N]]) sum causal :
  %1 = fuse.cross_entropy %x, %l items(%n) sum causal ignore_index -100
    : (tensor<?x?x100xbf16>, tensor<?x?xi64>, tensor<i64>) -> tensor<f32>
  // CHECK: fuse.cross_entropy %[[X]], %[[L]] sum ignore_index 0 :
  %2 = fuse.cross_entropy %x, %l sum ignore_index 0
    : (tensor<?x?x100xbf16>, tensor<?x?xi64>) -> tensor<f32>
  return
}

// CHECK-LABEL: @moe_experts
// CHECK-SAME: %[[X:.*]]: tensor<?x64xbf16>, %[[I:.*]]: tensor<?x2xi64>, %[[R:.*]]: tensor<?x2xf32>, %[[U:.*]]: tensor<8x192x64xbf16>, %[[D:.*]]: tensor<8x64x96xbf16>
func.func @moe_experts(%x: tensor<?x64xbf16>, %i: tensor<?x2xi64>,
                       %r: tensor<?x2xf32>, %u: tensor<8x192x64xbf16>,
                       %d: tensor<8x64x96xbf16>) {
  // CHECK: fuse.moe_experts %[[X]] route(%[[I]], %[[R]]) gate_up(%[[U]])
  // CHECK-SAME: down(%[[D]]) act(silu) :
  %0 = fuse.moe_experts %x route(%i, %r) gate_up(%u) down(%d) act(silu)
    : (tensor<?x64xbf16>, tensor<?x2xi64>, tensor<?x2xf32>,
       tensor<8x192x64xbf16>, tensor<8x64x96xbf16>) -> tensor<?x64xbf16>
  return
}
