// RUN: fuse-bisect %s --patterns='@norm_mlp->Kernel' -- sh -c "! grep -qF 'site(\"a,b.' {}" \
// RUN:   | FileCheck %s
// RUN: fuse-bisect %s --patterns='@norm_mlp->Kernel' -- sh -c "! grep -qF 'site(\"\\C3' {}" \
// RUN:   | FileCheck %s --check-prefix=LETTER
// RUN: fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->Kernel' \
// RUN:     --fuse-unfuse='sites={"a,b.norm+mlp#0","c d.norm+mlp#0"}' \
// RUN:   | FileCheck %s --check-prefix=UNFUSED --implicit-check-not=fused_call

// Modules may be called anything, also what separates options or what is
// printed by its bytes.

// CHECK:      guilty: a,b.norm+mlp#0
// CHECK:      reproduce: {{.*}} disable={"c d.norm+mlp#0","é.norm+mlp#0"}
// LETTER:     guilty: é.norm+mlp#0
// UNFUSED:    nn.fused_call {{.*}} site("\C3\A9.norm+mlp#0")

nn.model @m class "M" {
  nn.fusion_pattern @norm_mlp [("RMSNorm", "*.norm"), ("MLP", "*.mlp")]
  nn.kernel @Kernel targets(["cpu"])
  nn.module @"a,b" class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @mlp class "MLP" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
  nn.module @"c d" class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @mlp class "MLP" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
  nn.module @"\C3\A9" class "Layer" {
    nn.module @norm class "RMSNorm" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    nn.module @mlp class "MLP" {
      func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
    }
    func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
      %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
      %m = nn.call_module @mlp(%n) : (tensor<8xf32>) -> tensor<8xf32>
      return %m : tensor<8xf32>
    }
  }
}
