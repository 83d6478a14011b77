// RUN: fuse-opt %s -split-input-file -verify-diagnostics -o /dev/null \
// RUN:   --fuse-match-modules='patterns=((RMSNorm,**.norm),(MLP,**.mlp))->mlp' \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark
// RUN: fuse-opt %s -split-input-file -o /dev/null \
// RUN:   --fuse-check-unfuse='patterns=((RMSNorm,**.norm),(MLP,**.mlp))->mlp'

// One case for each predicate of a site. The remark has the id and the reason
// of the refusal, and the op that caused it. A refused site does not change.

// A parent lacks a member. The site of the other parent is fused.

nn.model @missing class "M" {
  nn.module @layers class "ModuleList" {
    // expected-remark-re @below {{[Missed] layers.0.norm+?{{.*}}At=nn.module{{.*}}FUSE-N203 child-missing:{{.*}}'layers.0' has no child for path '**.mlp'}}
    nn.module @"0" class "Layer" {
      nn.module @norm class "RMSNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
    }
    nn.module @"1" class "Layer" {
      nn.module @norm class "RMSNorm" {
        func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
          return %x : tensor<8xf32>
        }
      }
      nn.module @mlp class "MLP" {
        func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
          return %x : tensor<8xf32>
        }
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        // expected-remark @below {{[Passed] layers.1.norm+mlp#0}}
        %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
  }
}

// -----

// A member has another class than the pattern expects.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  // expected-remark-re @below {{[Missed] norm+mlp{{.*}}At=nn.module{{.*}}FUSE-N204 class-differs:{{.*}}'norm' has class 'LayerNorm', the pattern expects 'RMSNorm'}}
  nn.module @norm class "LayerNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// No forward calls the first member.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  // expected-remark-re @below {{[Missed] norm+mlp{{.*}}At=nn.module{{.*}}FUSE-N205 member-not-called:{{.*}}no forward calls 'norm'}}
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %m = nn.call_module @mlp(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// A cast is between the members.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=arith.truncf{{.*}}FUSE-N206 not-a-chain:{{.*}}the result of 'norm' goes to 'arith.truncf'}}
    %c = arith.truncf %n : tensor<8xf32> to tensor<8xbf16>
    %e = arith.extf %c : tensor<8xbf16> to tensor<8xf32>
    %m = nn.call_module @mlp(%e) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// The members are called in another order than that of the pattern.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @mlp(%x) : (tensor<8xf32>) -> tensor<8xf32>
    // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=nn.call_module{{.*}}FUSE-N206 not-a-chain:{{.*}}the result of 'norm' is not used}}
    %m = nn.call_module @norm(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}

// -----

// An intermediate has a second user, and an MLP kernel cannot return it.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=func.return{{.*}}FUSE-N002 intermediate-has-other-users:{{.*}}'func.return' uses the result of 'norm', which kernel 'mlp' cannot return}}
    return %m, %n : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// An input from outside is computed after the first member.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>, %s: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=arith.negf{{.*}}FUSE-N207 side-input-made-later:{{.*}}'arith.negf' computes an input of 'mlp' after the call of 'norm'}}
    %s = arith.negf %x : tensor<8xf32>
    %m = nn.call_module @mlp(%n, %s)
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// A kernel would bypass hooks of a member, or of a module in it.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=nn.module{{.*}}FUSE-N208 has-hooks:{{.*}}'mlp.up' has hooks accelerate, forward_pre}}
    nn.module @up class "Linear" hooks(["accelerate", "forward_pre"]) {
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// A kernel would bypass the distribution of a member over devices.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=nn.module{{.*}}FUSE-N209 tensor-parallel:{{.*}}'mlp' is distributed as 'colwise'}}
  nn.module @mlp class "MLP"
      tensor_parallel(<kind = unknown, axis = "colwise", size = 1>) {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// A generated kernel needs the body of each member.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=nn.module{{.*}}FUSE-N212 member-without-body:{{.*}}'mlp' is only declared}}
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// The last member has no result.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) {
      return
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=nn.call_module{{.*}}FUSE-N214 no-result:{{.*}}'mlp' has no results}}
    nn.call_module @mlp(%n) : (tensor<8xf32>) -> ()
    return %x : tensor<8xf32>
  }
}

// -----

// The model disables fusion of a module.

nn.model @m class "M" attributes {fuse.no_fuse = ["mlp"]} {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=nn.module{{.*}}FUSE-N215 held-back:{{.*}}'mlp' stays unfused}}
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// Modules around a module without fusion, and modules in it, are not fused
// either.

nn.model @m class "M" attributes {fuse.no_fuse = ["mlp.up"]} {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=nn.module{{.*}}FUSE-N215 held-back:{{.*}}'mlp' stays unfused}}
  nn.module @mlp class "MLP" {
    nn.module @up class "Linear" {
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

nn.model @m class "M" attributes {fuse.no_fuse = ["layer"]} {
  nn.module @layer class "Layer" {
    // expected-remark-re @below {{[Missed] layer.norm+mlp#0{{.*}}At=nn.module{{.*}}FUSE-N215 held-back:{{.*}}'layer.norm' stays unfused}}
    nn.module @norm class "RMSNorm" {
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        return %x : tensor<8xf32>
      }
    }
    nn.module @mlp class "MLP" {
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        return %x : tensor<8xf32>
      }
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
}

// -----

// The next member is called in a nested region.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>, %c: i1) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = scf.if %c -> tensor<8xf32> {
      // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}At=nn.call_module{{.*}}FUSE-N010 members-in-different-blocks:{{.*}}the call of 'mlp' is in another block}}
      %i = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      scf.yield %i : tensor<8xf32>
    } else {
      scf.yield %x : tensor<8xf32>
    }
    return %m : tensor<8xf32>
  }
}

// -----

// A generated kernel has the sum over ranks at its end.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    nn.module @up class "Linear"
        tensor_parallel(<kind = colwise, axis = "tp", size = 2>) {
      nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
        : tensor<8x8xf32>
    }
    // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}FUSE-N191 reduction-inside:{{.*}}the members have 2 colwise and 0 rowwise modules, kernel 'mlp' needs 1 and 1}}
    nn.module @down class "Linear"
        tensor_parallel(<kind = colwise, axis = "tp", size = 2>) {
      nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
        : tensor<8x8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// The members of a kernel are distributed along one axis.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}FUSE-N190 different-axes:{{.*}}'mlp.up' is distributed along axis 'tp', 'mlp.down' along 'ep'}}
    nn.module @up class "Linear"
        tensor_parallel(<kind = colwise, axis = "tp", size = 2>) {
      nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
        : tensor<8x8xf32>
    }
    nn.module @down class "Linear"
        tensor_parallel(<kind = rowwise, axis = "ep", size = 2>) {
      nn.parameter @weight shard(<dim = 1, axis = "ep", count = 2>)
        : tensor<8x8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// A shard without a plan has a reduction that the model does not state.

// expected-warning @below {{fuses nothing}}
nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  // expected-remark-re @below {{[Missed] norm+mlp#0{{.*}}FUSE-N192 shard-without-plan:{{.*}}'mlp.weight' is cut along axis 'tp', 'mlp' has no plan}}
  nn.module @mlp class "MLP" {
    nn.parameter @weight shard(<dim = 1, axis = "tp", count = 2>)
      : tensor<8x8xf32>
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}
