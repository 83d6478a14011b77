// A function on tensors without elements has nothing to launch, which is no
// error, beside other functions and alone.

// RUN: rm -rf %t && split-file %s %t
// RUN: fuse-compile %t/alone.mlir --chip=sm_90 --assemble=never -o %t/a.fuse
// RUN: fuse-artifact info %t/a.fuse | FileCheck %s --check-prefix=ALONE
// RUN: fuse-compile %t/beside.mlir --cpu=none --chip=sm_90 --assemble=never \
// RUN:   -o %t/b.fuse
// RUN: fuse-artifact info %t/b.fuse | FileCheck %s --check-prefix=BESIDE

// ALONE-NOT:   section {{.*}} PTX
// ALONE:       @empty
// ALONE-NOT:   CUDA
// ALONE-NOT:   launch

// BESIDE-LABEL: @empty
// BESIDE-NOT:   launch
// BESIDE-LABEL: @full
// BESIDE:       CUDA sm_90
// BESIDE:       launch map_f32_f32

//--- alone.mlir
func.func @empty(%x: tensor<0x8xf32>) -> tensor<0x8xf32> {
  %0 = fuse.activation silu %x : tensor<0x8xf32> -> tensor<0x8xf32>
  return %0 : tensor<0x8xf32>
}

//--- beside.mlir
func.func @empty(%x: tensor<0x8xf32>) -> tensor<0x8xf32> {
  %0 = fuse.activation silu %x : tensor<0x8xf32> -> tensor<0x8xf32>
  return %0 : tensor<0x8xf32>
}
func.func @full(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = fuse.activation silu %x : tensor<2x8xf32> -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}
