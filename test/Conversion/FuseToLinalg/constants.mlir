// RUN: fuse-opt %s --pass-pipeline='builtin.module(func.func(convert-fuse-to-linalg))' \
// RUN:   --split-input-file --verify-diagnostics | FileCheck %s

// LLVM holds the constants of code element by element.

// CHECK-LABEL: func @small
func.func @small() -> tensor<65536x1024xf32> {
  %c = arith.constant dense<1.0> : tensor<65536x1024xf32>
  return %c : tensor<65536x1024xf32>
}

// CHECK-LABEL: func @empty
func.func @empty() -> tensor<9223372036854775807x0xf32> {
  %c = arith.constant dense<1.0> : tensor<9223372036854775807x0xf32>
  return %c : tensor<9223372036854775807x0xf32>
}

// -----

func.func @large() -> tensor<65536x1025xf32> {
  // expected-error@+1 {{of type 'tensor<65536x1025xf32>' is too large for code: expected at most 268435456 bytes, pass it as an argument}}
  %c = arith.constant dense<1.0> : tensor<65536x1025xf32>
  return %c : tensor<65536x1025xf32>
}

// -----

func.func @beyond() -> tensor<4294967296x4294967296xi8> {
  // expected-error@+1 {{is too large for code}}
  %c = arith.constant dense<1> : tensor<4294967296x4294967296xi8>
  return %c : tensor<4294967296x4294967296xi8>
}
