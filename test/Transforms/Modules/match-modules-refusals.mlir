// RUN: fuse-opt %s -split-input-file -o /dev/null \
// RUN:     --fuse-match-modules='patterns=((RMSNorm,**.norm),(MLP,**.mlp))->mlp' \
// RUN:     --remarks-filter=fuse --remark-format=emitRemark 2>&1 \
// RUN:   | FileCheck %s
// RUN: fuse-opt %s -split-input-file -o /dev/null \
// RUN:     --fuse-check-unfuse='patterns=((RMSNorm,**.norm),(MLP,**.mlp))->mlp'

// One case per predicate of a site: its remark has the id, what exactly failed,
// the op at which it failed and what to do. A refused site stays as it was.


// A parent without one of the members is passed over, the other is fused.

// CHECK: [Missed] layers.0.norm+?
// CHECK-SAME: At=fuse.module
// CHECK-SAME: FUSE-N203 child-missing:
// CHECK-SAME: 'layers.0' has no child for path '**.mlp'
// CHECK: [Passed] layers.1.norm+mlp#0
fuse.model @missing class "M" {
  fuse.module @layers class "ModuleList" {
    fuse.module @"0" class "Layer" {
      fuse.module @norm class "RMSNorm" {
        func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
      }
    }
    fuse.module @"1" class "Layer" {
      fuse.module @norm class "RMSNorm" {
        func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
          return %x : tensor<8xf32>
        }
      }
      fuse.module @mlp class "MLP" {
        func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
          return %x : tensor<8xf32>
        }
      }
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
        %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
        return %m : tensor<8xf32>
      }
    }
  }
}

// -----

// The pattern's class is not the module's.

// CHECK: [Missed] norm+mlp
// CHECK-SAME: At=fuse.module
// CHECK-SAME: FUSE-N204 class-differs:
// CHECK-SAME: 'norm' has class 'LayerNorm', the pattern expects 'RMSNorm'
fuse.model @m class "M" {
  fuse.module @norm class "LayerNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// The first member is not called by anyone.

// CHECK: [Missed] norm+mlp
// CHECK-SAME: At=fuse.module
// CHECK-SAME: FUSE-N205 member-not-called:
// CHECK-SAME: no forward calls 'norm'
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %m = fuse.call_module @mlp(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// A cast stands between the members: the chain is not one.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=arith.truncf
// CHECK-SAME: FUSE-N206 not-a-chain:
// CHECK-SAME: the result of 'norm' goes to 'arith.truncf'
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %c = arith.truncf %n : tensor<8xf32> to tensor<8xbf16>
    %e = arith.extf %c : tensor<8xbf16> to tensor<8xf32>
    %m = fuse.call_module @mlp(%e) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// The order of a pattern is the order of the chain.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=fuse.call_module
// CHECK-SAME: FUSE-N206 not-a-chain:
// CHECK-SAME: the result of 'norm' is not used
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @mlp(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @norm(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}

// -----

// A second user of an intermediate, which an MLP kernel cannot return.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=func.return
// CHECK-SAME: FUSE-N002 intermediate-has-other-users:
// CHECK-SAME: 'func.return' uses the result of 'norm', which kernel 'mlp' cannot return
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m, %n : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// An input from outside that only exists after the first member.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=arith.negf
// CHECK-SAME: FUSE-N207 side-input-made-later:
// CHECK-SAME: 'arith.negf' computes an input of 'mlp' after the call of 'norm'
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>, %s: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %s = arith.negf %x : tensor<8xf32>
    %m = fuse.call_module @mlp(%n, %s)
      : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// Hooks on a member, or on a module inside of it, would be bypassed.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=fuse.module
// CHECK-SAME: FUSE-N208 has-hooks:
// CHECK-SAME: 'mlp.up' has hooks accelerate, forward_pre
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    fuse.module @up class "Linear" hooks(["accelerate", "forward_pre"]) {
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// So would a distribution over devices.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=fuse.module
// CHECK-SAME: FUSE-N209 tensor-parallel:
// CHECK-SAME: 'mlp' is distributed as 'colwise'
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" tensor_parallel("colwise") {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// A generated kernel needs every body.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=fuse.module
// CHECK-SAME: FUSE-N212 member-without-body:
// CHECK-SAME: 'mlp' is only declared
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
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

// -----

// A chain that gives nothing.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=fuse.call_module
// CHECK-SAME: FUSE-N214 no-result:
// CHECK-SAME: 'mlp' has no results
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) {
      return
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    fuse.call_module @mlp(%n) : (tensor<8xf32>) -> ()
    return %x : tensor<8xf32>
  }
}

// -----

// The model wants the module left alone.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=fuse.module
// CHECK-SAME: FUSE-N215 held-back:
// CHECK-SAME: 'mlp' stays unfused
fuse.model @m class "M" attributes {fuse.no_fuse = ["mlp"]} {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// What is around a module that is left alone, and what is inside of it, is left
// alone too.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=fuse.module
// CHECK-SAME: FUSE-N215 held-back:
// CHECK-SAME: 'mlp' stays unfused
fuse.model @m class "M" attributes {fuse.no_fuse = ["mlp.up"]} {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    fuse.module @up class "Linear" {
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}

// -----

// CHECK: [Missed] layer.norm+mlp#0
// CHECK-SAME: At=fuse.module
// CHECK-SAME: FUSE-N215 held-back:
// CHECK-SAME: 'layer.norm' stays unfused
fuse.model @m class "M" attributes {fuse.no_fuse = ["layer"]} {
  fuse.module @layer class "Layer" {
    fuse.module @norm class "RMSNorm" {
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        return %x : tensor<8xf32>
      }
    }
    fuse.module @mlp class "MLP" {
      func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
        return %x : tensor<8xf32>
      }
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
}

// -----

// The next member is called in a nested region.

// CHECK: [Missed] norm+mlp#0
// CHECK-SAME: At=fuse.call_module
// CHECK-SAME: FUSE-N010 members-in-different-blocks:
// CHECK-SAME: the call of 'mlp' is in another block
fuse.model @m class "M" {
  fuse.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  fuse.module @mlp class "MLP" {
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      return %x : tensor<8xf32>
    }
  }
  func.func @forward(%x: tensor<8xf32>, %c: i1) -> tensor<8xf32> {
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = scf.if %c -> tensor<8xf32> {
      %i = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      scf.yield %i : tensor<8xf32>
    } else {
      scf.yield %x : tensor<8xf32>
    }
    return %m : tensor<8xf32>
  }
}
