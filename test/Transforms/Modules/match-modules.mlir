// RUN: fuse-opt %s --fuse-match-modules='patterns=((*RMSNorm,layers.*.norm),(MLP,layers.*.mlp))->gated_mlp' | FileCheck %s
// RUN: fuse-opt %s --fuse-match-modules='patterns=(RMSNorm,MLP)->gated_mlp' | FileCheck %s
// RUN: fuse-opt %s --fuse-match-modules='patterns=@norm_mlp->gated_mlp' | FileCheck %s
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*RMSNorm,layers.1.norm),(MLP,layers.1.mlp))->gated_mlp' \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: fuse-opt %s --fuse-match-modules='patterns=(RMSNorm,MLP)->gated_mlp disable=layers.0.norm+mlp#0' \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: fuse-opt %s --fuse-match-modules='patterns=(RMSNorm,MLP)->gated_mlp' \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

// One pattern fuses both layers. It is given by paths, by the classes of a
// declared pattern, or by its name. match-modules-bodies.test inlines and
// undoes the sites.

// The modules and their parameters stay in the model.

// CHECK:      nn.module @norm class "RMSNorm"
// CHECK-NEXT: nn.parameter @weight
// CHECK:      nn.module @mlp class "MLP"
// CHECK:      %[[R:.*]] = fuse.residual_add %arg0, %arg1
// CHECK:      %[[F:.*]] = nn.fused_call gated_mlp [@norm, @mlp](%[[R]])
// CHECK-SAME:   site("layers.0.norm+mlp#0")
// CHECK:      %[[M:.*]] = nn.identity_call @mlp(%[[F]]) interface [-1]
// CHECK-SAME:   site("layers.0.norm+mlp#0") {tag}
// CHECK:      fuse.residual_add %[[R]], %[[M]]
// CHECK:      nn.fused_call gated_mlp [@norm, @mlp]
// CHECK-SAME:   site("layers.1.norm+mlp#0")

// With a literal index, or with the other site disabled, only layer 1 is fused.

// ONE-NOT:    site("layers.0
// ONE:        site("layers.1.norm+mlp#0")

// REMARK:      [Passed] layers.0.norm+mlp#0
// REMARK-SAME:   Kernel=gated_mlp
// REMARK-SAME:   Members="layers.0.norm, layers.0.mlp"
// REMARK:      [Passed] layers.1.norm+mlp#0

nn.model @two_layers class "TwoLayers" {
  nn.fusion_pattern @norm_mlp [("RMSNorm", "layers.*.norm"),
                                 ("MLP", "layers.*.mlp")]
  nn.module @layers class "ModuleList" {
    nn.module @"0" class "Layer" {
      nn.module @norm class "RMSNorm" {
        nn.parameter @weight : tensor<8xbf16>
        func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
          %w = nn.get_parameter @weight : tensor<8xbf16>
          %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
            : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
          return %y : tensor<?x8xbf16>
        }
      }
      nn.module @mlp class "MLP" {
        nn.module @gate class "Linear" {
          nn.parameter @weight : tensor<16x8xbf16>
          func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x16xbf16> {
            %w = nn.get_parameter @weight : tensor<16x8xbf16>
            %y = fuse.linear %x, %w
              : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
            return %y : tensor<?x16xbf16>
          }
        }
        nn.module @up class "Linear" {
          nn.parameter @weight : tensor<16x8xbf16>
          func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x16xbf16> {
            %w = nn.get_parameter @weight : tensor<16x8xbf16>
            %y = fuse.linear %x, %w
              : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
            return %y : tensor<?x16xbf16>
          }
        }
        nn.module @down class "Linear" {
          nn.parameter @weight : tensor<8x16xbf16>
          func.func @forward(%x: tensor<?x16xbf16>) -> tensor<?x8xbf16> {
            %w = nn.get_parameter @weight : tensor<8x16xbf16>
            %y = fuse.linear %x, %w
              : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>
            return %y : tensor<?x8xbf16>
          }
        }
        func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
          %g = nn.call_module @gate(%x)
            : (tensor<?x8xbf16>) -> tensor<?x16xbf16>
          %a = fuse.activation silu %g
            : tensor<?x16xbf16> -> tensor<?x16xbf16>
          %u = nn.call_module @up(%x)
            : (tensor<?x8xbf16>) -> tensor<?x16xbf16>
          %p = fuse.gated_mul %a, %u
            : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
          %d = nn.call_module @down(%p)
            : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
          return %d : tensor<?x8xbf16>
        }
      }
      func.func @forward(%x: tensor<?x8xbf16>, %r: tensor<?x8xbf16>)
          -> tensor<?x8xbf16> {
        %s = fuse.residual_add %x, %r
          : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
        %n = nn.call_module @norm(%s)
          : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
        %m = nn.call_module @mlp(%n) {tag}
          : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
        %y = fuse.residual_add %s, %m
          : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
        return %y : tensor<?x8xbf16>
      }
    }
    nn.module @"1" class "Layer" {
      nn.module @norm class "RMSNorm" {
        nn.parameter @weight : tensor<8xbf16>
        func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
          %w = nn.get_parameter @weight : tensor<8xbf16>
          %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
            : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
          return %y : tensor<?x8xbf16>
        }
      }
      nn.module @mlp class "MLP" {
        func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
          %y = fuse.activation silu %x : tensor<?x8xbf16> -> tensor<?x8xbf16>
          return %y : tensor<?x8xbf16>
        }
      }
      func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
        %n = nn.call_module @norm(%x)
          : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
        %m = nn.call_module @mlp(%n)
          : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
        return %m : tensor<?x8xbf16>
      }
    }
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %0 = nn.call_module @layers::@"0"(%x, %x)
      : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %1 = nn.call_module @layers::@"1"(%0)
      : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %1 : tensor<?x8xbf16>
  }
}
