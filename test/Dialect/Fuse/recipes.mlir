// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// Recipes of stored weights. A kernel names parameters by the position of their
// member; a fused call names them by symbols.

// CHECK-LABEL: fuse.model @recipes
// CHECK: fuse.kernel @K targets(["cpu"]) weights [
// CHECK-SAME: #fuse.recipe<"gate_up" = interleave("1:gate", "1:up" block 8)>,
// CHECK-SAME: #fuse.recipe<"folded" = fold("1:gate", "0:weight" offset 1) keep>,
// CHECK-SAME: #fuse.recipe<"small" = quantize("1:down", f8E4M3FN scale 0.001) keep>]
// CHECK: fuse.fused_call @K [@norm, @mlp](%{{.*}}) site("norm+mlp#0")
// CHECK-SAME: weights [#fuse.recipe<"norm+mlp.gate_up" = concat(@mlp::@gate, @mlp::@up)>]
fuse.model @recipes class "M" {
  fuse.kernel @K targets(["cpu"]) weights [
    #fuse.recipe<"gate_up" = interleave("1:gate", "1:up" block 8)>,
    #fuse.recipe<"folded" = fold("1:gate", "0:weight" offset 1) keep>,
    #fuse.recipe<"small" = quantize("1:down", f8E4M3FN scale 1.0e-3) keep>]
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xf32>) -> tensor<?x8xf32>
  }
  fuse.module @mlp class "MLP" {
    fuse.parameter @gate : tensor<16x8xf32>
    fuse.parameter @up : tensor<16x8xf32>
    func.func private @forward(tensor<?x8xf32>) -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %n = fuse.fused_call @K [@norm, @mlp](%x) site("norm+mlp#0")
           weights [#fuse.recipe<"norm+mlp.gate_up" =
                      concat(@mlp::@gate, @mlp::@up)>]
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    %m = fuse.identity_call @mlp(%n) interface [-1] site("norm+mlp#0")
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return %m : tensor<?x8xf32>
  }
}

// One tensor with two names. It belongs to the module of the parameter that is
// not tied.

// CHECK-LABEL: fuse.model @tied
// CHECK: fuse.parameter @weight : tensor<32x8xbf16>
// CHECK: fuse.parameter @weight tied_to(@embed::@weight) : tensor<32x8xbf16>
fuse.model @tied class "M" {
  fuse.module @embed class "Embedding" {
    fuse.parameter @weight : tensor<32x8xbf16>
  }
  fuse.module @lm_head class "Linear" {
    fuse.parameter @weight tied_to(@embed::@weight) : tensor<32x8xbf16>
  }
}
