// RUN: fuse-opt %s --fuse-kernel-formation-pipeline | FileCheck %s

// Sizes of intermediates and casts between layers are not users.

// CHECK-LABEL: func.func @dim
// CHECK-SAME:    %[[X:[a-z0-9]*]]: tensor<?x8xf32>
// CHECK-DAG:     %[[Y:.*]] = fuse.mlp %[[X]]
// CHECK-DAG:     %[[T:.*]] = tensor.dim %[[X]]
// CHECK:         return %[[Y]], %[[T]]
func.func @dim(%x: tensor<?x8xf32>, %w1: tensor<16x8xf32>,
               %w2: tensor<8x16xf32>) -> (tensor<?x8xf32>, index) {
  %c0 = arith.constant 0 : index
  %u = fuse.linear %x, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = fuse.activation silu %u : tensor<?x16xf32> -> tensor<?x16xf32>
  %t = tensor.dim %a, %c0 : tensor<?x16xf32>
  %y = fuse.linear %a, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  return %y, %t : tensor<?x8xf32>, index
}

// CHECK-LABEL: func.func @cast
// CHECK-NEXT:    %[[Y:.*]] = fuse.mlp {{.*}} -> tensor<4x8xbf16>
// CHECK-NEXT:    return %[[Y]]
func.func @cast(%x: tensor<4x8xbf16>, %w1: tensor<16x8xbf16>,
                %w2: tensor<8x16xbf16>) -> tensor<4x8xbf16> {
  %c = tensor.cast %x : tensor<4x8xbf16> to tensor<?x8xbf16>
  %u = fuse.linear %c, %w1
    : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> tensor<?x16xbf16>
  %k = tensor.cast %u : tensor<?x16xbf16> to tensor<4x16xbf16>
  %a = fuse.activation silu %k : tensor<4x16xbf16> -> tensor<4x16xbf16>
  %y = fuse.linear %a, %w2
    : (tensor<4x16xbf16>, tensor<8x16xbf16>) -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// CHECK-LABEL: func.func @casts_of_gate_and_up
// CHECK-SAME:    %[[X:[a-z0-9]*]]: tensor<?x8xf32>
// CHECK-NEXT:    %[[C:.*]] = tensor.cast %[[X]]
// CHECK-NEXT:    %[[Y:.*]] = fuse.gated_mlp %[[C]] {{.*}} -> tensor<4x8xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @casts_of_gate_and_up(%x: tensor<?x8xf32>, %w1: tensor<16x8xf32>,
                                %w2: tensor<8x16xf32>) -> tensor<4x8xf32> {
  %g = fuse.linear %x, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %gate = tensor.cast %g : tensor<?x16xf32> to tensor<4x16xf32>
  %a = fuse.activation silu %gate : tensor<4x16xf32> -> tensor<4x16xf32>
  %u = fuse.linear %x, %w1 {is_up}
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %up = tensor.cast %u : tensor<?x16xf32> to tensor<4x16xf32>
  %p = fuse.gated_mul %a, %up
    : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = fuse.linear %p, %w2
    : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Exporters of PyTorch check the sizes of the operands of a sum. The kernel reads
// the residual, so it stays after the assert.

// CHECK-LABEL: func.func @assert
// CHECK:         cf.assert
// CHECK-NEXT:    %[[Y:.*]] = fuse.mlp %{{.*}} then_add(
// CHECK:         return %[[Y]]
func.func @assert(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>,
                  %w1: tensor<16x8xf32>, %w2: tensor<8x16xf32>)
    -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %u = fuse.linear %x, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = fuse.activation silu %u : tensor<?x16xf32> -> tensor<?x16xf32>
  %y = fuse.linear %a, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %d0 = tensor.dim %y, %c0 : tensor<?x8xf32>
  %d1 = tensor.dim %r, %c0 : tensor<?x8xf32>
  %eq = arith.cmpi eq, %d0, %d1 : index
  cf.assert %eq, "mismatched size for broadcast"
  %s = fuse.residual_add %y, %r
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}

// A value that is really used elsewhere still prevents the kernel.

// CHECK-LABEL: func.func @used
// CHECK-NOT:     fuse.mlp
// CHECK:         return
func.func @used(%x: tensor<?x8xf32>, %w1: tensor<16x8xf32>,
                %w2: tensor<8x16xf32>) -> (tensor<?x8xf32>, tensor<?x16xf32>) {
  %u = fuse.linear %x, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = fuse.activation silu %u : tensor<?x16xf32> -> tensor<?x16xf32>
  %y = fuse.linear %a, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  return %y, %a : tensor<?x8xf32>, tensor<?x16xf32>
}
