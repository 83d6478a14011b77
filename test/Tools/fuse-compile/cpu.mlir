// REQUIRES: x86_64

// An artifact for the CPU has the IR and the code of a module, for this machine
// or for a level of the architecture. The same input gives the same bytes.

// RUN: fuse-compile %s -o %t.fuse
// RUN: fuse-artifact info %t.fuse | FileCheck %s
// RUN: fuse-artifact info --ir %t.fuse | FileCheck %s --check-prefix=IR

// RUN: fuse-compile %s --cpu=x86-64-v2 --no-link -o %t.v2.fuse
// RUN: fuse-artifact info %t.v2.fuse | FileCheck %s --check-prefix=LEVEL

// RUN: fuse-compile %s -o %t.again.fuse
// RUN: cmp %t.fuse %t.again.fuse

// CHECK: artifact of fuse
// CHECK: section 0 {{.*}} manifest
// CHECK: section 1 {{.*}} IR
// CHECK: section 2 {{.*}} CPU code, linked
// CHECK: CPU x86_64 native: runs here
// CHECK: @mlp
// CHECK: argument 0 ?x8xf32
// CHECK: argument 1 16x8xf32 up.weight
// CHECK: result 0 ?x8xf32
// CHECK: site mlp#0 fuse.mlp
// CHECK: rounding #fuse.rounding<exact>
// CHECK: CPU scheduled
// CHECK: workspace {{.*}} bytes per token
// CHECK: packed panels of arguments [1], {{.*}} bytes
// CHECK: packed panels of arguments [2], {{.*}} bytes
// CHECK: phase {{.*}} panels, up to 128 tokens

// IR: module attributes {fuse.version = {{[0-9]+}} : i32} {
// IR: fuse.mlp %{{.*}} up(%{{.*}}) down(%{{.*}}) act(silu)

// LEVEL: section 2 {{.*}} CPU code, not linked
// LEVEL: CPU x86_64 x86-64-v2: runs here

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
