// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --pass-pipeline="builtin.module(gpu.module(convert-kernels-to-nvvm))" \
// RUN:   | FileCheck %s

// Pointers and 64-bit integers are all that a host passes; functions that are
// an instruction are intrinsics.

// CHECK-LABEL: llvm.func @root(
// CHECK-SAME:    %[[X:.+]]: !llvm.ptr, %[[N:.+]]: i64)
// CHECK-SAME:    nvvm.kernel
// CHECK-SAME:    nvvm.maxntid = array<i32: 256, 1, 1>
// CHECK-NOT:     __nv
// CHECK:         llvm.intr.sqrt
// CHECK:         llvm.intr.fma
// CHECK:         llvm.intr.fabs
// CHECK:         llvm.intr.roundeven
gpu.module @kernels {
  gpu.func @root(%x: memref<f32>, %n: index) kernel
      attributes {known_block_size = array<i32: 256, 1, 1>} {
    %v = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1]
      : memref<f32> to memref<?xf32>
    %i = gpu.thread_id x
    %0 = memref.load %v[%i] : memref<?xf32>
    %1 = math.sqrt %0 : f32
    %2 = math.fma %1, %1, %0 : f32
    %3 = math.absf %2 : f32
    %4 = math.roundeven %3 : f32
    memref.store %4, %v[%i] : memref<?xf32>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @remainder(%x: memref<f32>) kernel {
    %0 = memref.load %x[] : memref<f32>
    // expected-error@below {{is called by a kernel, but no library is linked}}
    %1 = arith.remf %0, %0 : f32
    memref.store %1, %x[] : memref<f32>
    gpu.return
  }
}
