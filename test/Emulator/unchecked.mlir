// A value has a contract if each op that computes it has one. V2 says which
// values it could not check, and does not call them ok.

// RUN: fuse-run %s --verify --chip=sm_80 --dim=2 | FileCheck %s

// CHECK: V2 portable on fuse emulator unchecked 0 of 64 values checked by contract, the same bits 3 times; not checked: the interpreter does not know 'math.exp'
// CHECK-NEXT: and against reference ok

func.func @exponential(%x: tensor<?x32xf32>, %w1: tensor<32x32xf32>,
                       %w2: tensor<32x32xf32>) -> tensor<?x32xf32> {
  %0 = fuse.linear %x, %w1
    : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  %1 = fuse.activation silu %0 : tensor<?x32xf32> -> tensor<?x32xf32>
  %2 = fuse.linear %1, %w2
    : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  %3 = math.exp %2 : tensor<?x32xf32>
  return %3 : tensor<?x32xf32>
}
