// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,mlp),(*,norm))->Kernel' \
// RUN:   --fuse-check-contracts -verify-diagnostics
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,norm),(*,mlp))->Kernel' \
// RUN:   --fuse-check-contracts | FileCheck %s

// The order of members in a pattern is that of the data, not that of the
// children: the MLP is declared before the norm.

// CHECK: nn.fused_call @Kernel [@norm, @mlp]

// expected-warning @below {{fuses nothing}}
// expected-note @below {{'mlp': mlp+norm#0: FUSE-N206 not-a-chain: the result of 'mlp' goes to 'func.return'}}
// expected-error @below {{must fuse 'mlp': 1 of 1 modules are not fused}}
nn.model @m class "M" attributes {fuse.must_fuse = ["mlp"]} {
  nn.kernel @Kernel targets(["cpu"])
  nn.module @mlp class "MLP" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
    return %m : tensor<8xf32>
  }
}
