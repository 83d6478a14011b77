// A model of two layers as a tree of modules. The commands list and explain its
// sites, fuse by path, verify, undo, and store weights as kernels read them.
// They are explained in docs/explanation/module-fusion.md.
//
//   fuse-opt decoder-model.mlir --fuse-list-modules=paths=layers.*.*
//   fuse-explain decoder-model.mlir --patterns='@norm_mlp->gated_mlp'
//   fuse-opt decoder-model.mlir \
//     --fuse-match-modules='patterns=@norm_mlp->gated_mlp' \
//     --fuse-inline-modules --fuse-form-kernels --fuse-check-contracts \
//     -o fused.mlir
//   fuse-run fused.mlir --verify
//   fuse-opt fused.mlir --fuse-unfuse
//   fuse-opt fused.mlir --fuse-unfuse=paths=layers.0.mlp
//   fuse-opt fused.mlir -o packed.mlir \
//     --fuse-pack-weights='layouts=gate_up=concat(1:gate_proj.weight,1:up_proj.weight)'
//   fuse-weights pack packed.mlir model.safetensors -o packed.safetensors
//   fuse-run packed.mlir --weights=packed.safetensors --print

// With `must_fuse`, an MLP that is not part of a kernel is an error.
nn.model @decoder class "DecoderModel"
    attributes {fuse.must_fuse = ["layers.*.mlp"], fuse.expect_sites = 2} {
  nn.fusion_pattern @norm_mlp [("RMSNorm", "layers.*.norm"),
                                 ("GatedMLP", "layers.*.mlp")]
  nn.module @layers class "ModuleList" {
    nn.module @"0" class "DecoderLayer" {
      nn.module @norm class "RMSNorm" {
        nn.parameter @weight : tensor<64xbf16>
        func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
          %w = nn.get_parameter @weight : tensor<64xbf16>
          %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
            : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
          return %y : tensor<?x64xbf16>
        }
      }
      nn.module @mlp class "GatedMLP" {
        nn.module @gate_proj class "Linear" {
          nn.parameter @weight : tensor<128x64xbf16>
          func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
            %w = nn.get_parameter @weight : tensor<128x64xbf16>
            %y = fuse.linear %x, %w
              : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xbf16>
            return %y : tensor<?x128xbf16>
          }
        }
        nn.module @up_proj class "Linear" {
          nn.parameter @weight : tensor<128x64xbf16>
          func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
            %w = nn.get_parameter @weight : tensor<128x64xbf16>
            %y = fuse.linear %x, %w
              : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xbf16>
            return %y : tensor<?x128xbf16>
          }
        }
        nn.module @down_proj class "Linear" {
          nn.parameter @weight : tensor<64x128xbf16>
          func.func @forward(%x: tensor<?x128xbf16>) -> tensor<?x64xbf16> {
            %w = nn.get_parameter @weight : tensor<64x128xbf16>
            %y = fuse.linear %x, %w
              : (tensor<?x128xbf16>, tensor<64x128xbf16>) -> tensor<?x64xbf16>
            return %y : tensor<?x64xbf16>
          }
        }
        func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
          %g = nn.call_module @gate_proj(%x)
            : (tensor<?x64xbf16>) -> tensor<?x128xbf16>
          %a = fuse.activation silu %g : tensor<?x128xbf16> -> tensor<?x128xbf16>
          %u = nn.call_module @up_proj(%x)
            : (tensor<?x64xbf16>) -> tensor<?x128xbf16>
          %p = fuse.gated_mul %a, %u
            : (tensor<?x128xbf16>, tensor<?x128xbf16>) -> tensor<?x128xbf16>
          %d = nn.call_module @down_proj(%p)
            : (tensor<?x128xbf16>) -> tensor<?x64xbf16>
          return %d : tensor<?x64xbf16>
        }
      }
      func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
        %n = nn.call_module @norm(%x)
          : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
        %m = nn.call_module @mlp(%n)
          : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
        %y = fuse.residual_add %x, %m
          : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
        return %y : tensor<?x64xbf16>
      }
    }
    nn.module @"1" class "DecoderLayer" {
      nn.module @norm class "RMSNorm" {
        nn.parameter @weight : tensor<64xbf16>
        func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
          %w = nn.get_parameter @weight : tensor<64xbf16>
          %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
            : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
          return %y : tensor<?x64xbf16>
        }
      }
      nn.module @mlp class "GatedMLP" {
        nn.module @gate_proj class "Linear" {
          nn.parameter @weight : tensor<128x64xbf16>
          func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
            %w = nn.get_parameter @weight : tensor<128x64xbf16>
            %y = fuse.linear %x, %w
              : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xbf16>
            return %y : tensor<?x128xbf16>
          }
        }
        nn.module @up_proj class "Linear" {
          nn.parameter @weight : tensor<128x64xbf16>
          func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
            %w = nn.get_parameter @weight : tensor<128x64xbf16>
            %y = fuse.linear %x, %w
              : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xbf16>
            return %y : tensor<?x128xbf16>
          }
        }
        nn.module @down_proj class "Linear" {
          nn.parameter @weight : tensor<64x128xbf16>
          func.func @forward(%x: tensor<?x128xbf16>) -> tensor<?x64xbf16> {
            %w = nn.get_parameter @weight : tensor<64x128xbf16>
            %y = fuse.linear %x, %w
              : (tensor<?x128xbf16>, tensor<64x128xbf16>) -> tensor<?x64xbf16>
            return %y : tensor<?x64xbf16>
          }
        }
        func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
          %g = nn.call_module @gate_proj(%x)
            : (tensor<?x64xbf16>) -> tensor<?x128xbf16>
          %a = fuse.activation silu %g : tensor<?x128xbf16> -> tensor<?x128xbf16>
          %u = nn.call_module @up_proj(%x)
            : (tensor<?x64xbf16>) -> tensor<?x128xbf16>
          %p = fuse.gated_mul %a, %u
            : (tensor<?x128xbf16>, tensor<?x128xbf16>) -> tensor<?x128xbf16>
          %d = nn.call_module @down_proj(%p)
            : (tensor<?x128xbf16>) -> tensor<?x64xbf16>
          return %d : tensor<?x64xbf16>
        }
      }
      func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
        %n = nn.call_module @norm(%x)
          : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
        %m = nn.call_module @mlp(%n)
          : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
        %y = fuse.residual_add %x, %m
          : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
        return %y : tensor<?x64xbf16>
      }
    }
  }
  func.func @forward(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
    %0 = nn.call_module @layers::@"0"(%x)
      : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
    %1 = nn.call_module @layers::@"1"(%0)
      : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
    return %1 : tensor<?x64xbf16>
  }
}
