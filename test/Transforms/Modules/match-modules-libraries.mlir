// RUN: fuse-opt %s -o %t.input
// RUN: fuse-opt %s -o %t.fused --fuse-match-modules='patterns=@norm_mlp->NormMLP target=sm_90 libraries=%S/../Inputs/libraries/qwen.mlir'
// RUN: FileCheck %s --input-file=%t.fused
// RUN: fuse-opt %t.fused --fuse-unfuse | diff %t.input -
// RUN: fuse-opt %s --fuse-match-modules='patterns=(*RMSNorm,*MLP)->NormMLP libraries=%S/../Inputs/libraries/qwen.mlir' | FileCheck %s
// RUN: fuse-opt %s -o /dev/null --fuse-check-unfuse='patterns=@norm_mlp->NormMLP libraries=%S/../Inputs/libraries/qwen.mlir'

// A library file declares patterns and kernels for models of a class. The model
// does not change.

// CHECK-NOT: nn.kernel
// CHECK: nn.fused_call @NormMLP [@norm, @mlp](%arg0) site("norm+mlp#0")
// CHECK-SAME: weights [#nn.recipe<"norm+mlp.w" = concat(@mlp::@gate, @mlp::@up)>]

nn.model @m class "Qwen3ForCausalLM" {
  nn.module @norm class "Qwen3RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @mlp class "Qwen3MLP" {
    nn.parameter @gate : tensor<16x8xf32>
    nn.parameter @up : tensor<16x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}
