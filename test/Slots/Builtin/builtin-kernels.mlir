// RUN: fuse-opt %s --fuse-bind-slots=preset=fuse -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: fuse-opt %s --fuse-bind-slots=default=eager | FileCheck %s \
// RUN:   --check-prefix=EAGER

// Each op and variant that fuse generates a kernel for. Eager bodies share
// nothing with the kernels: they have no op of the fuse dialect.

// EAGER-NOT: fuse.{{rms_norm|layer_norm|rotary|activation|gated|cross|moe}}

// CHECK-LABEL: nn.slot @rms_norm_standard op
// CHECK:         func.func @body
// CHECK:           fuse.rms_norm %{{.*}} weight(%{{.*}}) eps 9.9{{.*}}e-07 :
nn.slot @rms_norm_standard op "rms_norm" variant "standard"
    params {eps = 1.0e-6 : f32}
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16> {}
func.func @call_rms_norm_standard(%x0: tensor<?x64xbf16>, %x1: tensor<64xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @rms_norm_standard(%x0, %x1)
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @rms_norm_unweighted op
// CHECK:         func.func @body
// CHECK:           fuse.rms_norm %{{.*}} eps 0.5 :
nn.slot @rms_norm_unweighted op "rms_norm" variant "unweighted"
    params {eps = 0.5 : f64}
    : (tensor<?x64xbf16>) -> tensor<?x64xbf16> {}
func.func @call_rms_norm_unweighted(%x0: tensor<?x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @rms_norm_unweighted(%x0)
    : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @rms_norm_offset1_f32 op
// CHECK:         func.func @body
// CHECK:           fuse.rms_norm {{.*}} offset 1 cast after_weight :
nn.slot @rms_norm_offset1_f32 op "rms_norm" variant "offset1_f32"
    params {eps = 0.5 : f32}
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16> {}
func.func @call_rms_norm_offset1_f32(%x0: tensor<?x64xbf16>,
                                     %x1: tensor<64xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @rms_norm_offset1_f32(%x0, %x1)
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @layer_norm_standard op
// CHECK:         func.func @body
// CHECK:           fuse.layer_norm {{.*}} weight({{.*}}) bias({{.*}}) eps 0.5 :
nn.slot @layer_norm_standard op "layer_norm" variant "standard"
    params {eps = 0.5 : f32}
    : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16>)
      -> tensor<?x64xbf16> {}
func.func @call_layer_norm_standard(%x0: tensor<?x64xbf16>,
                                    %x1: tensor<64xbf16>, %x2: tensor<64xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @layer_norm_standard(%x0, %x1, %x2)
    : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @apply_rotary_pos_emb_full op
// CHECK:         func.func @body
// CHECK:           fuse.rotary %[[Q:.*]] cos(%[[C:.*]]) sin(%[[S:.*]]) :
// CHECK:           fuse.rotary %{{.*}} cos(%[[C]]) sin(%[[S]]) :
nn.slot @apply_rotary_pos_emb_full op "apply_rotary_pos_emb" variant "full"
    : (tensor<2x6x?x16xbf16>, tensor<2x2x?x16xbf16>, tensor<1x?x16xbf16>,
       tensor<1x?x16xbf16>) -> (tensor<2x6x?x16xbf16>, tensor<2x2x?x16xbf16>) {}
func.func @call_apply_rotary_pos_emb_full(%x0: tensor<2x6x?x16xbf16>,
                                          %x1: tensor<2x2x?x16xbf16>,
                                          %x2: tensor<1x?x16xbf16>,
                                          %x3: tensor<1x?x16xbf16>)
    -> (tensor<2x6x?x16xbf16>, tensor<2x2x?x16xbf16>) {
  %y:2 = nn.call_slot @apply_rotary_pos_emb_full(%x0, %x1, %x2, %x3)
    : (tensor<2x6x?x16xbf16>, tensor<2x2x?x16xbf16>, tensor<1x?x16xbf16>,
       tensor<1x?x16xbf16>) -> (tensor<2x6x?x16xbf16>, tensor<2x2x?x16xbf16>)
  return %y#0, %y#1 : tensor<2x6x?x16xbf16>, tensor<2x2x?x16xbf16>
}

// CHECK-LABEL: nn.slot @apply_rotary_pos_emb_partial op
// CHECK:         func.func @body
// CHECK:           fuse.rotary {{.*}} heads 2 :
// CHECK:           fuse.rotary {{.*}} heads 2 :
nn.slot @apply_rotary_pos_emb_partial op "apply_rotary_pos_emb"
    variant "partial" params {unsqueeze_dim = 2 : i64}
    : (tensor<2x?x6x24xbf16>, tensor<2x?x2x24xbf16>, tensor<1x?x16xbf16>,
       tensor<1x?x16xbf16>) -> (tensor<2x?x6x24xbf16>, tensor<2x?x2x24xbf16>) {}
func.func @call_apply_rotary_pos_emb_partial(%x0: tensor<2x?x6x24xbf16>,
    %x1: tensor<2x?x2x24xbf16>, %x2: tensor<1x?x16xbf16>,
    %x3: tensor<1x?x16xbf16>)
    -> (tensor<2x?x6x24xbf16>, tensor<2x?x2x24xbf16>) {
  %y:2 = nn.call_slot @apply_rotary_pos_emb_partial(%x0, %x1, %x2, %x3)
    : (tensor<2x?x6x24xbf16>, tensor<2x?x2x24xbf16>, tensor<1x?x16xbf16>,
       tensor<1x?x16xbf16>) -> (tensor<2x?x6x24xbf16>, tensor<2x?x2x24xbf16>)
  return %y#0, %y#1 : tensor<2x?x6x24xbf16>, tensor<2x?x2x24xbf16>
}

// CHECK-LABEL: nn.slot @act_and_mul_silu op
// CHECK:         func.func @body
// CHECK:           %[[A:.*]] = fuse.activation silu
// CHECK:           fuse.gated_mul %[[A]]
nn.slot @act_and_mul_silu op "act_and_mul" variant "silu"
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16> {}
func.func @call_act_and_mul_silu(%x0: tensor<?x64xbf16>, %x1: tensor<?x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @act_and_mul_silu(%x0, %x1)
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @act_and_mul_gelu_tanh op
// CHECK:         func.func @body
// CHECK:           fuse.activation gelu_tanh
nn.slot @act_and_mul_gelu_tanh op "act_and_mul" variant "gelu_tanh"
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16> {}
func.func @call_act_and_mul_gelu_tanh(%x0: tensor<?x64xbf16>,
                                      %x1: tensor<?x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @act_and_mul_gelu_tanh(%x0, %x1)
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @act_and_mul_gelu op
// CHECK:         func.func @body
// CHECK:           fuse.activation gelu %
nn.slot @act_and_mul_gelu op "act_and_mul" variant "gelu"
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16> {}
func.func @call_act_and_mul_gelu(%x0: tensor<?x64xbf16>, %x1: tensor<?x64xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @act_and_mul_gelu(%x0, %x1)
    : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @swiglu_mlp_standard op
// CHECK:         func.func @body
// CHECK:           fuse.gated_mlp {{.*}} act(silu) rounding(exact)
nn.slot @swiglu_mlp_standard op "swiglu_mlp" variant "standard"
    : (tensor<?x64xbf16>, tensor<96x64xbf16>, tensor<96x64xbf16>,
       tensor<64x96xbf16>) -> tensor<?x64xbf16> {}
func.func @call_swiglu_mlp_standard(%x0: tensor<?x64xbf16>,
                                    %x1: tensor<96x64xbf16>,
                                    %x2: tensor<96x64xbf16>,
                                    %x3: tensor<64x96xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @swiglu_mlp_standard(%x0, %x1, %x2, %x3)
    : (tensor<?x64xbf16>, tensor<96x64xbf16>, tensor<96x64xbf16>,
       tensor<64x96xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @geglu_mlp_gelu_tanh op
// CHECK:         func.func @body
// CHECK:           fuse.gated_mlp {{.*}} act(gelu_tanh)
nn.slot @geglu_mlp_gelu_tanh op "geglu_mlp" variant "gelu_tanh"
    : (tensor<?x64xbf16>, tensor<96x64xbf16>, tensor<96x64xbf16>,
       tensor<64x96xbf16>) -> tensor<?x64xbf16> {}
func.func @call_geglu_mlp_gelu_tanh(%x0: tensor<?x64xbf16>,
                                    %x1: tensor<96x64xbf16>,
                                    %x2: tensor<96x64xbf16>,
                                    %x3: tensor<64x96xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @geglu_mlp_gelu_tanh(%x0, %x1, %x2, %x3)
    : (tensor<?x64xbf16>, tensor<96x64xbf16>, tensor<96x64xbf16>,
       tensor<64x96xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @geglu_mlp_gelu op
// CHECK:         func.func @body
// CHECK:           fuse.gated_mlp {{.*}} act(gelu)
nn.slot @geglu_mlp_gelu op "geglu_mlp" variant "gelu"
    : (tensor<?x64xbf16>, tensor<96x64xbf16>, tensor<96x64xbf16>,
       tensor<64x96xbf16>) -> tensor<?x64xbf16> {}
func.func @call_geglu_mlp_gelu(%x0: tensor<?x64xbf16>, %x1: tensor<96x64xbf16>,
                               %x2: tensor<96x64xbf16>, %x3: tensor<64x96xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @geglu_mlp_gelu(%x0, %x1, %x2, %x3)
    : (tensor<?x64xbf16>, tensor<96x64xbf16>, tensor<96x64xbf16>,
       tensor<64x96xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// CHECK-LABEL: nn.slot @cross_entropy_loss_causal op
// CHECK:         func.func @body
// CHECK:           fuse.cross_entropy %{{.*}}, %{{.*}} mean causal :
nn.slot @cross_entropy_loss_causal op "cross_entropy_loss" variant "causal"
    : (tensor<2x?x1000xbf16>, tensor<2x?xi64>) -> tensor<f32> {}
func.func @call_cross_entropy_loss_causal(%x0: tensor<2x?x1000xbf16>,
                                          %x1: tensor<2x?xi64>)
    -> tensor<f32> {
  %y = nn.call_slot @cross_entropy_loss_causal(%x0, %x1)
    : (tensor<2x?x1000xbf16>, tensor<2x?xi64>) -> tensor<f32>
  return %y : tensor<f32>
}

// CHECK-LABEL: nn.slot @cross_entropy_loss_causal_items op
// CHECK:         func.func @body
// CHECK:           fuse.cross_entropy {{.*}} items({{.*}}) sum causal
// CHECK-SAME:        ignore_index 0 :
nn.slot @cross_entropy_loss_causal_items op "cross_entropy_loss"
    variant "causal" params {ignore_index = 0 : i64}
    : (tensor<2x?x1000xbf16>, tensor<2x?xi64>, tensor<i64>) -> tensor<f32> {}
func.func @call_cross_entropy_loss_causal_items(%x0: tensor<2x?x1000xbf16>,
    %x1: tensor<2x?xi64>, %x2: tensor<i64>)
    -> tensor<f32> {
  %y = nn.call_slot @cross_entropy_loss_causal_items(%x0, %x1, %x2)
    : (tensor<2x?x1000xbf16>, tensor<2x?xi64>, tensor<i64>) -> tensor<f32>
  return %y : tensor<f32>
}

// CHECK-LABEL: nn.slot @moe_experts_standard op
// CHECK:         func.func @body
// CHECK:           fuse.moe_experts {{.*}} act(gelu) :
nn.slot @moe_experts_standard op "moe_experts" variant "standard"
    params {act = "gelu"}
    : (tensor<?x64xbf16>, tensor<?x2xi64>, tensor<?x2xbf16>,
       tensor<4x192x64xbf16>, tensor<4x64x96xbf16>) -> tensor<?x64xbf16> {}
func.func @call_moe_experts_standard(%x0: tensor<?x64xbf16>,
                                     %x1: tensor<?x2xi64>,
                                     %x2: tensor<?x2xbf16>,
                                     %x3: tensor<4x192x64xbf16>,
                                     %x4: tensor<4x64x96xbf16>)
    -> tensor<?x64xbf16> {
  %y = nn.call_slot @moe_experts_standard(%x0, %x1, %x2, %x3, %x4)
    : (tensor<?x64xbf16>, tensor<?x2xi64>, tensor<?x2xbf16>,
       tensor<4x192x64xbf16>, tensor<4x64x96xbf16>) -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
