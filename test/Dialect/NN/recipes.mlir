// RUN: fuse-opt %s --verify-roundtrip | FileCheck %s
// RUN: fuse-opt %s --mlir-print-op-generic | fuse-opt | FileCheck %s

// Recipes of stored weights. A kernel names parameters by the position of their
// member; a fused call names them by symbols.

// CHECK-LABEL: nn.model @recipes
// CHECK: nn.kernel @K targets(["cpu"]) weights [
// CHECK-SAME: #nn.recipe<"gate_up" = interleave("1:gate", "1:up" block 8)>,
// CHECK-SAME: #nn.recipe<"turned" = transpose("1:turned")>,
// CHECK-SAME: #nn.recipe<"folded" = fold("1:gate", "0:weight" offset 1) keep>,
// CHECK-SAME: #nn.recipe<"small" = quantize("1:down", f8E4M3FN scale 0.001) keep>]
// CHECK: nn.fused_call @K [@norm, @mlp](%{{.*}}) site("norm+mlp#0")
// CHECK-SAME: weights [#nn.recipe<"norm+mlp.gate_up" = concat(@mlp::@gate, @mlp::@up)>]
nn.model @recipes class "M" {
  nn.kernel @K targets(["cpu"]) weights [
    #nn.recipe<"gate_up" = interleave("1:gate", "1:up" block 8)>,
    #nn.recipe<"turned" = transpose("1:turned")>,
    #nn.recipe<"folded" = fold("1:gate", "0:weight" offset 1) keep>,
    #nn.recipe<"small" = quantize("1:down", f8E4M3FN scale 1.0e-3) keep>]
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<?x8xf32>) -> tensor<?x8xf32>
  }
  nn.module @mlp class "MLP" {
    nn.parameter @gate : tensor<16x8xf32>
    nn.parameter @up : tensor<16x8xf32>
    func.func private @forward(tensor<?x8xf32>) -> tensor<?x8xf32>
  }
  func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %n = nn.fused_call @K [@norm, @mlp](%x) site("norm+mlp#0")
           weights [#nn.recipe<"norm+mlp.gate_up" =
                      concat(@mlp::@gate, @mlp::@up)>]
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    %m = nn.identity_call @mlp(%n) interface [-1] site("norm+mlp#0")
      : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return %m : tensor<?x8xf32>
  }
}

// One tensor with two names. It belongs to the module of the parameter that is
// not tied.

// CHECK-LABEL: nn.model @tied
// CHECK: nn.parameter @weight : tensor<32x8xbf16>
// CHECK: nn.parameter @weight tied_to(@embed::@weight) : tensor<32x8xbf16>
nn.model @tied class "M" {
  nn.module @embed class "Embedding" {
    nn.parameter @weight : tensor<32x8xbf16>
  }
  nn.module @lm_head class "Linear" {
    nn.parameter @weight tied_to(@embed::@weight) : tensor<32x8xbf16>
  }
}
