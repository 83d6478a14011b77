// The code of each step of the lowering, and a time.

// RUN: fuse-run %s --emit=linalg | FileCheck %s --check-prefix=LINALG
// RUN: fuse-run %s --emit=llvm | FileCheck %s --check-prefix=LLVM
// RUN: fuse-run %s --emit=gpu | FileCheck %s --check-prefix=GPU
// RUN: fuse-run %s --emit=nvvm --entry=f | FileCheck %s --check-prefix=NVVM
// RUN: fuse-run %s --emit=ptx --chip=sm_80 | FileCheck %s --check-prefix=PTX
// RUN: fuse-run %s --dim=3 --bench --iterations=2 \
// RUN:   | FileCheck %s --check-prefix=TIME
// RUN: rm -rf %t && fuse-run %s --dump-phases-to=%t
// RUN: ls %t | FileCheck %s --check-prefix=PHASES

// LINALG-LABEL: func.func @f
// LINALG: linalg.generic
// LLVM: define {{.*}} @_mlir_ciface_f
// GPU: gpu.func
// NVVM: llvm.func {{.*}} nvvm.kernel
// PTX: .target sm_80
// PTX: .entry
// TIME: time: median {{[0-9.]+}} us, min {{[0-9.]+}} us, 2 calls
// PHASES: 1.input.mlir
// PHASES-NEXT: 2.linalg.mlir
// PHASES-NEXT: 3.buffers.mlir
// PHASES-NEXT: 4.loops.mlir
// PHASES-NEXT: 5.llvm.mlir
func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = fuse.activation relu %x : tensor<?x8xf32> -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
