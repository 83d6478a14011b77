// RUN: not fuse-opt %s --fuse-gpu-pipeline=chip=sm_70 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CHIP
// RUN: not fuse-opt %s --fuse-gpu-pipeline=stage=cubin 2>&1 \
// RUN:   | FileCheck %s --check-prefix=STAGE
// RUN: not fuse-opt %s --fuse-gpu-pipeline 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CALL

// CHIP: unknown chip 'sm_70', expected one of sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100
// STAGE: unknown stage 'cubin', expected one of gpu, nvvm, ptx
// CALL: 'func.call' op of 'elsewhere' cannot be launched

func.func private @elsewhere(%x: tensor<?x8xf32>) -> tensor<?x8xf32>

func.func @calls(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = func.call @elsewhere(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
