// A function on tensors without elements has a plan without launches.

// RUN: not fuse-run %s --verify --chip=sm_90a | FileCheck %s
// CHECK: V2 portable on fuse emulator ok 0 of 0 values
func.func @f(%x: tensor<0x64xf32>) -> tensor<0x64xf32> {
  %0 = fuse.activation silu %x : tensor<0x64xf32> -> tensor<0x64xf32>
  return %0 : tensor<0x64xf32>
}
