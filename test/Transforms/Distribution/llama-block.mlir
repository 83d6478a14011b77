// One text describes all ranks of a Llama block, from its modules to kernels.
// Forming can be undone (RUN 1). The body of the site has shards (RUN 2), which
// become the types of a rank with a sum over ranks (RUN 3). A stored weight of
// two parameters is cut piece by piece (RUN 4). The function of a rank can be
// formed from its layers as well (RUN 5).

// RUN: fuse-opt %s --fuse-check-unfuse='patterns=((RMSNorm,*.norm),(MLP,*.mlp))->gated_mlp'
// RUN: fuse-opt %s --fuse-match-modules='patterns=((RMSNorm,*.norm),(MLP,*.mlp))->gated_mlp' \
// RUN:   --fuse-inline-modules --fuse-form-kernels -o %t.mlir
// RUN: FileCheck %s --check-prefix=SITE < %t.mlir
// RUN: fuse-opt %t.mlir --fuse-flatten-models --fuse-localize-shards -o %t.local.mlir
// RUN: FileCheck %s --check-prefix=LOCAL < %t.local.mlir
// RUN: fuse-opt %t.mlir --fuse-pack-weights='layouts=gu=interleave(1:gate.weight,1:up.weight,block=2)' \
// RUN:   --fuse-flatten-models --fuse-localize-shards \
// RUN:   | FileCheck %s --check-prefix=PACKED
// RUN: fuse-opt %t.local.mlir --fuse-unfuse --fuse-check-unfuse
// RUN: fuse-opt %t.local.mlir --fuse-unfuse --fuse-form-kernels \
// RUN:   | FileCheck %s --check-prefix=LOCAL
// RUN: fuse-run %t.mlir --all-ranks --verify --dim=3 \
// RUN:   | FileCheck %s --check-prefix=RESULT
// RUN: fuse-explain %s --tokens=4 \
// RUN:   --patterns='((RMSNorm,*.norm),(MLP,*.mlp))->gated_mlp' \
// RUN:   | FileCheck %s --check-prefix=EXPLAIN

// SITE: func.func {{.*}}fuse.parameter = @llama::@layer::@mlp::@gate::@weight, fuse.shard = #fuse.shard<dim = 0, axis = "tp", count = 2>
// SITE-SAME: fuse.parameter = @llama::@layer::@mlp::@down::@weight, fuse.shard = #fuse.shard<dim = 1, axis = "tp", count = 2>
// SITE: fuse.gated_mlp {{.*}} tensor<16x8xbf16>, tensor<8x16xbf16>) -> tensor<?x8xbf16>

// LOCAL: func.func @llama({{.*}}tensor<8x8xbf16> {fuse.parameter = "layer.mlp.gate.weight", fuse.shard = #fuse.shard<dim = 0, axis = "tp", count = 2>}
// LOCAL-SAME: attributes {fuse.ranks = 2 : i64}
// LOCAL: %[[P:.*]] = fuse.gated_mlp {{.*}} tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xf32>
// LOCAL: %[[S:.*]] = fuse.all_reduce %[[P]] group("tp", 2) order(rank) : (tensor<?x8xf32>) -> tensor<?x8xbf16>
// LOCAL: %[[R:.*]] = fuse.residual_add %{{.*}}, %[[S]]
// LOCAL: fuse.rms_norm %[[R]]

// Parts of the interleaved weight are consecutive: 16 of 32 rows.

// PACKED: tensor<16x8xbf16> {fuse.parameter = "layer.norm+mlp.gu", fuse.shard = #fuse.shard<dim = 0, axis = "tp", count = 2>}
// PACKED: tensor.expand_shape {{.*}} output_shape [4, 2, 2, 8] : tensor<16x8xbf16> into tensor<4x2x2x8xbf16>
// PACKED: tensor.collapse_shape {{.*}} : tensor<2x4x2x8xbf16> into tensor<16x8xbf16>
// PACKED: fuse.gated_mlp {{.*}} tensor<8x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<?x8xf32>

// RESULT-NOT: FAILED
// RESULT: V1 {{.*}} bit-equal
// RESULT-NOT: FAILED

// The norm is whole, 16 bytes, and each of three matrices is 256 bytes.

// EXPLAIN: layer.norm+mlp#0 modules fused gated_mlp
// EXPLAIN-NEXT: each of 2 ranks of 'tp' has 400 of 784 parameter bytes and adds 128 bytes of partial results in f32

nn.model @llama class "Llama" {
  nn.module @layer class "DecoderLayer" {
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
      nn.module @gate class "Linear"
          tensor_parallel(<kind = colwise, axis = "tp", size = 2>) {
        nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
          : tensor<16x8xbf16>
        func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x16xbf16> {
          %w = nn.get_parameter @weight : tensor<16x8xbf16>
          %y = fuse.linear %x, %w
            : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
          return %y : tensor<?x16xbf16>
        }
      }
      nn.module @up class "Linear"
          tensor_parallel(<kind = colwise, axis = "tp", size = 2>) {
        nn.parameter @weight shard(<dim = 0, axis = "tp", count = 2>)
          : tensor<16x8xbf16>
        func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x16xbf16> {
          %w = nn.get_parameter @weight : tensor<16x8xbf16>
          %y = fuse.linear %x, %w
            : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
          return %y : tensor<?x16xbf16>
        }
      }
      nn.module @down class "Linear"
          tensor_parallel(<kind = rowwise, axis = "tp", size = 2>) {
        nn.parameter @weight shard(<dim = 1, axis = "tp", count = 2>)
          : tensor<8x16xbf16>
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
        %a = fuse.activation silu %g : tensor<?x16xbf16> -> tensor<?x16xbf16>
        %u = nn.call_module @up(%x) : (tensor<?x8xbf16>) -> tensor<?x16xbf16>
        %p = fuse.gated_mul %a, %u
          : (tensor<?x16xbf16>, tensor<?x16xbf16>) -> tensor<?x16xbf16>
        %d = nn.call_module @down(%p)
          : (tensor<?x16xbf16>) -> tensor<?x8xbf16>
        return %d : tensor<?x8xbf16>
      }
    }
    func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
      %n = nn.call_module @norm(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
      %m = nn.call_module @mlp(%n) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
      %y = fuse.residual_add %x, %m
        : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
      return %y : tensor<?x8xbf16>
    }
  }
  nn.module @last class "RMSNorm" {
    nn.parameter @weight : tensor<8xbf16>
    func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
      %w = nn.get_parameter @weight : tensor<8xbf16>
      %y = fuse.rms_norm %x weight(%w) eps 1.0e-6
        : (tensor<?x8xbf16>, tensor<8xbf16>) -> tensor<?x8xbf16>
      return %y : tensor<?x8xbf16>
    }
  }
  func.func @forward(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %y = nn.call_module @layer(%x) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    %n = nn.call_module @last(%y) : (tensor<?x8xbf16>) -> tensor<?x8xbf16>
    return %n : tensor<?x8xbf16>
  }
}
