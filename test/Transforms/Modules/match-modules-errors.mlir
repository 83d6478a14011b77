// RUN: not fuse-opt %s --fuse-match-modules 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NONE
// RUN: not fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,norm))' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOKERNEL
// RUN: not fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,norm))->' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNNAMED
// RUN: not fuse-opt %s --fuse-match-modules='patterns=RMSNorm->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FORM
// RUN: not fuse-opt %s --fuse-match-modules='patterns=()->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=EMPTY
// RUN: not fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,norm),MLP)->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PAIRS
// RUN: not fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,norm,x))->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LENGTH
// RUN: not fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,a..norm))->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=GLOB
// RUN: not fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,a.**))->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DEPTH
// RUN: not fuse-opt %s --fuse-match-modules='patterns=(MLP,RMSNorm)->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TUPLE
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@other->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NAME
// RUN: not fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,nrm),(MLP,a.mlp))->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOTHING
// RUN: not fuse-opt %s --fuse-match-modules='patterns=((Norm,nrm))->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOCLASS
// RUN: not fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,norm),(MLP,a.mlp))->mlp' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PARENTS
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@just_norm->fast_norm' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=KERNEL
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@just_norm->FastNorm target=sm_80' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TARGET
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@just_norm->group target=sm_1' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOTARGET
// RUN: sed 's/"sm_100"/"tpu"/' %s \
// RUN:   | fuse-opt --fuse-match-modules='patterns=@just_norm->FastNorm target=tpu' -o /dev/null
// RUN: sed 's/"sm_100"/"tpu"/' %s \
// RUN:   | not fuse-opt --fuse-match-modules='patterns=@just_norm->FastNorm target=tpv' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TPU
// RUN: not fuse-opt %s --fuse-match-modules='patterns=@just_norm->FastNorm disable=norm#1' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DISABLE
// RUN: sed 's/class "M" {/class "M" attributes {fuse.no_fuse = ["nrm"]} {/' %s \
// RUN:   | not fuse-opt --fuse-match-modules='patterns=@just_norm->FastNorm' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOFUSE

// What is wrong with a pattern as a whole is an error that says what would be
// right. Nothing is silently left unfused.

// NONE:     error: no patterns given; expected patterns=((Class,path),(Class,path))->kernel
// NOKERNEL: error: pattern '((RMSNorm,norm))': has no kernel; expected ((Class,path),(Class,path))->kernel, (Class,Class)->kernel or @pattern->kernel
// UNNAMED:  error: pattern '((RMSNorm,norm))->': has no kernel name after '->'
// FORM:     error: pattern 'RMSNorm->mlp': expected ((Class,path),(Class,path))->kernel
// EMPTY:    error: pattern '()->mlp': has no members
// PAIRS:    error: pattern '((RMSNorm,norm),MLP)->mlp': member 1 is 'MLP'; with paths, every member is (Class,path)
// LENGTH:   error: pattern '((RMSNorm,norm,x))->mlp': member 0 is '(RMSNorm,norm,x)'
// GLOB:     error: pattern '((RMSNorm,a..norm))->mlp': path glob 'a..norm': has an empty segment
// DEPTH:    error: pattern '((RMSNorm,a.**))->mlp': path glob 'a.**' ends in '**', which does not name a member
// TUPLE:    error: pattern '(MLP,RMSNorm)->mlp': the model declares no pattern of MLP, RMSNorm; declared are @just_norm (RMSNorm), or give the paths
// NAME:     error: pattern '@other->mlp': the model declares no pattern 'other'; declared are @just_norm (RMSNorm)
// NOTHING:  error: pattern '((RMSNorm,nrm),(MLP,a.mlp))->mlp': FUSE-N201 no-module-matches: no module matches path 'nrm' of member 0; modules of this class: norm
// NOCLASS:  error: pattern '((Norm,nrm))->mlp': FUSE-N201 no-module-matches: no module matches path 'nrm' of member 0; no module has class 'Norm'
// PARENTS:  error: pattern '((RMSNorm,norm),(MLP,a.mlp))->mlp': FUSE-N202 different-parents: no module is the parent of all members; 'norm' has parent '', 'a.mlp' has parent 'a'
// KERNEL:   error: pattern '@just_norm->fast_norm': FUSE-N210 unknown-kernel: no kernel 'fast_norm'; generated families are gated_mlp, mlp, norm_linear, norm_quantize, act_quantize, group; declared are FastNorm
// TARGET:   error: pattern '@just_norm->FastNorm': FUSE-N211 kernel-not-for-target: kernel 'FastNorm' is not for target 'sm_80'; it runs on sm_90, sm_100
// NOTARGET: error: unknown target 'sm_1'; expected one of cpu, sm_80, {{.*}}sm_121a{{$}}
// TPU:      error: unknown target 'tpv'; expected one of cpu, {{.*}}sm_121a, tpu
// DISABLE:  error: no site 'norm#1' to disable; expected one of norm#0
// NOFUSE:   error: 'fuse.no_fuse': no module matches path glob 'nrm'

fuse.model @m class "M" {
  fuse.fusion_pattern @just_norm [("RMSNorm", "norm")]
  fuse.kernel @FastNorm targets(["sm_90", "sm_100"])
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  fuse.module @a class "Layer" {
    fuse.module @mlp class "MLP" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}
