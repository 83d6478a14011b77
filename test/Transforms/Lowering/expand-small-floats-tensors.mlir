// RUN: fuse-opt %s --fuse-expand-small-floats --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s

// Bit arithmetic is on scalars and vectors. A tensor of dynamic sizes has no
// constants, so tensors are refused.

// CHECK-LABEL: func @vector(
// CHECK-NOT:     arith.extf %{{.+}} : vector<4xf8E4M3FN>
// CHECK:         arith.bitcast %{{.+}} : vector<4xf8E4M3FN> to vector<4xi8>
func.func @vector(%w: vector<4xf8E4M3FN>) -> vector<4xf32> {
  %0 = arith.extf %w : vector<4xf8E4M3FN> to vector<4xf32>
  return %0 : vector<4xf32>
}

// -----

func.func @extend(%w: tensor<2x4xf8E4M3FN>) -> tensor<2x4xf32> {
  // expected-error@+1 {{'arith.extf' op expected scalars or vectors to expand, but got 'tensor<2x4xf8E4M3FN>'; convert-elementwise-to-linalg makes scalars of it}}
  %0 = arith.extf %w : tensor<2x4xf8E4M3FN> to tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @truncate(%x: tensor<?xf32>) -> tensor<?xbf16> {
  // expected-error@+1 {{'arith.truncf' op expected scalars or vectors to expand}}
  %0 = arith.truncf %x : tensor<?xf32> to tensor<?xbf16>
  return %0 : tensor<?xbf16>
}

// -----

func.func @integer(%x: tensor<4xi8>) -> tensor<4xf8E5M2> {
  // expected-error@+1 {{'arith.sitofp' op expected scalars or vectors to expand}}
  %0 = arith.sitofp %x : tensor<4xi8> to tensor<4xf8E5M2>
  return %0 : tensor<4xf8E5M2>
}

// -----

// Formats that the pass does not expand may be in tensors.

// CHECK-LABEL: func @half(
// CHECK:         arith.extf %{{.+}} : tensor<4xf16> to tensor<4xf32>
func.func @half(%x: tensor<4xf16>) -> tensor<4xf32> {
  %0 = arith.extf %x : tensor<4xf16> to tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// The body of a named op follows from the types of its operands.
func.func @matmul(%x: tensor<2x4xf8E5M2>, %w: tensor<4x2xf8E5M2>,
                  %sum: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // expected-error@+1 {{'linalg.matmul' op has a fixed body, in which 'arith.extf' cannot be expanded; linalg-generalize-named-ops makes a linalg.generic of it}}
  %0 = linalg.matmul ins(%x, %w : tensor<2x4xf8E5M2>, tensor<4x2xf8E5M2>)
                     outs(%sum : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
