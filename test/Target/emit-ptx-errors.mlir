// RUN: not fuse-opt %s --fuse-emit-ptx 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fuse-opt %s --convert-linalg-to-gpu --fuse-emit-ptx 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TARGET
// RUN: not fuse-opt %s --fuse-gpu-pipeline \
// RUN:   --fuse-emit-ptx=output=%t.no/such/file.ptx 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FILE
// RUN: not fuse-opt %s --fuse-gpu-pipeline \
// RUN:   --fuse-emit-ptx=output=/dev/full -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FULL
// RUN: not fuse-opt %s --fuse-gpu-pipeline \
// RUN:   --fuse-emit-ptx="output=%t.ptx plan=/dev/full" -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FULL
// RUN: split-file %S/Inputs/modules.mlir %t.inputs
// RUN: not fuse-opt %t.inputs/chip.mlir --fuse-emit-ptx 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CHIP
// RUN: not fuse-opt %t.inputs/rocdl.mlir --fuse-emit-ptx 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ROCDL
// RUN: not fuse-opt %t.inputs/plan.mlir --fuse-emit-ptx=plan=- 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PLAN

// NONE: error: has no kernel in PTX
// TARGET: 'gpu.module' op expected one target to compile for, but got 0
// FILE: error: {{.*}}file.ptx{{.*}}: No such file or directory
// FULL: error: /dev/full: No space left on device
// CHIP: 'gpu.module' op is for an unknown chip 'sm_99', expected one of sm_80,
// ROCDL: 'gpu.module' op expected a target of type #nvvm.target, but got #rocdl.target
// PLAN: 'func.func' op has a malformed fuse.launch_plan
func.func @copy(%x: memref<8xf32>, %y: memref<8xf32>) {
  memref.copy %x, %y : memref<8xf32> to memref<8xf32>
  return
}
