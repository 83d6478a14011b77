// RUN: fuse-opt %s --fuse-gpu-pipeline="chip=sm_90a stage=gpu" \
// RUN:   --fuse-hopper-pipeline=stage=nvvm --verify-diagnostics \
// RUN:   | FileCheck %s --check-prefix=GPU
// RUN: fuse-opt %s --fuse-gpu-pipeline="chip=sm_90a stage=gpu" \
// RUN:   --fuse-hopper-pipeline=stage=nvvm \
// RUN:   --fuse-gpu-pipeline="chip=sm_90a stage=nvvm" --verify-diagnostics \
// RUN:   | FileCheck %s --check-prefix=NVVM

// The lowering of scheduled kernels leaves those of the portable path alone:
// they have workgroup memory, and functions that fuse-expand-math expands.

// GPU-LABEL: gpu.func @reduce_
// GPU-SAME:  #gpu.address_space<workgroup>
// GPU-LABEL: gpu.func @map_
// GPU:       math.exp

// NVVM:      llvm.func @reduce_
// NVVM-NOT:  math.
// NVVM:      llvm.func @map_
// NVVM-NOT:  math.
func.func @two(%x: tensor<2x64xf32>, %w: tensor<64xf32>) -> tensor<2x64xf32> {
  %0 = fuse.rms_norm %x weight(%w) eps 1.0e-05 cast after_weight
    : (tensor<2x64xf32>, tensor<64xf32>) -> tensor<2x64xf32>
  %1 = fuse.activation silu %0 : tensor<2x64xf32> -> tensor<2x64xf32>
  return %1 : tensor<2x64xf32>
}
