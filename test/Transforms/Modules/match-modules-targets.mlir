// RUN: fuse-opt %s --fuse-match-modules='patterns=@just_norm->FastNorm target=tpu' \
// RUN:   | FileCheck %s
// RUN: %check_errors %s fuse-opt %s --fuse-match-modules='{}'

// A declared kernel is for the targets that it lists. They need not be chips
// that fuse generates code for.

// CHECK: nn.fused_call @FastNorm [@norm]

// $ patterns=@just_norm->FastNorm target=sm_80
// error: pattern '@just_norm->FastNorm': FUSE-N211 kernel-not-for-target: kernel 'FastNorm' is not for target 'sm_80'; it runs on sm_90, tpu

// $ patterns=@just_norm->FastNorm target=tpv
// error: unknown target 'tpv'; expected one of cpu, sm_80, {{.*}}sm_121a, tpu

nn.model @m class "M" {
  nn.fusion_pattern @just_norm [("RMSNorm", "norm")]
  nn.kernel @FastNorm targets(["sm_90", "tpu"])
  nn.module @norm class "RMSNorm" {
    func.func private @forward(tensor<8xf32>) -> tensor<8xf32>
  }
  func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %n : tensor<8xf32>
  }
}
