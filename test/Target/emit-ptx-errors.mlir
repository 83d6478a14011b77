// RUN: not fuse-opt %s --fuse-emit-ptx 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not fuse-opt %s --convert-linalg-to-gpu --fuse-emit-ptx 2>&1 \
// RUN:   | FileCheck %s --check-prefix=TARGET
// RUN: not fuse-opt %s --fuse-gpu-pipeline \
// RUN:   --fuse-emit-ptx=output=%t.no/such/file.ptx 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FILE

// NONE: error: has no kernel in PTX
// TARGET: 'gpu.module' op expected one target to compile for, but got 0
// FILE: error: cannot open output file '{{.*}}file.ptx': No such file or directory
func.func @copy(%x: memref<8xf32>, %y: memref<8xf32>) {
  memref.copy %x, %y : memref<8xf32> to memref<8xf32>
  return
}
