// REQUIRES: x86_64

// The IR in an artifact can be unfused, and has the layers of the module. The
// code has the results of these layers. Without scheduled kernels, it has their
// bits. Code that is not linked is loaded by the compiler alone.

// RUN: fuse-compile %s -o %t.fuse
// RUN: fuse-compile --verify %t.fuse | FileCheck %s --check-prefix=SCHEDULED
// RUN: fuse-artifact info --ir %t.fuse | fuse-opt --fuse-unfuse \
// RUN:   | FileCheck %s --check-prefix=LAYERS

// RUN: fuse-compile %s --portable -o %t.portable.fuse
// RUN: fuse-compile --verify %t.portable.fuse \
// RUN:   | FileCheck %s --check-prefix=PORTABLE

// RUN: fuse-compile %s --cpu=x86-64-v2 --no-link -o %t.v2.fuse
// RUN: fuse-compile --verify %t.v2.fuse | FileCheck %s --check-prefix=SCHEDULED

// SCHEDULED: V0 unfused IR is that of the layers ok
// SCHEDULED: V2 @mlp has the results of its layers up to the order of sums ok

// PORTABLE: V1 @mlp has the bits of its layers ok

// LAYERS: fuse.linear
// LAYERS: fuse.activation silu
// LAYERS: fuse.linear

func.func @mlp(%x: tensor<?x8xf32>,
    %up: tensor<16x8xf32> {fuse.parameter = "up.weight"},
    %down: tensor<8x16xf32> {fuse.parameter = "down.weight"})
    -> tensor<?x8xf32> {
  %0 = fuse.linear %x, %up
    : (tensor<?x8xf32>, tensor<16x8xf32>) -> tensor<?x16xf32>
  %1 = fuse.activation silu %0 : tensor<?x16xf32> -> tensor<?x16xf32>
  %2 = fuse.linear %1, %down
    : (tensor<?x16xf32>, tensor<8x16xf32>) -> tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
