// What paths select, where other systems decide differently; one case per rule.
// The model has two layers, of which layer 3 has no MLP of its own.

// A star is one segment, whatever its characters, and no regular expression:
// `blocks.*.norm` reaches `blocks.a-b`, and a dot is a dot.

// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,blocks.*.norm),(*,blocks.*.mlp))->Kernel' \
// RUN:   | FileCheck %s --check-prefix=STAR --implicit-check-not=fuse.fused_call
// STAR: fuse.fused_call {{.*}} site("blocks.a-b.norm+mlp#0")
// STAR: fuse.fused_call {{.*}} site("blocks.conv1.norm+mlp#0")
// STAR: fuse.fused_call {{.*}} site("blocks.conv2.norm+mlp#0")

// RUN: not fuse-opt %s --fuse-match-modules='patterns=((*,blocks.a.b.norm))->Kernel' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DOT
// DOT: error: {{.*}}FUSE-N201 no-module-matches: no module matches path 'blocks.a.b.norm'

// A literal index is exactly that layer, and the others keep their calls.

// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,layers.3.norm),(*,layers.3.mlp))->Kernel' \
// RUN:   | FileCheck %s --check-prefix=ONE --implicit-check-not=fuse.fused_call
// ONE: fuse.fused_call {{.*}} site("layers.3.norm+mlp#0")

// A digit in a name means nothing: conv1 is not conv2.

// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,blocks.conv1.norm),(*,blocks.conv1.mlp))->Kernel' \
// RUN:   | FileCheck %s --check-prefix=DIGIT --implicit-check-not=fuse.fused_call
// DIGIT: fuse.fused_call {{.*}} site("blocks.conv1.norm+mlp#0")

// Nothing matches: an error that says what there is, not silence.

// RUN: not fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,layer.*.norm),(MLP,layer.*.mlp))->Kernel' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ZERO
// ZERO: error: {{.*}}FUSE-N201 no-module-matches: no module matches path 'layer.*.norm' of member 0; modules of this class: layers.3.norm, layers.30.norm

// Members that never share a parent: an error. Where only some of them do, the
// parents of the others are sites that are refused.

// RUN: not fuse-opt %s --fuse-match-modules='patterns=((*,layers.3.norm),(*,blocks.conv1.mlp))->Kernel' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PARENTS
// PARENTS: error: {{.*}}FUSE-N202 different-parents: no module is the parent of all members; 'layers.3.norm' has parent 'layers.3', 'blocks.conv1.mlp' has parent 'blocks.conv1'

// RUN: fuse-opt %s -o /dev/null --fuse-match-modules='patterns=((*,layers.*.norm),(*,**.mlp))->Kernel' \
// RUN:     --remarks-filter=fuse --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SITES
// SITES-DAG: [Passed] layers.3.norm+mlp#0
// SITES-DAG: [Missed] blocks.a-b.?+mlp | {{.*}}FUSE-N202 different-parents: {{.*}}'blocks.a-b' is not the parent of path 'layers.*.norm'

// A parent without one of the members is refused with the name of the member;
// the others are fused.

// SITES-DAG: [Missed] layers.30.norm+? | {{.*}}FUSE-N203 child-missing: {{.*}}'layers.30' has no child for path '**.mlp'

// All sites refused: a warning with the first reason, whether remarks are asked
// for or not; none where an option disables the sites.

// RUN: fuse-opt %s -o /dev/null --fuse-match-modules='patterns=((LayerNorm,layers.*.norm),(*,layers.*.mlp))->Kernel' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REFUSED
// REFUSED: warning: pattern '((LayerNorm,layers.*.norm),(*,layers.*.mlp))->Kernel' fuses nothing; site 'layers.3.norm+mlp' is refused: FUSE-N204 class-differs: 'layers.3.norm' has class 'RMSNorm', the pattern expects 'LayerNorm'; 2 sites are refused

// RUN: fuse-opt %s -o /dev/null --fuse-match-modules='patterns=((*,layers.3.norm),(*,layers.3.mlp))->Kernel disable=layers.3.norm+mlp#0' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OFF --allow-empty
// OFF-NOT: warning

// The order of a pattern is the order of the data, not of the children: the MLP
// stands in front of the norm in every layer.

// RUN: not fuse-opt %s --fuse-match-modules='patterns=((*,layers.3.mlp),(*,layers.3.norm))->Kernel' \
// RUN:     --fuse-check-contracts 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: error: must fuse 'layers.3.mlp': 1 of 1 modules are not fused
// ORDER: note: 'layers.3.mlp': layers.3.mlp+norm#0: FUSE-N206 not-a-chain: the result of 'layers.3.mlp' goes to 'func.return'

fuse.model @m class "M" attributes {fuse.must_fuse = ["layers.3.mlp"]} {
  fuse.kernel @Kernel targets(["cpu"])
  fuse.module @layers class "ModuleList" {
    fuse.module @"3" class "Layer" {
      fuse.module @mlp class "MLP" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      fuse.module @norm class "RMSNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
    fuse.module @"30" class "Layer" {
      fuse.module @norm class "RMSNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        return %n : tensor<8xf32>
      }
    }
  }
  fuse.module @blocks class "ModuleDict" {
    fuse.module @"a-b" class "Block" {
      fuse.module @norm class "LayerNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      fuse.module @mlp class "MLP" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
    fuse.module @conv1 class "Block" {
      fuse.module @norm class "LayerNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      fuse.module @mlp class "MLP" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
    fuse.module @conv2 class "Block" {
      fuse.module @norm class "LayerNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      fuse.module @mlp class "MLP" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
  }
}
