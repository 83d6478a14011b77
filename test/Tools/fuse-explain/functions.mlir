// RUN: fuse-explain %s --tokens=4 | FileCheck %s

// Functions between linears that no kernel has. A kernel would have both linears
// and the function, and the hidden values between them.

// CHECK:      site level state kernel or reason layers bytes between flop
// CHECK-NEXT: leaky_relu#0 ops refused FUSE-N027 unknown-activation (3) (1024) -
// CHECK-NEXT:   at arith.maximumf,
// CHECK-NEXT:   the function between two linears is not an activation of
// CHECK:      merged#0 ops refused FUSE-N026 merged-projections
// CHECK-NEXT:   at tensor.extract_slice,
// CHECK-NEXT:   gate and up are slices of the result of one linear
// CHECK-NEXT:   do: split the weight, or run fuse-raise-layers
// CHECK:      0 sites fused, 2 refused

func.func @leaky_relu(%x: tensor<?x8xf32>, %w1: tensor<16x8xf32>,
                      %w2: tensor<8x16xf32>) -> tensor<?x8xf32> {
  %slope = arith.constant 0.1 : f32
  %c0 = arith.constant 0 : index
  %tokens = tensor.dim %x, %c0 : tensor<?x8xf32>
  %k = tensor.splat %slope[%tokens] : tensor<?x16xf32>
  %u = fuse.linear %x, %w1
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %m = arith.mulf %u, %k : tensor<?x16xf32>
  %a = arith.maximumf %u, %m : tensor<?x16xf32>
  %d = fuse.linear %a, %w2
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  return %d : tensor<?x8xf32>
}

// The result of the linear has another user, so the linear is not split.
func.func @merged(%x: tensor<4x8xf32>, %w: tensor<32x8xf32>,
                  %d: tensor<8x16xf32>) -> (tensor<4x8xf32>, tensor<4x32xf32>) {
  %0 = fuse.linear %x, %w
    : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
  %g = tensor.extract_slice %0[0, 0] [4, 16] [1, 1]
    : tensor<4x32xf32> to tensor<4x16xf32>
  %u = tensor.extract_slice %0[0, 16] [4, 16] [1, 1]
    : tensor<4x32xf32> to tensor<4x16xf32>
  %1 = fuse.activation silu %g : tensor<4x16xf32> -> tensor<4x16xf32>
  %2 = fuse.gated_mul %1, %u
    : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = fuse.linear %2, %d
    : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %y, %0 : tensor<4x8xf32>, tensor<4x32xf32>
}
