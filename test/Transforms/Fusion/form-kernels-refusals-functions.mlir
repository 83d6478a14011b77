// RUN: fuse-opt %s --fuse-form-kernels -split-input-file -verify-diagnostics \
// RUN:   --remarks-filter=fuse --remark-format=emitRemark | FileCheck %s

// Functions between linears that no kernel has. Each is a site, and its remark
// is at the op that is in the way.

// A function that is not an activation. The site has the last number, although
// its op is the first.

// CHECK-LABEL: func @leaky_relu(
// CHECK-NOT:     fuse.mlp
// CHECK:         fuse.norm_linear
func.func @leaky_relu(%x: tensor<4x8xf32>, %w1: tensor<16x8xf32>,
                      %w2: tensor<8x16xf32>, %w3: tensor<8x8xf32>)
    -> tensor<4x8xf32> {
  %k = arith.constant dense<0.1> : tensor<4x16xf32>
  %u = fuse.linear %x, %w1
    : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %m = arith.mulf %u, %k : tensor<4x16xf32>
  // expected-remark-re @below {{[Missed] leaky_relu#1 {{.*}}At=arith.maximumf{{.*}}FUSE-N027 unknown-activation}}
  %a = arith.maximumf %u, %m : tensor<4x16xf32>
  %d = fuse.linear %a, %w2
    : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  // expected-remark @below {{[Passed] leaky_relu#0}}
  %n = fuse.rms_norm %d eps 1.0e-6 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = fuse.linear %n, %w3
    : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A product of gate and up without an activation.

// CHECK-LABEL: func @bilinear(
// CHECK:         fuse.gated_mul
func.func @bilinear(%x: tensor<4x8xf32>, %g: tensor<16x8xf32>,
                    %u: tensor<16x8xf32>, %d: tensor<8x16xf32>)
    -> tensor<4x8xf32> {
  %0 = fuse.linear %x, %g
    : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %1 = fuse.linear %x, %u
    : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  // expected-remark-re @below {{[Missed] bilinear#0 {{.*}}At=fuse.gated_mul{{.*}}FUSE-N028 no-activation}}
  %2 = fuse.gated_mul %0, %1
    : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = fuse.linear %2, %d
    : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// The gate is clamped before its activation, as in gpt-oss.

// CHECK-LABEL: func @clamped_gate(
// CHECK-NOT:     fuse.gated_mlp
func.func @clamped_gate(%x: tensor<4x8xf32>, %g: tensor<16x8xf32>,
                        %u: tensor<16x8xf32>, %d: tensor<8x16xf32>)
    -> tensor<4x8xf32> {
  %limit = arith.constant dense<7.0> : tensor<4x16xf32>
  %0 = fuse.linear %x, %g
    : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %1 = arith.minimumf %0, %limit : tensor<4x16xf32>
  // expected-remark-re @below {{[Missed] clamped_gate#0 {{.*}}At=arith.minimumf{{.*}}FUSE-N025 op-before-activation}}
  %2 = fuse.activation quick_gelu %1 : tensor<4x16xf32> -> tensor<4x16xf32>
  %3 = fuse.linear %x, %u
    : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %4 = fuse.gated_mul %2, %3
    : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = fuse.linear %4, %d
    : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// One is added to up before the product.

// CHECK-LABEL: func @shifted_up(
// CHECK-NOT:     fuse.gated_mlp
func.func @shifted_up(%x: tensor<4x8xf32>, %g: tensor<16x8xf32>,
                      %u: tensor<16x8xf32>, %d: tensor<8x16xf32>)
    -> tensor<4x8xf32> {
  %one = arith.constant dense<1.0> : tensor<4x16xf32>
  %0 = fuse.linear %x, %g
    : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  // expected-remark-re @below {{[Missed] shifted_up#0 {{.*}}At=arith.addf{{.*}}FUSE-N025 op-before-activation}}
  %1 = fuse.activation silu %0 : tensor<4x16xf32> -> tensor<4x16xf32>
  %2 = fuse.linear %x, %u
    : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %3 = arith.addf %2, %one : tensor<4x16xf32>
  %4 = fuse.gated_mul %1, %3
    : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = fuse.linear %4, %d
    : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// Gate and up are halves of one product.

// CHECK-LABEL: func @merged(
// CHECK-NOT:     fuse.gated_mlp
func.func @merged(%x: tensor<4x8xf32>, %w: tensor<32x8xf32>,
                  %d: tensor<8x16xf32>) -> tensor<4x8xf32> {
  %0 = fuse.linear %x, %w
    : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
  %g = tensor.extract_slice %0[0, 0] [4, 16] [1, 1]
    : tensor<4x32xf32> to tensor<4x16xf32>
  %u = tensor.extract_slice %0[0, 16] [4, 16] [1, 1]
    : tensor<4x32xf32> to tensor<4x16xf32>
  // expected-remark-re @below {{[Missed] merged#0 {{.*}}At=tensor.extract_slice{{.*}}FUSE-N026 merged-projections}}
  %1 = fuse.activation silu %g : tensor<4x16xf32> -> tensor<4x16xf32>
  %2 = fuse.gated_mul %1, %u
    : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %y = fuse.linear %2, %d
    : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// No function between the linears: a cast, a reshape, attention.

// CHECK-LABEL: func @no_function(
func.func @no_function(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>,
                       %v: tensor<8x8xbf16>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  %0 = fuse.linear %x, %w
    : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = tensor.expand_shape %0 [[0], [1, 2]] output_shape [4, 2, 4]
    : tensor<4x8xf32> into tensor<4x2x4xf32>
  %2 = tensor.collapse_shape %1 [[0], [1, 2]]
    : tensor<4x2x4xf32> into tensor<4x8xf32>
  %3 = fuse.linear %2, %w
    : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = arith.truncf %3 : tensor<4x8xf32> to tensor<4x8xbf16>
  %5 = fuse.linear %4, %v
    : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xf32>
  %6 = linalg.matmul
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
                       affine_map<(m, n, k) -> (n, k)>,
                       affine_map<(m, n, k) -> (m, n)>]
      ins(%5, %x : tensor<4x8xf32>, tensor<4x8xf32>)
      outs(%zero : tensor<4x4xf32>) -> tensor<4x4xf32>
  %7 = linalg.matmul ins(%6, %x : tensor<4x4xf32>, tensor<4x8xf32>)
      outs(%5 : tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = fuse.linear %7, %w
    : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
