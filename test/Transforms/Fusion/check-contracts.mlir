// RUN: fuse-opt %s -split-input-file -verify-diagnostics \
// RUN:   --fuse-match-modules='patterns=((RMSNorm,**.norm),(MLP,**.mlp))->mlp' \
// RUN:   --fuse-inline-modules --fuse-form-kernels --fuse-check-contracts

// A satisfied contract emits no diagnostics.

nn.model @kept class "M"
    attributes {fuse.must_fuse = ["norm", "*l*"], fuse.expect_sites = 1} {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %y = fuse.rms_norm %x eps 1.0e-6 : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %y : tensor<8x8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    nn.parameter @w : tensor<8x8xf32>
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %w = nn.get_parameter @w : tensor<8x8xf32>
      %u = fuse.linear %x, %w
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %a = fuse.activation silu %u : tensor<8x8xf32> -> tensor<8x8xf32>
      %d = fuse.linear %a, %w
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %d : tensor<8x8xf32>
    }
  }
  func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %m : tensor<8x8xf32>
  }
}

// -----

// The errors about a refused site list its modules and the reason.

// expected-warning @below {{fuses nothing; site 'norm+mlp#0' is refused: FUSE-N208 has-hooks: 'mlp' has hooks accelerate}}
// expected-error @below {{expected 2 fused sites, there are 0}}
// expected-note @below {{not fused: norm+mlp#0: FUSE-N208 has-hooks: 'mlp' has hooks accelerate}}
// expected-error @below {{must fuse 'mlp': 1 of 1 modules are not fused}}
// expected-note @below {{'mlp': norm+mlp#0: FUSE-N208 has-hooks: 'mlp' has hooks accelerate}}
// expected-error @below {{must fuse 'head': 1 of 1 modules are not fused}}
// expected-note @below {{'head': no requested site contains it}}
// expected-error @below {{'fuse.must_fuse': no module matches path glob 'layers.*'}}
nn.model @broken class "M"
    attributes {fuse.must_fuse = ["mlp", "head", "layers.*"],
                fuse.expect_sites = 2} {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @mlp class "MLP" hooks(["accelerate"]) {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @head class "Head" {
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// The modules match, but their bodies form no kernel.

// expected-error @below {{must fuse 'mlp': 1 of 1 modules are not fused}}
// expected-note @below {{'mlp': norm+mlp#0: no kernel was formed in its body; norm+mlp#0#0: FUSE-N001 activation-input-not-linear}}
nn.model @unformed class "M" attributes {fuse.must_fuse = ["mlp"]} {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      return %x : tensor<8x8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %y = fuse.activation silu %x : tensor<8x8xf32> -> tensor<8x8xf32>
      return %y : tensor<8x8xf32>
    }
  }
  func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %m : tensor<8x8xf32>
  }
}

// -----

// A kernel forms, but of another family than the pattern asks for.

// expected-error @below {{must fuse 'mlp': 1 of 1 modules are not fused}}
// expected-note @below {{'mlp': norm+mlp#0: FUSE-N218 other-family: the members form norm_linear, the pattern asks for mlp}}
nn.model @other class "M" attributes {fuse.must_fuse = ["mlp"]} {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %y = fuse.rms_norm %x eps 1.0e-6 : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %y : tensor<8x8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    nn.parameter @w : tensor<8x8xf32>
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %w = nn.get_parameter @w : tensor<8x8xf32>
      %y = fuse.linear %x, %w
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      return %y : tensor<8x8xf32>
    }
  }
  func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %m : tensor<8x8xf32>
  }
}

// -----

// Modules in a member belong to its site if the kernel contains their ops. A
// dropout has no ops.

// expected-error @below {{must fuse 'mlp.*': 1 of 4 modules are not fused}}
// expected-note @below {{'mlp.extra': norm+mlp#0: the kernel does not have it}}
nn.model @inside class "M" attributes {fuse.must_fuse = ["mlp.*"]} {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %y = fuse.rms_norm %x eps 1.0e-6 : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %y : tensor<8x8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    nn.module @up class "Linear" {
      nn.parameter @w : tensor<8x8xf32>
      func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
        %w = nn.get_parameter @w : tensor<8x8xf32>
        %y = fuse.linear %x, %w
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
        return %y : tensor<8x8xf32>
      }
    }
    nn.module @drop class "Dropout" {
      func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
        return %x : tensor<8x8xf32>
      }
    }
    nn.module @down class "Linear" {
      nn.parameter @w : tensor<8x8xf32>
      func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
        %w = nn.get_parameter @w : tensor<8x8xf32>
        %y = fuse.linear %x, %w
          : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
        return %y : tensor<8x8xf32>
      }
    }
    nn.module @extra class "Negate" {
      func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
        %y = arith.negf %x : tensor<8x8xf32>
        return %y : tensor<8x8xf32>
      }
    }
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %u = nn.call_module @up(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %a = fuse.activation silu %u : tensor<8x8xf32> -> tensor<8x8xf32>
      %r = nn.call_module @drop(%a) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %d = nn.call_module @down(%r) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      %e = nn.call_module @extra(%d) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %e : tensor<8x8xf32>
    }
  }
  func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %m : tensor<8x8xf32>
  }
}

// -----

// Names can contain the separators of site ids.

// expected-warning @below {{fuses nothing}}
// expected-error @below {{must fuse 'c#1.mlp': 1 of 1 modules are not fused}}
// expected-note @below {{'c#1.mlp': c#1.norm+mlp#0: FUSE-N208 has-hooks}}
nn.model @names class "M" attributes {fuse.must_fuse = ["c#1.mlp"]} {
  nn.module @"c#1" class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @mlp class "MLP" hooks(["accelerate"]) {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
}
