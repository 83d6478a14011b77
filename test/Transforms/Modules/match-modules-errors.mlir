// RUN: %check_errors %s fuse-opt %s --fuse-match-modules='{}'

// A pattern that is wrong as a whole is an error that names what is valid. It
// never leaves a model unfused without a message.

// The syntax of patterns.

// $
// error: no patterns given; expected patterns=((Class,path),(Class,path))->kernel

// $ patterns=((RMSNorm,norm))
// error: pattern '((RMSNorm,norm))': has no kernel; expected ((Class,path),(Class,path))->kernel, (Class,Class)->kernel or @pattern->kernel

// $ patterns=((RMSNorm,norm))->
// error: pattern '((RMSNorm,norm))->': has no kernel name after '->'

// $ patterns=RMSNorm->mlp
// error: pattern 'RMSNorm->mlp': expected ((Class,path),(Class,path))->kernel, (Class,Class)->kernel or @pattern->kernel

// $ patterns=()->mlp
// error: pattern '()->mlp': has no members

// $ patterns=((RMSNorm,norm),MLP)->mlp
// error: pattern '((RMSNorm,norm),MLP)->mlp': member 1 is 'MLP'; with paths, every member is (Class,path)

// $ patterns=((RMSNorm,norm,x))->mlp
// error: pattern '((RMSNorm,norm,x))->mlp': member 0 is '(RMSNorm,norm,x)'; with paths, every member is (Class,path)

// $ patterns=((RMSNorm,a..norm))->mlp
// error: pattern '((RMSNorm,a..norm))->mlp': path glob 'a..norm': has an empty segment

// $ patterns=((RMSNorm,a.**))->mlp
// error: pattern '((RMSNorm,a.**))->mlp': path glob 'a.**' ends in '**', which does not name a member

// Names that the model does not have: patterns, modules, sites, kernels and
// targets.

// $ patterns=(MLP,RMSNorm)->mlp
// error: pattern '(MLP,RMSNorm)->mlp': the model declares no pattern of MLP, RMSNorm; declared are @just_norm (RMSNorm), or give the paths: ((Class,path),(Class,path))->kernel

// $ patterns=@other->mlp
// error: pattern '@other->mlp': the model declares no pattern 'other'; declared are @just_norm (RMSNorm)

// $ patterns=((RMSNorm,nrm),(MLP,a.mlp))->mlp
// error: pattern '((RMSNorm,nrm),(MLP,a.mlp))->mlp': FUSE-N201 no-module-matches: no module matches path 'nrm' of member 0; modules of this class: norm

// $ patterns=((Norm,nrm))->mlp
// error: pattern '((Norm,nrm))->mlp': FUSE-N201 no-module-matches: no module matches path 'nrm' of member 0; no module has class 'Norm'

// $ patterns=((RMSNorm,norm),(MLP,a.mlp))->mlp
// error: pattern '((RMSNorm,norm),(MLP,a.mlp))->mlp': FUSE-N202 different-parents: no module is the parent of all members; 'norm' has parent '', 'a.mlp' has parent 'a'

// $ patterns=@just_norm->FastNorm disable=norm#1
// error: no site 'norm#1' to disable; expected one of norm#0

// $ patterns=@just_norm->fast_norm
// error: pattern '@just_norm->fast_norm': FUSE-N210 unknown-kernel: no kernel 'fast_norm'; generated families are gated_mlp, mlp, norm_linear, norm_quantize, act_quantize, group, fused_linear; declared are FastNorm

// $ patterns=@just_norm->group target=sm_1
// error: unknown target 'sm_1'; expected one of cpu, sm_80, {{.*}}sm_121a

nn.model @m class "M" {
  nn.fusion_pattern @just_norm [("RMSNorm", "norm")]
  nn.kernel @FastNorm targets(["sm_90", "sm_100"])
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @a class "Layer" {
    nn.module @mlp class "MLP" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}
