// RUN: fuse-opt %s -split-input-file -verify-diagnostics \
// RUN:   --fuse-match-modules='patterns=((*,**.norm),(*,**.mlp))->Kernel' \
// RUN:   | FileCheck %s

// The weights that a declared kernel stores, with the parameters of each site.

// CHECK-LABEL: nn.model @layers
// CHECK:      nn.fused_call @Kernel [@norm, @mlp]
// CHECK-SAME:   site("0.norm+mlp#0") weights
// CHECK-SAME:   [#nn.recipe<"0.norm+mlp.gate_up" = interleave(@mlp::@gate::@weight, @mlp::@up::@weight block 2)>,
// CHECK-SAME:    #nn.recipe<"0.norm+mlp.down8" = quantize(@mlp::@down, i8 scale 0.5) keep>]

// The second call of the same members stores the same.

// CHECK:      nn.fused_call @Kernel [@norm, @mlp]
// CHECK-SAME:   site("0.norm+mlp#1") weights
// CHECK-SAME:   #nn.recipe<"0.norm+mlp.gate_up" =
nn.model @layers class "M" {
  nn.kernel @Kernel targets(["cpu"]) weights [
    #nn.recipe<"gate_up" =
      interleave("1:gate.weight", "1:up.weight" block 2)>,
    #nn.recipe<"down8" = quantize("1:down", i8 scale 0.5) keep>]
  nn.module @"0" class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @mlp class "MLP" {
      nn.module @gate class "Linear" {
        nn.parameter @weight : tensor<16x8xf32>
        func.func private @forward(tensor<8xf32>) -> tensor<16xf32>
      }
      nn.module @up class "Linear" {
        nn.parameter @weight : tensor<16x8xf32>
      }
      nn.parameter @down : tensor<8x16xf32>
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      %o = nn.call_module @norm(%m) : (tensor<8xf32>) -> tensor<8xf32>
      %p = nn.call_module @mlp(%o) : (tensor<8xf32>) -> tensor<8xf32>
      return %p : tensor<8xf32>
    }
  }
}

// -----

// A recipe that rounds and forgets the parameter could not be undone.

// CHECK-LABEL: nn.model @lossy
// CHECK-SAME: FUSE-N216 lossy-layout: kernel 'Kernel' stores 'folded', a fold that rounds without 'keep'
// CHECK-NOT: nn.fused_call
// expected-warning @below {{fuses nothing; site 'norm+mlp#0' is refused: FUSE-N216 lossy-layout}}
nn.model @lossy class "M" {
  nn.kernel @Kernel targets(["cpu"])
    weights [#nn.recipe<"folded" = fold("1:up", "0:weight")>]
  nn.module @norm class "RMSNorm" {
    nn.parameter @weight : tensor<8xbf16>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  nn.module @mlp class "MLP" {
    nn.parameter @up : tensor<16x8xbf16>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  func.func @forward(%x: tensor<8xbf16>) -> tensor<8xbf16> {
    %n = nn.call_module @norm(%x) : (tensor<8xbf16>) -> tensor<8xbf16>
    %m = nn.call_module @mlp(%n) : (tensor<8xbf16>) -> tensor<8xbf16>
    return %m : tensor<8xbf16>
  }
}

// -----

// A member without the parameter, and one whose parameters have other shapes.

// CHECK-LABEL: nn.model @unfit
// CHECK-SAME: FUSE-N217 layout-does-not-fit: recipe 'gate_up' reads 'gate', which 'a.mlp' does not have
// CHECK-SAME: FUSE-N217 layout-does-not-fit: recipe 'b.norm+mlp.gate_up' combines 'mlp.gate' of type
// CHECK-NOT: nn.fused_call
// expected-warning @below {{fuses nothing; site 'a.norm+mlp#0' is refused: FUSE-N217 layout-does-not-fit}}
nn.model @unfit class "M" {
  nn.kernel @Kernel targets(["cpu"])
    weights [#nn.recipe<"gate_up" = concat("1:gate", "1:up")>]
  nn.module @a class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @mlp class "MLP" {
      nn.parameter @up : tensor<16x8xf32>
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
  nn.module @b class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @mlp class "MLP" {
      nn.parameter @gate : tensor<16x4xf32>
      nn.parameter @up : tensor<16x8xf32>
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
}

// -----

// Two layers whose weights are tied, each stored under its own name: two
// layouts of one tensor.

nn.model @tied class "M" {
  nn.kernel @Kernel targets(["cpu"])
    weights [#nn.recipe<"gate_up" = concat("1:gate", "1:up")>]
  nn.module @a class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @mlp class "MLP" {
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
  nn.module @b class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @mlp class "MLP" {
      nn.parameter @gate tied_to(@a::@mlp::@gate) : tensor<16x8xf32>
      nn.parameter @up : tensor<16x8xf32>
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      // expected-error @below {{parameter 'b.mlp.gate' is needed in two layouts: as #nn.recipe<"b.norm+mlp.gate_up" = concat(@mlp::@gate, @mlp::@up)> by site 'b.norm+mlp#0' and as #nn.recipe<"a.norm+mlp.gate_up" = concat(@mlp::@gate, @mlp::@up)> by site 'a.norm+mlp#0'}}
      %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
}

// -----

// One call of the MLP is refused, and reads the weights as they are.

nn.model @unfused_call class "M" {
  nn.kernel @Kernel targets(["cpu"])
    weights [#nn.recipe<"gate_up" = concat("1:gate", "1:up")>]
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @mlp class "MLP" {
    nn.parameter @gate : tensor<16x8xf32>
    nn.parameter @up : tensor<16x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{site 'norm+mlp#0' stores 'mlp.gate' as 'norm+mlp.gate_up', and 'mlp' reads the original; write 'keep' to store it as well}}
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    %o = nn.call_module @mlp(%m) : (tensor<8xf32>) -> tensor<8xf32>
    return %o : tensor<8xf32>
  }
}

// -----

// The name of what is stored is taken.

nn.model @taken class "M" {
  nn.kernel @Kernel targets(["cpu"])
    weights [#nn.recipe<"w" = concat("1:gate", "1:up")>]
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @mlp class "MLP" {
    nn.parameter @gate : tensor<16x8xf32>
    nn.parameter @up : tensor<16x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @"norm+mlp" class "Odd" {
    nn.parameter @w : tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{site 'norm+mlp#0' stores 'norm+mlp.w', which is the name of a parameter}}
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}
