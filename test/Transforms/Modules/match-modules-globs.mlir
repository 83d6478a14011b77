// RUN: %check_errors %s fuse-opt %s --fuse-match-modules='{}'

// The modules that paths of a pattern select, one case for each rule. Layer 30
// has no MLP.

// `*` is one segment with any characters, so `blocks.*.norm` matches
// `blocks.a-b`.

// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,blocks.*.norm),(*,blocks.*.mlp))->Kernel' \
// RUN:   | FileCheck %s --check-prefix=STAR --implicit-check-not=nn.fused_call
// STAR: nn.fused_call {{.*}} site("blocks.a-b.norm+mlp#0")
// STAR: nn.fused_call {{.*}} site("blocks.conv1.norm+mlp#0")
// STAR: nn.fused_call {{.*}} site("blocks.conv2.norm+mlp#0")

// A path is not a regular expression: `.` matches only a dot.

// $ patterns=((*,blocks.a.b.norm))->Kernel
// error: pattern '((*,blocks.a.b.norm))->Kernel': FUSE-N201 no-module-matches: no module matches path 'blocks.a.b.norm' of member 0; modules of this class: layers, layers.3, layers.3.mlp, layers.3.norm

// A literal index is only this layer: 3, not 30.

// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,layers.3.norm),(*,layers.3.mlp))->Kernel' \
// RUN:   | FileCheck %s --check-prefix=ONE --implicit-check-not=nn.fused_call
// ONE: nn.fused_call {{.*}} site("layers.3.norm+mlp#0")

// Digits in a name have no meaning: conv1 is not conv2.

// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,blocks.conv1.norm),(*,blocks.conv1.mlp))->Kernel' \
// RUN:   | FileCheck %s --check-prefix=DIGIT --implicit-check-not=nn.fused_call
// DIGIT: nn.fused_call {{.*}} site("blocks.conv1.norm+mlp#0")

// A path that matches nothing is an error, which lists the modules of the
// class.

// $ patterns=((RMSNorm,layer.*.norm),(MLP,layer.*.mlp))->Kernel
// error: pattern '((RMSNorm,layer.*.norm),(MLP,layer.*.mlp))->Kernel': FUSE-N201 no-module-matches: no module matches path 'layer.*.norm' of member 0; modules of this class: layers.3.norm, layers.30.norm

// So are members that never have the same parent.

// $ patterns=((*,layers.3.norm),(*,blocks.conv1.mlp))->Kernel
// error: pattern '((*,layers.3.norm),(*,blocks.conv1.mlp))->Kernel': FUSE-N202 different-parents: no module is the parent of all members; 'layers.3.norm' has parent 'layers.3', 'blocks.conv1.mlp' has parent 'blocks.conv1'

nn.model @m class "M" {
  nn.kernel @Kernel targets(["cpu"])
  nn.module @layers class "ModuleList" {
    nn.module @"3" class "Layer" {
      nn.module @mlp class "MLP" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      nn.module @norm class "RMSNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
    nn.module @"30" class "Layer" {
      nn.module @norm class "RMSNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        return %n : tensor<8xf32>
      }
    }
  }
  nn.module @blocks class "ModuleDict" {
    nn.module @"a-b" class "Block" {
      nn.module @norm class "LayerNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      nn.module @mlp class "MLP" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
    nn.module @conv1 class "Block" {
      nn.module @norm class "LayerNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      nn.module @mlp class "MLP" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
    nn.module @conv2 class "Block" {
      nn.module @norm class "LayerNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      nn.module @mlp class "MLP" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
  }
}
