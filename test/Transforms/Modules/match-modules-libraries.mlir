// RUN: fuse-opt %s -o %t.input
// RUN: fuse-opt %s -o %t.fused --fuse-match-modules='patterns=@norm_mlp->NormMLP target=sm_90 libraries=%S/../Inputs/libraries/qwen.mlir'
// RUN: FileCheck %s --input-file=%t.fused
// RUN: fuse-opt %t.fused --fuse-unfuse -o %t.output
// RUN: diff %t.input %t.output
// RUN: fuse-opt %s --fuse-match-modules='patterns=(*RMSNorm,*MLP)->NormMLP libraries=%S/../Inputs/libraries/qwen.mlir' | FileCheck %s
// RUN: fuse-opt %s -o /dev/null --fuse-check-unfuse='patterns=@norm_mlp->NormMLP libraries=%S/../Inputs/libraries/qwen.mlir'
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->NormMLP target=sm_80 libraries=%S/../Inputs/libraries/qwen.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TARGET
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->NormMLP' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=WITHOUT
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->NormMLP libraries=%S/../Inputs/libraries/qwen.mlir,%S/../Inputs/libraries/twice.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TWICE
// RUN: sed 's/@NormMLP/@mlp/' %S/../Inputs/libraries/qwen.mlir > %t.family.mlir
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->mlp libraries=%t.family.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FAMILY
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->NormMLP libraries=%S/../Inputs/libraries/module.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=MODULE
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->NormMLP libraries=%S/../Inputs/libraries/function.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FUNCTION
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->NormMLP libraries=%S/../Inputs/libraries/empty.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EMPTY
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->NormMLP libraries=%S/../Inputs/libraries/none.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FILE
// RUN: sed 's/class "Qwen3For/class "LlamaFor/' %s \
// RUN:   | not fuse-opt --fuse-match-modules='patterns=@norm_mlp->NormMLP libraries=%S/../Inputs/libraries/qwen.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OTHER
// RUN: sed 's/class "Qwen[*]"/class "Qwen["/' %S/../Inputs/libraries/qwen.mlir > %t.glob.mlir
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->NormMLP libraries=%t.glob.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GLOB
// RUN: sed 's/class "Qwen3For/class "LlamaFor/' %s \
// RUN:   | not fuse-opt --fuse-match-modules='patterns=((*,norm))->NormMLP libraries=%S/../Inputs/libraries/qwen.mlir' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KERNEL

// Patterns and kernels can come from outside: a library file declares them for
// models of a class, and the model stays what it is.

// CHECK-NOT: fuse.kernel
// CHECK: fuse.fused_call "NormMLP" [@norm, @mlp](%arg0) site("norm+mlp#0")
// CHECK-SAME: weights [#fuse.recipe<"norm+mlp.w" = concat("mlp.gate", "mlp.up")>]

// TARGET:   kernel 'NormMLP' is not for target 'sm_80'; it runs on sm_90
// WITHOUT:  the model declares no pattern 'norm_mlp'; declare one with fuse.fusion_pattern
// TWICE:    error: 'NormMLP' is declared twice for model 'm'
// TWICE:    note: declared here
// FAMILY:   error: kernel 'mlp' has the name of a generated family
// MODULE:   error: in library '{{.*}}module.mlir'; expected fuse.fusion_pattern or fuse.kernel
// FUNCTION: error: in library '{{.*}}function.mlir'; expected fuse.model
// EMPTY:    error: library '{{.*}}empty.mlir' has no fuse.model
// FILE:     error: library '{{.*}}none.mlir' cannot be read: cannot open input file '{{.*}}none.mlir': No such file or directory
// GLOB:     glob.mlir:2:1: error: class of a library: {{.*}}'Qwen['
// OTHER:    the model declares no pattern 'norm_mlp'; declare one with fuse.fusion_pattern
// OTHER:    qwen.mlir:2:1: note: this library is for models of class 'Qwen*', the model has class 'LlamaForCausalLM'
// KERNEL:   FUSE-N210 unknown-kernel: no kernel 'NormMLP'
// KERNEL:   qwen.mlir:2:1: note: this library is for models of class 'Qwen*'

fuse.model @m class "Qwen3ForCausalLM" {
  fuse.module @norm class "Qwen3RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  fuse.module @mlp class "Qwen3MLP" {
    fuse.parameter @gate : tensor<16x8xf32>
    fuse.parameter @up : tensor<16x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}
