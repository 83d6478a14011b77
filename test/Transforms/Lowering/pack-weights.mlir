// RUN: fuse-opt %s -o %t.input
// RUN: fuse-opt %s -o %t.concat \
// RUN:   --fuse-match-modules='patterns=((*,norm),(*,mlp))->gated_mlp' \
// RUN:   --fuse-inline-modules --fuse-form-kernels \
// RUN:   --fuse-pack-weights='layouts=gate_up=concat(1:gate,1:up)'
// RUN: FileCheck %s --input-file=%t.concat
// RUN: fuse-opt %t.concat --fuse-unfuse | diff %t.input -
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,norm),(*,mlp))->gated_mlp' \
// RUN:   --fuse-pack-weights='layouts=gate_up=concat(1:gate,1:up,keep)' \
// RUN:   | FileCheck %s --check-prefix=KEEP
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,norm),(*,mlp))->gated_mlp' \
// RUN:   --fuse-inline-modules --fuse-form-kernels \
// RUN:   --fuse-pack-weights='layouts=turned=transpose(1:down)' \
// RUN:   | FileCheck %s --check-prefix=TURNED

// Gate and up become one stored weight. The call records its recipe. The
// function of the site has the packed weight as an argument instead of both,
// and reads slices.

// CHECK:      nn.fused_call gated_mlp [@norm, @mlp]
// CHECK-SAME:   body(@"norm+mlp#0") weights
// CHECK-SAME:   [#nn.recipe<"norm+mlp.gate_up" = concat(@mlp::@gate, @mlp::@up)>]
// CHECK:      func.func @"norm+mlp#0"(%[[X:.*]]: tensor<?x8xf32>,
// CHECK-SAME:   %[[W:.*]]: tensor<32x8xf32> {fuse.parameter = "norm+mlp.gate_up"},
// CHECK-SAME:   %[[D:.*]]: tensor<8x16xf32> {fuse.parameter = @m::@mlp::@down})
// CHECK-NEXT: %[[G:.*]] = tensor.extract_slice %[[W]][0, 0] [16, 8] [1, 1]
// CHECK-NEXT: %[[U:.*]] = tensor.extract_slice %[[W]][16, 0] [16, 8] [1, 1]
// CHECK-NEXT: fuse.gated_mlp %[[X]] norm(rms eps 1.0e-06) gate(%[[G]])
// CHECK-SAME:   up(%[[U]]) down(%[[D]])

// Without a body, there is only the recipe.

// KEEP: weights [#nn.recipe<"norm+mlp.gate_up" = concat(@mlp::@gate, @mlp::@up) keep>]

// The transpose of a weight. The function reads it back, and a host packs that.

// TURNED:      weights [#nn.recipe<"norm+mlp.turned" = transpose(@mlp::@down)>]
// TURNED:      func.func @"norm+mlp#0"(
// TURNED-SAME:   %[[W:[a-z0-9]+]]: tensor<16x8xf32> {fuse.parameter = "norm+mlp.turned"})
// TURNED:      %[[D:.*]] = linalg.transpose ins(%[[W]] : tensor<16x8xf32>)
// TURNED:      fuse.gated_mlp {{.*}} down(%[[D]])

nn.model @m class "M" {
  nn.module @norm class "RMSNorm" {
    func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
      %y = fuse.rms_norm %x eps 1.0e-6 : (tensor<?x8xf32>) -> tensor<?x8xf32>
      return %y : tensor<?x8xf32>
    }
  }
  nn.module @mlp class "MLP" {
    nn.parameter @gate : tensor<16x8xf32>
    nn.parameter @up : tensor<16x8xf32>
    nn.parameter @down : tensor<8x16xf32>
    func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
      %wg = nn.get_parameter @gate : tensor<16x8xf32>
      %wu = nn.get_parameter @up : tensor<16x8xf32>
      %wd = nn.get_parameter @down : tensor<8x16xf32>
      %g = fuse.linear %x, %wg
        : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
      %a = fuse.activation silu %g : tensor<?x16xf32> -> tensor<?x16xf32>
      %u = fuse.linear %x, %wu
        : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
      %p = fuse.gated_mul %a, %u
        : (tensor<?x16xf32>, tensor<?x16xf32>) -> tensor<?x16xf32>
      %d = fuse.linear %p, %wd
        : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
      return %d : tensor<?x8xf32>
    }
  }
  func.func @forward(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
    %n = nn.call_module @norm(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
    %m = nn.call_module @mlp(%n) : (tensor<?x8xf32>) -> tensor<?x8xf32>
    return %m : tensor<?x8xf32>
  }
}
