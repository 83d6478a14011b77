// RUN: fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,norm),(MLP,mlp))->Kernel' 2>/dev/null \
// RUN:   | FileCheck %s

// Parameters that a recipe cannot be made of: the site is refused, and says
// what the recipe takes and what is there.

// CHECK-LABEL: nn.model @columns
// CHECK-SAME: FUSE-N217 layout-does-not-fit: recipe 'norm+mlp.w' folds 'tensor<16xbf16>' into 'tensor<16x8xbf16>'; expected a vector with one entry per column
nn.model @columns class "M" {
  nn.kernel @Kernel targets(["cpu"]) weights [#nn.recipe<"w" = fold("1:up", "0:weight") keep>]
  nn.module @norm class "RMSNorm" {
    nn.parameter @weight : tensor<16xbf16>
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

// CHECK-LABEL: nn.model @integers
// CHECK-SAME: FUSE-N217 layout-does-not-fit: recipe 'norm+mlp.w' folds 'tensor<8xbf16>' into 'tensor<16x8xi8>'; expected floating-point numbers
nn.model @integers class "M" {
  nn.kernel @Kernel targets(["cpu"]) weights [#nn.recipe<"w" = fold("1:up", "0:weight") keep>]
  nn.module @norm class "RMSNorm" {
    nn.parameter @weight : tensor<8xbf16>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  nn.module @mlp class "MLP" {
    nn.parameter @up : tensor<16x8xi8>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  func.func @forward(%x: tensor<8xbf16>) -> tensor<8xbf16> {
    %n = nn.call_module @norm(%x) : (tensor<8xbf16>) -> tensor<8xbf16>
    %m = nn.call_module @mlp(%n) : (tensor<8xbf16>) -> tensor<8xbf16>
    return %m : tensor<8xbf16>
  }
}

// CHECK-LABEL: nn.model @stored
// CHECK-SAME: FUSE-N217 layout-does-not-fit: recipe 'norm+mlp.w' quantizes 'tensor<16x8xi8>'; expected floating-point numbers
nn.model @stored class "M" {
  nn.kernel @Kernel targets(["cpu"]) weights [#nn.recipe<"w" = quantize("1:up", i8 scale 0.5) keep>]
  nn.module @norm class "RMSNorm" {
    nn.parameter @weight : tensor<8xbf16>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  nn.module @mlp class "MLP" {
    nn.parameter @up : tensor<16x8xi8>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  func.func @forward(%x: tensor<8xbf16>) -> tensor<8xbf16> {
    %n = nn.call_module @norm(%x) : (tensor<8xbf16>) -> tensor<8xbf16>
    %m = nn.call_module @mlp(%n) : (tensor<8xbf16>) -> tensor<8xbf16>
    return %m : tensor<8xbf16>
  }
}

// CHECK-LABEL: nn.model @scalar
// CHECK-SAME: FUSE-N217 layout-does-not-fit: recipe 'norm+mlp.w' reads rows of 'tensor<bf16>', which has none
nn.model @scalar class "M" {
  nn.kernel @Kernel targets(["cpu"]) weights [#nn.recipe<"w" = concat("0:weight", "1:up") keep>]
  nn.module @norm class "RMSNorm" {
    nn.parameter @weight : tensor<bf16>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  nn.module @mlp class "MLP" {
    nn.parameter @up : tensor<bf16>
    func.func private @forward(tensor<8xbf16>) -> tensor<8xbf16>
  }
  func.func @forward(%x: tensor<8xbf16>) -> tensor<8xbf16> {
    %n = nn.call_module @norm(%x) : (tensor<8xbf16>) -> tensor<8xbf16>
    %m = nn.call_module @mlp(%n) : (tensor<8xbf16>) -> tensor<8xbf16>
    return %m : tensor<8xbf16>
  }
}
