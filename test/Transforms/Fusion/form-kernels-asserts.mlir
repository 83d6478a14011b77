// RUN: fuse-opt %s --fuse-form-kernels -o %t.mlir \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark 2> %t.remarks
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK
// RUN: fuse-opt %s -o %t.before.mlir
// RUN: fuse-opt %t.mlir --fuse-unfuse | diff %t.before.mlir -

// A kernel reads all of its operands, so it stays after an assert that may guard
// one of them. Unfusing restores the order.

// CHECK-LABEL: func @guarded_residual(
// CHECK:         cf.assert
// CHECK-NEXT:    fuse.mlp
func.func @guarded_residual(%x: tensor<?x8xf32>, %r: tensor<?x8xf32>,
                            %w1: tensor<16x8xf32>, %w2: tensor<8x16xf32>)
    -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %m = tensor.dim %r, %c0 : tensor<?x8xf32>
  %u = fuse.linear %x, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = fuse.activation silu %u : tensor<?x16xf32> -> tensor<?x16xf32>
  %y = fuse.linear %a, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %eq = arith.cmpi eq, %n, %m : index
  cf.assert %eq, "mismatched size for broadcast"
  %s = fuse.residual_add %y, %r
    : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %s : tensor<?x8xf32>
}

// An assert after the chain guards nothing of it.

// CHECK-LABEL: func @assert_after(
// CHECK:         fuse.mlp
// CHECK:         cf.assert
func.func @assert_after(%x: tensor<?x8xf32>, %w1: tensor<16x8xf32>,
                        %w2: tensor<8x16xf32>) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %u = fuse.linear %x, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %a = fuse.activation silu %u : tensor<?x16xf32> -> tensor<?x16xf32>
  %y = fuse.linear %a, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  %some = arith.cmpi sgt, %n, %c0 : index
  cf.assert %some, "empty"
  return %y : tensor<?x8xf32>
}

// The stream is used before the assert, so the kernel cannot be after it.

// CHECK-LABEL: func @used_before(
// CHECK-NOT:     fuse.norm_linear
// REMARK: FUSE-N161 result-used-before-assert
func.func @used_before(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>, %c: i1,
                       %w: tensor<16x8xf32>)
    -> (tensor<4x16xf32>, tensor<4x8xf32>) {
  %s = fuse.residual_add %x, %r
    : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = math.exp %s : tensor<4x8xf32>
  %n = fuse.rms_norm %s eps 1.0e-6 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  cf.assert %c, "a condition"
  %y = fuse.linear %n, %w
    : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %y, %e : tensor<4x16xf32>, tensor<4x8xf32>
}
