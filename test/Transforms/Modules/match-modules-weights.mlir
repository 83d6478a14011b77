// RUN: fuse-opt %s -split-input-file -verify-diagnostics \
// RUN:   --fuse-match-modules='patterns=((*,**.norm),(*,**.mlp))->Kernel' \
// RUN:   | FileCheck %s

// The weights that a declared kernel stores, with the parameters of each site.

// CHECK-LABEL: fuse.model @layers
// CHECK:      fuse.fused_call @Kernel [@norm, @mlp]
// CHECK-SAME:   site("0.norm+mlp#0") weights
// CHECK-SAME:   [#fuse.recipe<"0.norm+mlp.gate_up" = interleave(@mlp::@gate::@weight, @mlp::@up::@weight block 2)>,
// CHECK-SAME:    #fuse.recipe<"0.norm+mlp.down8" = quantize(@mlp::@down, i8 scale 0.5) keep>]

// The second call of the same members stores the same.

// CHECK:      fuse.fused_call @Kernel [@norm, @mlp]
// CHECK-SAME:   site("0.norm+mlp#1") weights
// CHECK-SAME:   #fuse.recipe<"0.norm+mlp.gate_up" =
fuse.model @layers class "M" {
  fuse.kernel @Kernel targets(["cpu"]) weights [
    #fuse.recipe<"gate_up" =
      interleave("1:gate.weight", "1:up.weight" block 2)>,
    #fuse.recipe<"down8" = quantize("1:down", i8 scale 0.5) keep>]
  fuse.module @"0" class "Layer" {
    fuse.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    fuse.module @mlp class "MLP" {
      fuse.module @gate class "Linear" {
        fuse.parameter @weight : tensor<16x8xf32>
        func.func private @forward(tensor<8xf32>) -> tensor<16xf32>
      }
      fuse.module @up class "Linear" {
        fuse.parameter @weight : tensor<16x8xf32>
      }
      fuse.parameter @down : tensor<8x16xf32>
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      %o = fuse.call_module @norm(%m) : (tensor<8xf32>) -> tensor<8xf32>
      %p = fuse.call_module @mlp(%o) : (tensor<8xf32>) -> tensor<8xf32>
      return %p : tensor<8xf32>
    }
  }
}

// -----

// A recipe that rounds and forgets the parameter could not be undone.

// CHECK-LABEL: fuse.model @lossy
// CHECK-SAME: FUSE-N216 lossy-layout: kernel 'Kernel' stores 'folded', a fold that rounds without 'keep'
// CHECK-NOT: fuse.fused_call
// expected-warning @below {{fuses nothing; site 'norm+mlp#0' is refused: FUSE-N216 lossy-layout}}
fuse.model @lossy class "M" {
  fuse.kernel @Kernel targets(["cpu"])
    weights [#fuse.recipe<"folded" = fold("1:up", "0:weight")>]
  fuse.module @norm class "RMSNorm" {
    fuse.parameter @weight : tensor<8xbf16>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  fuse.module @mlp class "MLP" {
    fuse.parameter @up : tensor<16x8xbf16>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  func.func @forward(%x: tensor<8xbf16>) -> tensor<8xbf16> {
    %n = fuse.call_module @norm(%x) : (tensor<8xbf16>) -> tensor<8xbf16>
    %m = fuse.call_module @mlp(%n) : (tensor<8xbf16>) -> tensor<8xbf16>
    return %m : tensor<8xbf16>
  }
}

// -----

// A member without the parameter, and one whose parameters have other shapes.

// CHECK-LABEL: fuse.model @unfit
// CHECK-SAME: FUSE-N217 layout-does-not-fit: recipe 'gate_up' reads 'gate', which 'a.mlp' does not have
// CHECK-SAME: FUSE-N217 layout-does-not-fit: recipe 'b.norm+mlp.gate_up' combines 'mlp.gate' of type
// CHECK-NOT: fuse.fused_call
// expected-warning @below {{fuses nothing; site 'a.norm+mlp#0' is refused: FUSE-N217 layout-does-not-fit}}
fuse.model @unfit class "M" {
  fuse.kernel @Kernel targets(["cpu"])
    weights [#fuse.recipe<"gate_up" = concat("1:gate", "1:up")>]
  fuse.module @a class "Layer" {
    fuse.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    fuse.module @mlp class "MLP" {
      fuse.parameter @up : tensor<16x8xf32>
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
  fuse.module @b class "Layer" {
    fuse.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    fuse.module @mlp class "MLP" {
      fuse.parameter @gate : tensor<16x4xf32>
      fuse.parameter @up : tensor<16x8xf32>
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
}

// -----

// Two layers whose weights are tied, each stored under its own name: two
// layouts of one tensor.

fuse.model @tied class "M" {
  fuse.kernel @Kernel targets(["cpu"])
    weights [#fuse.recipe<"gate_up" = concat("1:gate", "1:up")>]
  fuse.module @a class "Layer" {
    fuse.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    fuse.module @mlp class "MLP" {
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
  fuse.module @b class "Layer" {
    fuse.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    fuse.module @mlp class "MLP" {
      fuse.parameter @gate tied_to(@a::@mlp::@gate) : tensor<16x8xf32>
      fuse.parameter @up : tensor<16x8xf32>
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      // expected-error @below {{parameter 'b.mlp.gate' is needed in two layouts: as #fuse.recipe<"b.norm+mlp.gate_up" = concat(@mlp::@gate, @mlp::@up)> by site 'b.norm+mlp#0' and as #fuse.recipe<"a.norm+mlp.gate_up" = concat(@mlp::@gate, @mlp::@up)> by site 'a.norm+mlp#0'}}
      %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
}

// -----

// One call of the MLP is refused, and reads the weights as they are.

fuse.model @unfused_call class "M" {
  fuse.kernel @Kernel targets(["cpu"])
    weights [#fuse.recipe<"gate_up" = concat("1:gate", "1:up")>]
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  fuse.module @mlp class "MLP" {
    fuse.parameter @gate : tensor<16x8xf32>
    fuse.parameter @up : tensor<16x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{site 'norm+mlp#0' stores 'mlp.gate' as 'norm+mlp.gate_up', and 'mlp' reads the original; write 'keep' to store it as well}}
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    %o = fuse.call_module @mlp(%m) : (tensor<8xf32>) -> tensor<8xf32>
    return %o : tensor<8xf32>
  }
}

// -----

// The name of what is stored is taken.

fuse.model @taken class "M" {
  fuse.kernel @Kernel targets(["cpu"])
    weights [#fuse.recipe<"w" = concat("1:gate", "1:up")>]
  fuse.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  fuse.module @mlp class "MLP" {
    fuse.parameter @gate : tensor<16x8xf32>
    fuse.parameter @up : tensor<16x8xf32>
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  fuse.module @"norm+mlp" class "Odd" {
    fuse.parameter @w : tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    // expected-error @below {{site 'norm+mlp#0' stores 'norm+mlp.w', which is the name of a parameter}}
    %n = fuse.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = fuse.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}
