// RUN: fuse-opt %s --fuse-results-to-arguments --split-input-file \
// RUN:   --verify-diagnostics | FileCheck %s

// CHECK-LABEL: func @results(
// CHECK-SAME:    %[[X:.+]]: tensor<?xf32> {bufferization.writable = false}, %{{.+}}: i32,
// CHECK-SAME:    %[[R0:.+]]: memref<?xf32> {fuse.result}, %[[R1:.+]]: memref<4xf32> {fuse.result})
// CHECK:         %[[C:.+]] = arith.constant dense
// CHECK:         bufferization.materialize_in_destination %[[X]] in restrict writable %[[R0]]
// CHECK:         bufferization.materialize_in_destination %[[C]] in restrict writable %[[R1]]
// CHECK:         return{{$}}
func.func @results(%x: tensor<?xf32>, %i: i32)
    -> (tensor<?xf32>, tensor<4xf32>) {
  %c = arith.constant dense<1.0> : tensor<4xf32>
  return %x, %c : tensor<?xf32>, tensor<4xf32>
}

// A result is written in the shape that it was computed in.

// CHECK-LABEL: func @reshaped(
// CHECK-SAME:    %[[X:.+]]: tensor<?x8xf32> {{.*}}%[[R:.+]]: memref<2x?x8xf32> {fuse.result}
// CHECK:         %[[VIEW:.+]] = memref.collapse_shape %[[R]] {{\[}}[0, 1], [2]]
// CHECK:         bufferization.materialize_in_destination %[[X]] in restrict writable %[[VIEW]]
func.func @reshaped(%x: tensor<?x8xf32>, %n: index) -> tensor<2x?x8xf32> {
  %0 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, %n, 8]
    : tensor<?x8xf32> into tensor<2x?x8xf32>
  return %0 : tensor<2x?x8xf32>
}

// Declarations have nothing to write.

// CHECK: func private @external(tensor<?xf32>) -> tensor<?xf32>
func.func private @external(%x: tensor<?xf32>) -> tensor<?xf32>

// -----

func.func private @callee(%x: tensor<?xf32>) -> tensor<?xf32>
func.func @call(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error@+1 {{'func.call' op of 'callee' cannot be launched, expected functions without calls; inline the callee}}
  %0 = func.call @callee(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// expected-error@+1 {{expected ranked tensors as results of a function that launches kernels, but got 'f32'}}
func.func @scalar(%x: f32) -> f32 {
  return %x : f32
}

// -----

// expected-error@+1 {{expected one block that ends in a return in a function that launches kernels}}
func.func @blocks(%x: tensor<?xf32>) -> tensor<?xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<?xf32>
}

// -----

// expected-error@+1 {{expected one block that ends in a return in a function that launches kernels}}
func.func @endless(%x: tensor<4xf32>) -> tensor<4xf32> {
  llvm.unreachable
}
