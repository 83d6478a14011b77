// RUN: fuse-opt %s -split-input-file -verify-diagnostics \
// RUN:   --fuse-match-modules='patterns=((*,**.norm),(*,**.mlp))->mlp' \
// RUN:   --fuse-inline-modules --fuse-form-kernels \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark | FileCheck %s
// RUN: fuse-opt %s -split-input-file -o /dev/null \
// RUN:   --fuse-check-unfuse='patterns=((*,**.norm),(*,**.mlp))->mlp'

// Chains of modules that other matchers are known to get wrong. Each is fused
// correctly, or refused with its reason.

// A reshape or a cast between two members is not visible to a matcher that only
// looks at modules. The refusal names it.

// CHECK-LABEL: nn.model @reshape_between
// CHECK-NOT: nn.fused_call
// expected-warning @below {{fuses nothing}}
nn.model @reshape_between class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
      %y = fuse.rms_norm %x eps 1.0e-6
        : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
      return %y : tensor<2x4x8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<8x8xf32>) -> tensor<8x8xf32>
  }
  func.func @forward(%x: tensor<2x4x8xf32>) -> tensor<8x8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    // expected-remark-re @below {{[Missed] norm+mlp#0 | {{.*}}FUSE-N206 not-a-chain: {{.*}}the result of 'norm' goes to 'tensor.collapse_shape'}}
    %f = tensor.collapse_shape %n [[0, 1], [2]]
      : tensor<2x4x8xf32> into tensor<8x8xf32>
    %m = nn.call_module @mlp(%f) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %m : tensor<8x8xf32>
  }
}

// -----

// CHECK-LABEL: nn.model @cast_between
// CHECK-NOT: nn.fused_call
// expected-warning @below {{fuses nothing}}
nn.model @cast_between class "M" {
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8x8xf32>) -> tensor<8x8xf32>
  }
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<8x8xbf16>) -> tensor<8x8xbf16>
  }
  func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xbf16> {
    %n = nn.call_module @norm(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    // expected-remark-re @below {{[Missed] norm+mlp#0 | {{.*}}FUSE-N206 not-a-chain: {{.*}}the result of 'norm' goes to 'arith.truncf'}}
    %c = arith.truncf %n : tensor<8x8xf32> to tensor<8x8xbf16>
    %m = nn.call_module @mlp(%c) : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
    return %m : tensor<8x8xbf16>
  }
}

// -----

// A norm also returns the residual stream, which has no user. An unused result
// is not a second user, and the kernel has the residual as an argument.

// CHECK-LABEL: nn.model @dead_residual
// CHECK:      nn.fused_call mlp [@norm, @mlp](%arg0, %arg1) site(
// CHECK:      func.func @"norm+mlp#0"(%arg0: tensor<8x8xf32>,
// CHECK-SAME:   %arg1: tensor<8x8xf32>, %arg2: tensor<8x8xf32> {
// CHECK-NEXT: fuse.mlp %arg0 residual(%arg1) norm(rms eps 1.0e-06)
// CHECK-SAME:   up(%arg2) down(%arg2) act(silu) rounding(exact)
nn.model @dead_residual class "M" {
  nn.module @norm class "AddRMSNorm" {
    func.func @forward(%x: tensor<8x8xf32>, %r: tensor<8x8xf32>)
        -> (tensor<8x8xf32>, tensor<8x8xf32>) {
      // expected-remark @below {{[Passed] norm+mlp#0#1 | Category:fuse:fuse-form-kernels}}
      %s = fuse.residual_add %x, %r
        : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %y = fuse.rms_norm %s eps 1.0e-6 : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %y, %s : tensor<8x8xf32>, tensor<8x8xf32>
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
  func.func @forward(%x: tensor<8x8xf32>, %r: tensor<8x8xf32>)
      -> tensor<8x8xf32> {
    // expected-remark @below {{[Passed] norm+mlp#0}}
    %n:2 = nn.call_module @norm(%x, %r)
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)
    %m = nn.call_module @mlp(%n#0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %m : tensor<8x8xf32>
  }
}

// -----

// The kernel has eps, weight type and cast of the norm in its chain, not those
// of another norm.

// CHECK-LABEL: nn.model @two_norms
// CHECK:      func.func @"a.norm+mlp#0"
// CHECK-SAME:   %arg1: tensor<8xf32> {fuse.parameter = @two_norms::@a::@norm::@w}
// CHECK-NEXT: fuse.mlp %arg0 norm(rms %arg1 eps 0.125 cast after_weight)
// CHECK:      func.func @"b.norm+mlp#0"
// CHECK-SAME:   %arg1: tensor<8xbf16> {fuse.parameter = @two_norms::@b::@norm::@w}
// CHECK-NEXT: fuse.mlp %arg0 norm(rms %arg1 eps 0.25)
nn.model @two_norms class "M" {
  nn.module @a class "Layer" {
    nn.module @norm class "RMSNorm" {
      nn.parameter @w : tensor<8xf32>
      func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
        %w = nn.get_parameter @w : tensor<8xf32>
        // expected-remark @below {{[Passed] a.norm+mlp#0#1 | Category:fuse:fuse-form-kernels}}
        %y = fuse.rms_norm %x weight(%w) eps 0.125 cast after_weight
          : (tensor<?x8xbf16>, tensor<8xf32>) -> tensor<?x8xbf16>
        return %y : tensor<?x8xbf16>
      }
    }
    nn.module @mlp class "MLP" {
      nn.parameter @w : tensor<8x8xbf16>
      func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
        %w = nn.get_parameter @w : tensor<8x8xbf16>
        %u = fuse.linear %x, %w
          : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
        %a = fuse.activation silu %u : tensor<?x8xbf16> -> tensor<?x8xbf16>
        %d = fuse.linear %a, %w
          : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
        return %d : tensor<?x8xbf16>
      }
    }
    func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
      // expected-remark @below {{[Passed] a.norm+mlp#0}}
      %n = nn.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
      %m = nn.call_module @mlp(%n) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
      return %m : tensor<?x8xbf16>
    }
  }
  nn.module @b class "Layer" {
    nn.module @norm class "RMSNorm" {
      nn.parameter @w : tensor<8xbf16>
      func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
        %w = nn.get_parameter @w : tensor<8xbf16>
        // expected-remark @below {{[Passed] b.norm+mlp#0#1 | Category:fuse:fuse-form-kernels}}
        %y = fuse.rms_norm %x weight(%w) eps 0.25
          : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
        return %y : tensor<?x8xbf16>
      }
    }
    nn.module @mlp class "MLP" {
      nn.parameter @w : tensor<8x8xbf16>
      func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
        %w = nn.get_parameter @w : tensor<8x8xbf16>
        %u = fuse.linear %x, %w
          : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
        %a = fuse.activation silu %u : tensor<?x8xbf16> -> tensor<?x8xbf16>
        %d = fuse.linear %a, %w
          : (tensor<?x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xbf16>
        return %d : tensor<?x8xbf16>
      }
    }
    func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
      // expected-remark @below {{[Passed] b.norm+mlp#0}}
      %n = nn.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
      %m = nn.call_module @mlp(%n) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
      return %m : tensor<?x8xbf16>
    }
  }
}
